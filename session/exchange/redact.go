package exchange

import (
	"bytes"
	"context"
	"iter"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// exported yields the entries of a conversation as the filters of the store export
// them, one after the other: a filter may give them the bytes of media.
func exported(ctx context.Context, s *session.Session, entries []transcript.Entry) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		for i := range entries {
			one, err := s.FilterExport(ctx, entries[i:i+1])
			if err != nil {
				yield(transcript.Entry{}, err)
				return
			}
			if !yield(one[0], nil) {
				return
			}
		}
	}
}

// redactHistory passes a history to the filters of the store. A changed message loses
// its origins, and with them the blocks that only its maker takes back.
func redactHistory(ctx context.Context, s *session.Session, h *rebuild.History) error {
	entries := []transcript.Entry{{Body: transcript.System{Text: h.SystemPrompt("")}}}
	for _, m := range h.Messages {
		f := transcript.MessageLine{Kind: string(m.Role), Role: m.Role}.WithContent(m.Content...)
		entries = append(entries, transcript.Entry{ID: string(m.Role), Body: f})
	}
	for i, e := range entries {
		one := []transcript.Entry{e}
		got, err := s.FilterExport(ctx, one)
		if err != nil {
			return err
		}
		if &got[0] == &one[0] || bytes.Equal(got[0].Line(), one[0].Line()) {
			continue // nothing has changed
		}
		switch b := got[0].Body.(type) {
		case transcript.System:
			h.Prompt, h.System = "", b.Text
		case transcript.MessageLine:
			h.Messages[i-1] = b.Message()
		}
	}
	return nil
}

// redactedInfo describes a session, with the title that the filters of the store
// export.
func redactedInfo(ctx context.Context, s *session.Session) (session.Info, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return info, err
	}
	got, err := s.FilterExport(ctx, []transcript.Entry{{Body: transcript.Meta{Title: &info.Title}}})
	if err != nil {
		return info, err
	}
	if m, ok := got[0].Body.(transcript.Meta); ok {
		info.Title = *m.Title
	}
	return info, nil
}
