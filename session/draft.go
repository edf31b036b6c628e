package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A Draft keeps an answer while it is streamed. The text that was flushed survives
// as an append does, and the answer takes its place in one step. A Draft is for
// one goroutine.
//
// If the process dies in between, the next turn on the session begins by closing
// the draft: the text that was flushed becomes an answer that was aborted, unless a
// rewind has taken back what it answers.
type Draft struct {
	turn    *Turn
	part    transcript.Draft // what is not flushed
	size    int              // of the text that is, as it was written
	doubt   int              // how much of part the last append may have written
	flushed time.Time
	tried   int // how much of the text may be a part of a secret, as far as is known
}

// A draft is flushed when so much has come, and by the first Write after so much
// time.
const (
	draftBytes = 2 << 10
	draftAge   = time.Second
)

// Draft begins to keep an answer that is being streamed. Made is that of the
// [guard.Call] which it answers.
func (t *Turn) Draft(api, model string, made transcript.Made) *Draft {
	part := transcript.Draft{Key: newID(), API: api, Model: model, Made: made}
	return &Draft{turn: t, part: part, flushed: time.Now()}
}

// Write takes the text that has come. It is appended with what came before it
// once that is 2 KiB or a second old.
func (d *Draft) Write(ctx context.Context, text string) error {
	d.part.Text += text
	if len(d.part.Text) < draftBytes && time.Since(d.flushed) < draftAge {
		return nil
	}
	return d.Flush(ctx)
}

// Flush appends the text that was not appended so far. Flush it before a client is
// shown it, so that nobody sees an answer that the session has lost. With
// [Options].Redact, text that could be the beginning of what is redacted stays
// back until more has come. Flush may be called again after an error, after a
// [*NotDurableError] once [Session.Recover] has succeeded: no text is appended
// twice.
func (d *Draft) Flush(ctx context.Context) error {
	if d.doubt > 0 {
		if err := d.settle(ctx); err != nil {
			return err
		}
	}
	text, written := d.settled(ctx)
	if text == "" {
		return nil
	}
	part := d.part
	part.Text = written
	if _, err := d.turn.s.Append(ctx, part); err != nil {
		d.doubt = len(text)
		return err
	}
	d.size += len(part.Text)
	d.took(len(text))
	return nil
}

// settle finds out whether an append that failed has written its text.
func (d *Draft) settle(ctx context.Context) error {
	if err := d.turn.s.Flush(ctx); err != nil {
		return err
	}
	there := 0
	err := d.turn.s.View(ctx, func(v *View) error {
		for _, other := range v.Fold().Standing().Drafts {
			if other.Key == d.part.Key {
				there = len(other.Text)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if there > d.size {
		d.size = there
		d.took(d.doubt)
	}
	d.doubt = 0
	return nil
}

// took records how many bytes of the text are in the session.
func (d *Draft) took(n int) {
	d.tried = 0
	d.part = transcript.Draft{Key: d.part.Key, Text: d.part.Text[n:]}
	d.flushed = time.Now()
}

// Commit appends the answer, which takes the place of the draft, and returns the
// IDs of its entries. It may be called again after an error. It matches
// [ErrConflict], and nothing was written, if a later turn has closed the draft.
func (d *Draft) Commit(ctx context.Context, resp *transcript.Response) ([]string, error) {
	done, err := d.turn.s.AppendIf(ctx, Cond{Idem: d.part.Key}, resp)
	if errors.Is(err, ErrIdemMismatch) {
		err = fmt.Errorf("%w: a later turn has closed the draft: %w", ErrConflict, err)
	}
	return done.IDs, err
}

// closeDrafts ends the drafts of turns that are over. The caller holds the turn
// lock.
func (s *Session) closeDrafts(ctx context.Context) error {
	var open []rebuild.Draft
	err := s.View(ctx, func(v *View) error {
		open = slices.Clone(v.Fold().Standing().Drafts)
		return nil
	})
	for _, d := range open {
		if err != nil {
			break
		}
		var done Appended
		done, err = s.AppendIf(ctx, Cond{Idem: d.Key}, &transcript.Response{
			Message: transcript.AssistantText(d.Text), API: d.API, Model: d.Model, StopReason: transcript.StopAborted, Made: d.Made,
		})
		off := transcript.Repeat(transcript.Draft{Key: d.Key, Off: true}, d.Entry)
		switch {
		case errors.Is(err, ErrConflict): // a rewind has taken back what it answers
			_, err = s.AppendIf(ctx, Cond{Idem: d.Key}, off)
		case done.Repeated || errors.Is(err, ErrIdemMismatch): // its answer is there, and some of it came later
			_, err = s.Append(ctx, off)
		}
	}
	return err
}
