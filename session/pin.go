package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Pinned texts together have at most this many bytes: they are in every request
// after a compaction, so there must not be more of them than a small window has
// room for.
const maxPinned = 16 << 10

// Pin lets the text of an entry survive every compaction whole: it is shown behind
// the summary that stands for it. Pinning it again does nothing. The texts of all
// pins have at most 16 KiB. An entry that is not there or has no text is an error,
// of which the first matches [ErrNoEntry], and nothing was written.
//
// A rewind does not unpin, but what it has taken back is not shown.
func (s *Session) Pin(ctx context.Context, entryID string) error {
	text, err := s.textOf(ctx, entryID)
	if err != nil {
		return s.store.wrap("pin", s.ref, err)
	}
	_, err = s.Update(ctx, "pin", func(v *View) ([]transcript.Item, error) {
		size := len(text)
		for _, p := range v.Fold().Standing().Pins {
			if p.Entry == entryID {
				return nil, nil
			}
			size += len(p.Text)
		}
		if size > maxPinned {
			return nil, fmt.Errorf("all pinned texts would have %d bytes, the limit is %d: nothing was written; unpin others first", size, maxPinned)
		}
		return []transcript.Item{transcript.Pin{Entry: entryID, Text: text}}, nil
	})
	return err
}

// Unpin takes a pin back. A text that the last compaction shows stays there until
// the next one.
func (s *Session) Unpin(ctx context.Context, entryID string) error {
	_, err := s.Update(ctx, "unpin", func(v *View) (items []transcript.Item, err error) {
		for _, p := range v.Fold().Standing().Pins {
			if p.Entry == entryID {
				items = append(items, transcript.Pin{Entry: entryID, Off: true})
			}
		}
		return items, nil
	})
	return err
}

// Pins returns what is pinned, the oldest pin first.
func (s *Session) Pins(ctx context.Context) (pins []transcript.Carried, err error) {
	err = s.View(ctx, func(v *View) error {
		pins = slices.Clone(v.Fold().Standing().Pins)
		return nil
	})
	return pins, err
}

// textOf returns the text of an entry of a message, that of a tool result included.
func (s *Session) textOf(ctx context.Context, entryID string) (string, error) {
	rec, err := s.find(ctx, entryID)
	if err != nil {
		return "", err
	}
	f, ok := rec.Entry.Body.(transcript.Fragment)
	if !ok {
		return "", fmt.Errorf("entry %s is no message: nothing was written", entryID)
	}
	text := f.Message().Text()
	if len(f.Content) == 1 {
		if r, ok := f.Content[0].(transcript.ToolResultBlock); ok {
			text = r.Text()
		}
	}
	if text == "" {
		return "", fmt.Errorf("entry %s has no text: nothing was written", entryID)
	}
	return text, nil
}
