package session

import (
	"context"
	"errors"
	"maps"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// written is an append of this process: its entries need not be read from the
// transcript, because [transcript.NewBatch] makes them what a reader sees.
type written struct {
	start, end driver.Cursor
	entries    []transcript.Entry
}

// maxAhead is how many appends of this process may wait for lines before them.
const maxAhead = 256

// appended takes an append of this process that has ended well, if it follows
// what was read so far. If it does not, and other goroutines have appends under
// way, those are likely to be the lines in between: then it is kept until they
// come, or until somebody reads. Whatever waits when no append is under way is
// read. It does not end with ctx. The caller holds s.mu.
func (s *state) appended(ctx context.Context, res driver.Result, entries []transcript.Entry) error {
	err := s.forgetting(func() error { return s.takeOwn(ctx, res, entries) })
	if errors.Is(err, errWhole) { // one of them needs lines that were not read
		err = s.startOver(context.WithoutCancel(ctx))
	}
	return err
}

func (s *state) takeOwn(ctx context.Context, res driver.Result, entries []transcript.Entry) error {
	b := written{res.Start, res.End, entries}
	switch {
	case res.Repeated || s.fresh || s.err != nil || s.batcher.Open():
		return s.sync(context.WithoutCancel(ctx))
	case b.end <= s.next:
		return nil // somebody has read it already
	case b.start == s.next:
		if err := s.takeWritten(b); err != nil {
			return err
		}
	case b.start < s.next:
		return s.sync(context.WithoutCancel(ctx))
	default:
		s.ahead[b.start] = b
	}
	for len(s.ahead) > 0 {
		b, ok := s.ahead[s.next]
		if !ok {
			break
		}
		delete(s.ahead, b.start)
		if err := s.takeWritten(b); err != nil {
			return err
		}
	}
	if len(s.ahead) > 0 && (s.appending == 0 || len(s.ahead) > maxAhead) {
		return s.sync(context.WithoutCancel(ctx))
	}
	s.finish()
	return nil
}

// catchUp makes sure that all appends of this process that have ended were
// taken. The caller holds s.mu.
func (s *state) catchUp(ctx context.Context) error {
	if s.fresh || len(s.ahead) > 0 {
		return s.sync(ctx)
	}
	return nil
}

// takeWritten takes an append that begins where reading has come to, between
// two batches.
func (r *reading) takeWritten(b written) error {
	for i, e := range b.entries {
		rec := transcript.Record{Offset: int64(b.start), End: int64(b.start), Entry: e}
		if i == len(b.entries)-1 {
			rec.End = int64(b.end)
		}
		if err := r.pass(rec); err != nil {
			return err
		}
	}
	return r.addBatch(transcript.Batch{Entries: b.entries, Complete: true})
}

// passed forgets the appends that were read from the transcript meanwhile.
func (r *reading) passed() {
	maps.DeleteFunc(r.ahead, func(start driver.Cursor, _ written) bool { return start < r.next })
}
