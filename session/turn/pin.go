package turn

import (
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Pinned texts together have at most this many bytes: they are in every request
// after a compaction, so they must fit a small window.
const maxPinned = 16 << 10

// Pin lets the text of an entry survive every compaction whole: it is shown after
// the summary. Pinning it again does nothing. The texts of all pins have at most
// 16 KiB. An entry that does not exist is an error that matches [session.ErrNoEntry];
// one without a text is an error too. After an error nothing was written.
//
// A rewind does not unpin, but the compaction leaves out pins of rewound entries.
func Pin(ctx context.Context, s *session.Session, entryID string) error {
	_, err := s.Update(ctx, "pin", func(v *session.View) ([]transcript.Item, error) {
		size := 0
		for _, p := range v.Fold().Standing().Pins {
			if p.Entry == entryID {
				return nil, nil
			}
			size += len(p.Text)
		}
		text, err := textOf(ctx, s, entryID)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxPinned {
			return nil, &session.InputError{Member: "entry", Reason: fmt.Sprintf("all pinned texts would have %d bytes, the limit is %d: unpin others first", size, maxPinned)}
		}
		return []transcript.Item{transcript.Pin{Entry: entryID, Text: text}}, nil
	})
	return err
}

// Unpin takes a pin back. A text that the last compaction shows stays there until
// the next one.
func Unpin(ctx context.Context, s *session.Session, entryID string) error {
	_, err := s.Update(ctx, "unpin", func(v *session.View) (items []transcript.Item, err error) {
		for _, p := range v.Fold().Standing().Pins {
			if p.Entry == entryID {
				items = append(items, transcript.Pin{Entry: entryID, Off: true})
			}
		}
		return items, nil
	})
	return err
}

// Pins returns the pinned texts, the oldest pin first.
func Pins(ctx context.Context, s *session.Session) (pins []transcript.Carried, err error) {
	err = s.View(ctx, func(v *session.View) error {
		pins = slices.Clone(v.Fold().Standing().Pins)
		return nil
	})
	return pins, err
}

// textOf returns the text of an entry of a message or of a tool result.
func textOf(ctx context.Context, s *session.Session, entryID string) (string, error) {
	if entryID == "" {
		return "", session.ErrNoEntry
	}
	for rec, err := range s.Scan(ctx, session.ScanOptions{Backward: true, ID: entryID}) {
		if err != nil {
			return "", err
		}
		f, ok := rec.Entry.Body.(transcript.MessageLine)
		if !ok {
			return "", &session.InputError{Member: "entry", Reason: "it is not a message"}
		}
		text := f.Message().Text()
		if len(f.Content) == 1 {
			if r, ok := f.Content[0].(transcript.ToolResultBlock); ok {
				text = r.Text()
			}
		}
		if text == "" {
			return "", &session.InputError{Member: "entry", Reason: "it has no text"}
		}
		return text, nil
	}
	return "", fmt.Errorf("%w: %q", session.ErrNoEntry, entryID)
}
