package exchange

import (
	"bytes"
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// handedOn returns the entries of an append as an export has them: with what the hook
// of the store leaves, and with the bytes of blobs.
func handedOn(ctx context.Context, s *session.Session, entries []transcript.Entry) ([]transcript.Entry, error) {
	entries, err := s.Redacted(ctx, entries)
	if err != nil {
		return nil, err
	}
	return s.Inline(ctx, entries)
}

// redactHistory passes a history to the hook of the store. A message that is changed
// loses its origins, and with them what only the model that made it takes back.
func redactHistory(ctx context.Context, s *session.Session, h *rebuild.History) error {
	entries := []transcript.Entry{{Body: transcript.System{Text: h.SystemPrompt("")}}}
	for _, m := range h.Messages {
		f := transcript.Fragment{Kind: string(m.Role), Role: m.Role}.WithContent(m.Content...)
		entries = append(entries, transcript.Entry{ID: string(m.Role), Body: f})
	}
	for i, e := range entries {
		one := []transcript.Entry{e}
		got, err := s.Redacted(ctx, one)
		if err != nil {
			return err
		}
		if &got[0] == &one[0] || bytes.Equal(got[0].Line(), one[0].Line()) {
			continue // there is no hook, or it has changed nothing
		}
		switch b := got[0].Body.(type) {
		case transcript.System:
			h.Prompt, h.System = "", b.Text
		case transcript.Fragment:
			h.Messages[i-1] = b.Message()
		}
	}
	return nil
}

// redactedInfo returns what describes a session, with the title that the hook of
// the store leaves.
func redactedInfo(ctx context.Context, s *session.Session) (session.Info, error) {
	info := s.Info()
	got, err := s.Redacted(ctx, []transcript.Entry{{Body: transcript.Meta{Title: &info.Title}}})
	if err != nil {
		return info, err
	}
	if m, ok := got[0].Body.(transcript.Meta); ok {
		info.Title = *m.Title
	}
	return info, nil
}
