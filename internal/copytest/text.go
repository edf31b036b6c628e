package copytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// Text returns the content of a store that users can see: lists, lines, histories, requests
// and exports. Copies of a store give the same text.
func Text(ctx context.Context, st *session.Store) (string, error) {
	infos, err := st.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return "", err
	}
	var sb strings.Builder
	for _, info := range infos {
		info.Size, info.End = 0, 0 // sizes and offsets differ between drivers
		if err := add(&sb, "session", info); err != nil {
			return "", err
		}
		s, err := st.Get(ctx, info.Ref)
		if err == nil {
			err = describe(ctx, &sb, s)
		}
		if err != nil {
			return "", err
		}
	}
	return sb.String(), nil
}

func add(w io.Writer, name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s: %s\n", name, text)
	}
	return err
}

// describe writes the visible content of one session.
func describe(ctx context.Context, w io.Writer, s *session.Session) error {
	for _, write := range []func(context.Context, *session.Session, io.Writer) error{exchange.Lines, exchange.Markdown, request, foreign, standing} {
		if err := write(ctx, s, w); err != nil {
			return err
		}
	}
	return nil
}

func request(ctx context.Context, s *session.Session, w io.Writer) error {
	_, err := exchange.Request(ctx, s, w, anthropic.Format{}, transcript.Request{Model: "m"})
	return err
}

// kept is an open file of another program; all such files go to one writer.
type kept struct{ io.Writer }

func (kept) Close() error { return nil }

func foreign(ctx context.Context, s *session.Session, w io.Writer) error {
	to, err := dialect.NewWriter(dialect.ZyHive, func(name string) (io.WriteCloser, error) {
		_, err := fmt.Fprintf(w, "file %s:\n", name)
		return kept{w}, err
	})
	if err != nil {
		return err
	}
	lost, err := exchange.Export(ctx, s, to, dialect.Session{})
	if err == nil {
		err = to.Close()
	}
	if err == nil {
		err = add(w, "lost", lost)
	}
	return err
}

// standing writes the state outside of the conversation.
func standing(ctx context.Context, s *session.Session, w io.Writer) error {
	pins, err := turn.Pins(ctx, s)
	if err != nil {
		return err
	}
	state, err := turn.Values(ctx, s)
	if err != nil {
		return err
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	chapters, err := memory.Chapters(ctx, s)
	if err != nil {
		return err
	}
	stats, err := memory.ReadStats(ctx, s)
	if err != nil {
		return err
	}
	return add(w, "standing", []any{pins, state, pending, chapters, stats})
}
