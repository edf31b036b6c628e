package turn

import (
	"context"
	"errors"
	"fmt"
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
	part    transcript.Draft // text that is not flushed
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
// the Made of the call of package guard. A turn has one open draft. The first text of a
// new draft, or its end, discards the text of the last one, for example after a failed
// stream. So does an answer that is appended without a draft.
func (t *Turn) Draft(api, model string, made transcript.Made) *Draft {
	t.draft = &Draft{turn: t, flushed: time.Now()}
	t.draft.part = transcript.Draft{Key: uuid.NewString(), API: api, Model: model, Made: made}
	return t.draft
}

// Write takes the next text of the stream. All text not yet appended is appended once
// it is 2 KiB long or a second old.
func (d *Draft) Write(ctx context.Context, text string) error {
	d.part.Text += text
	if len(d.part.Text) < draftBytes && time.Since(d.flushed) < draftAge {
		return nil
	}
	return d.Flush(ctx)
}

// Flush appends the text that was not appended so far. Show a text only after its
// Flush, so that a kill loses no text that a person has read; collect about 250 ms of
// text for each. If a filter of the session masks texts, a text that could begin a
// masked one is held back until more has come.
// Flush may be called again after an error, after a [*session.NotDurableError] once
// [session.Session.Recover] has succeeded: no text is appended twice.
func (d *Draft) Flush(ctx context.Context) error {
	if d.over || d.turn.draft != d {
		return failed("flush draft", d.turn.s, errors.New("the draft is over: nothing was written; begin another one"))
	}
	text, written, err := d.settled(ctx)
	if err != nil || text == "" {
		return err
	}
	part := d.part
	part.Text = written
	d.turn.open = true // even if the append fails
	if _, err := d.turn.s.Append(ctx, part); err != nil {
		return err
	}
	d.part = transcript.Draft{Key: part.Key, At: part.At + len(written), Text: d.part.Text[len(text):]}
	d.tried, d.flushed = 0, time.Now()
	return nil
}

// probe is a line that belongs to a secret if one has begun before it.
const probe = "q7Zr2Xk9Tb4Wm1\n"

// settled returns the text that can be flushed, as it is and as the filters of the
// session write it. With filters the text ends where no secret can span the cut: after
// a line if the filters mask the next line as they would mask it alone.
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
	if !d.turn.open { // the turn has flushed nothing
		d.over = true
		return nil
	}
	off := transcript.Draft{Key: d.part.Key, At: d.part.At, Off: true}
	if d.turn.draft != d { // spare the draft that has replaced it
		off.At = max(off.At, 1)
	}
	_, err := d.end(ctx, off)
	return err
}

func (d *Draft) end(ctx context.Context, item transcript.Item) ([]string, error) {
	done, err := d.turn.s.AppendIf(ctx, session.Cond{Idem: d.part.Key}, item)
	if errors.Is(err, session.ErrIdemMismatch) {
		err = fmt.Errorf("%w: the draft is over, or a later turn has closed it: %w", session.ErrConflict, err)
	}
	if err == nil {
		d.over = true
		d.turn.open = d.turn.open && d.turn.draft != d
	}
	return done.IDs, err
}

// closeDraft ends the draft of a turn that is over. The caller holds the turn lock.
func closeDraft(ctx context.Context, s *session.Session) error {
	var d rebuild.Draft
	err := s.View(ctx, func(v *session.View) error {
		d = v.Fold().Standing().Draft
		return nil
	})
	if err != nil || d.Key == "" {
		return err
	}
	done, err := s.AppendIf(ctx, session.Cond{Idem: d.Key}, &transcript.Response{
		Message: transcript.AssistantText(d.Text), API: d.API, Model: d.Model, StopReason: transcript.StopAborted, Made: d.Made,
	})
	off := transcript.Draft{Key: d.Key, Off: true}
	switch {
	case errors.Is(err, session.ErrConflict): // a rewind has taken back the request
		_, err = s.AppendIf(ctx, session.Cond{Idem: d.Key}, off)
	case done.Repeated || errors.Is(err, session.ErrIdemMismatch): // its turn had ended it, and appended its first part again
		_, err = s.Append(ctx, off)
	}
	return err
}
