package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Draft keeps an answer while it is streamed. Flushed text survives as an append
// does, and the answer replaces it in one step. A Draft is for one goroutine.
//
// If the process dies before the answer, the next turn on the session closes the
// draft: its flushed text becomes an aborted answer, unless a rewind has taken back the
// request.
type Draft struct {
	turn    *Turn
	made    transcript.Made
	part    transcript.Draft // text that is not flushed
	before  *Draft           // an open draft of the same request, which this one replaces
	size    int              // of the flushed text, as it was written
	doubt   int              // bytes of part that the last append may have written
	flushed time.Time
	tried   int  // bytes of part that may end within a secret
	over    bool // finished or discarded
}

// Limits of the text that is not flushed: the first Write over either one flushes it.
const (
	draftBytes = 2 << 10
	draftAge   = time.Second
)

// Draft begins to keep an answer that is being streamed. Made names the request: it is
// the Made of the call of package guard. If this turn has an open draft of the same
// request, a stream that failed and is tried again, the new draft replaces it: the old
// one is discarded before the first line of the new one is appended.
func (t *Turn) Draft(api, model string, made transcript.Made) *Draft {
	d := &Draft{turn: t, made: made, flushed: time.Now()}
	d.part = transcript.Draft{Key: uuid.NewString(), API: api, Model: model, Made: made}
	if t.draft != nil && !t.draft.over && t.draft.made == made {
		d.before = t.draft
	}
	t.draft = d
	return d
}

// Write takes the next text of the stream. It is appended with the text before it once
// both are 2 KiB or a second old.
func (d *Draft) Write(ctx context.Context, text string) error {
	d.part.Text += text
	if len(d.part.Text) < draftBytes && time.Since(d.flushed) < draftAge {
		return nil
	}
	return d.Flush(ctx)
}

// Flush appends the text that was not appended so far. Flush it before a client shows
// it, so that a kill loses no text that a person has read. If the session has a filter
// that masks texts, a text that could be the beginning of a masked one stays back until
// more has come. Flush may be called again after an error, after a
// [*session.NotDurableError] once [session.Session.Recover] has succeeded: no text is
// appended twice.
func (d *Draft) Flush(ctx context.Context) error {
	if d.over {
		return failed("flush draft", d.turn.s, errors.New("the draft is over: nothing was written; begin another one"))
	}
	if d.doubt > 0 {
		if err := d.settle(ctx); err != nil {
			return err
		}
	}
	text, written, err := d.settled(ctx)
	if err != nil || text == "" {
		return err
	}
	if err := d.replace(ctx); err != nil {
		return err
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
	err := d.turn.s.View(ctx, func(v *session.View) error {
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

// probe is a line that belongs to a secret if one has begun before it.
const probe = "q7Zr2Xk9Tb4Wm1\n"

// settled returns the text that can be flushed, as it is and as the filters of the
// session write it. With filters the cut is where no secret can span it: at the end of
// a line, after which a further line is masked as it would be alone.
func (d *Draft) settled(ctx context.Context) (text, written string, err error) {
	alone, filtered, err := d.filter(ctx, probe)
	if err != nil || !filtered {
		return d.part.Text, d.part.Text, err
	}
	end := strings.LastIndexByte(d.part.Text, '\n') + 1
	if end == d.tried {
		return "", "", nil
	}
	text = d.part.Text[:end]
	if written, _, err = d.filter(ctx, text); err != nil {
		return "", "", err
	}
	probed, _, err := d.filter(ctx, text+probe)
	if err != nil || probed != written+alone {
		d.tried = end
		return "", "", err
	}
	return text, written, nil
}

// filter returns a text of the draft as the session would store it, and whether the
// session has filters.
func (d *Draft) filter(ctx context.Context, text string) (written string, filtered bool, err error) {
	entries := []transcript.Entry{{Body: transcript.Draft{Key: d.part.Key, Text: text}}}
	got, err := d.turn.s.FilterWrite(ctx, entries)
	if err != nil || len(got) == 0 {
		return "", true, err
	}
	draft, _ := got[0].Body.(transcript.Draft)
	return draft.Text, &got[0] != &entries[0], nil
}

// Finish appends the answer, which replaces the draft, and returns the IDs of its
// entries. It may be called again after an error. If a later turn has closed the draft,
// or its text was discarded, the error matches [session.ErrConflict] and nothing was
// written.
func (d *Draft) Finish(ctx context.Context, resp *transcript.Response) ([]string, error) {
	return d.end(ctx, resp)
}

// Discard ends the draft without an answer: its text is in no history. After Finish
// it does nothing. It may be called again after an error. If a later turn has closed
// the draft the error matches [session.ErrConflict].
func (d *Draft) Discard(ctx context.Context) error {
	if d.over {
		return nil
	}
	if d.size+d.doubt == 0 {
		err := d.replace(ctx)
		d.over = err == nil
		return err
	}
	_, err := d.end(ctx, transcript.Draft{Key: d.part.Key, Off: true})
	return err
}

func (d *Draft) end(ctx context.Context, item transcript.Item) ([]string, error) {
	if err := d.replace(ctx); err != nil {
		return nil, err
	}
	done, err := d.turn.s.AppendIf(ctx, session.Cond{Idem: d.part.Key}, item)
	if errors.Is(err, session.ErrIdemMismatch) {
		err = fmt.Errorf("%w: the draft is over, or a later turn has closed it: %w", session.ErrConflict, err)
	}
	d.over = d.over || err == nil
	return done.IDs, err
}

func (d *Draft) replace(ctx context.Context) (err error) {
	if d.before != nil {
		if err = d.before.Discard(ctx); err == nil {
			d.before = nil
		}
	}
	return err
}

// closeDrafts ends the drafts of turns that are over. The caller holds the turn lock.
func closeDrafts(ctx context.Context, s *session.Session) error {
	var open []rebuild.Draft
	err := s.View(ctx, func(v *session.View) error {
		open = slices.Clone(v.Fold().Standing().Drafts)
		return nil
	})
	for _, d := range open {
		if err != nil {
			break
		}
		var done session.Appended
		done, err = s.AppendIf(ctx, session.Cond{Idem: d.Key}, &transcript.Response{
			Message: transcript.AssistantText(d.Text), API: d.API, Model: d.Model, StopReason: transcript.StopAborted, Made: d.Made,
		})
		off := transcript.Draft{Key: d.Key, Off: true}
		switch {
		case errors.Is(err, session.ErrConflict): // a rewind has taken back the request
			_, err = s.AppendIf(ctx, session.Cond{Idem: d.Key}, off)
		case done.Repeated || errors.Is(err, session.ErrIdemMismatch): // its answer is there, and some of it came later
			_, err = s.Append(ctx, off)
		}
	}
	return err
}
