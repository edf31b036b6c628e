package filedriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A reading yields the decided records of a transcript: records of whole batches, and
// the rest of a batch after damage or a kill. A batch is not decided while it is
// being written or a failed append may take it back.
//
// Whole batches are believed as they are read. Everything else is read again before it
// is believed: if the append lock is free, up to the size at that moment, and otherwise
// until two readings are alike. Without the lock an incomplete end of the transcript is
// left out. A reading writes nothing and waits for nothing.
type reading struct {
	d     *Driver
	ctx   context.Context //nolint:containedctx // of the scan
	in    source
	yield func(transcript.Record) bool
	back  scanner // of a backward reading; nil is transcript.ScanBackward

	size int64 // up to which the transcript is read: set by Scan, ask and attempt
	sure bool  // no append was running at this size: all of it is decided; set by ask, cleared by attempt
}

var (
	errStopped = errors.New("the loop was left")
	// errOdd reports a record neither in a whole batch nor in one that the next
	// record may complete.
	errOdd = errors.New("a batch is not whole")
)

// ask sets the size to the present one if nothing is being appended. If not, or if
// that is unknown, the reading stays as it is.
func (r *reading) ask() {
	if size, ok, err := r.in.TrySize(); ok && err == nil {
		r.size, r.sure = size, true
	}
}

// attempt calls read again if a failed append, taken back, has cut the transcript
// during it. Read continues where it was.
func (r *reading) attempt(read func() error) error {
	for try := 1; ; try++ {
		err := read()
		switch {
		case errors.Is(err, errStopped):
			return nil
		case !errors.Is(err, io.ErrUnexpectedEOF) || try == tries:
			return err
		}
		if r.size, err = r.in.Size(); err != nil { // unchanged if the append was tried again
			return err
		}
		r.sure = false
	}
}

// forward yields the decided records from a place on, the first one first.
func (r *reading) forward(from int64) error {
	if from == r.size {
		return nil // nothing was added
	}
	next := from // all records before it were yielded
	return r.attempt(func() error {
		for {
			var held []transcript.Record // the first lines of a batch
			err := r.scan(transcript.Scan, next, r.size, func(rec transcript.Record) error {
				if rec.End == next { // in a line already begun
					return r.give(rec)
				}
				if held = append(held, rec); !r.sure && !isWhole(held) {
					return oddUnless(isBeginning(held))
				}
				err := r.give(held...)
				held, next = held[:0], rec.End
				return err
			})
			odd := errors.Is(err, errOdd)
			switch {
			case err != nil && !odd, r.sure:
				return err
			case !odd && len(held) == 0 && endsLine(r.in, r.size):
				return nil
			}
			if r.ask(); r.sure {
				continue
			}
			if !odd {
				return nil // the end is left out
			}
			recs, err := r.reread(next, r.size, transcript.Scan, lastBatch)
			if err != nil || len(recs) == 0 {
				return err
			}
			next = recs[len(recs)-1].End
			if err := r.give(recs...); err != nil {
				return err
			}
		}
	})
}

// backward yields the decided records down to a place, the last one first.
func (r *reading) backward(from int64) error {
	back := r.back
	if back == nil {
		back = transcript.ScanBackward
	}
	end := int64(-1) // all records from there on were yielded
	return r.attempt(func() error {
		for {
			to := r.size
			if end >= 0 {
				to = min(end, r.size)
			}
			var held []transcript.Record // the last lines of a batch
			line := int64(-1)            // the end of the line of the last record that was yielded
			err := oddUnless(r.sure || end >= 0 || endsLine(r.in, r.size))
			if err == nil {
				err = r.scan(back, from, to, func(rec transcript.Record) error {
					if held = append(held, rec); !r.sure && rec.End != line && (rec.Entry.Part > 1 || !isWhole(inOrder(held))) {
						return oddUnless(rec.Damage == nil && rec.Entry.Part > 1)
					}
					err := r.give(held...)
					held, end, line = held[:0], rec.Offset, rec.End
					return err
				})
			}
			if err == nil && len(held) > 0 && !r.sure {
				err = errOdd
			}
			if !errors.Is(err, errOdd) {
				return err
			}
			if r.ask(); r.sure {
				continue
			}
			recs, err := r.reread(from, to, transcript.ScanBackward, firstBatch)
			if err != nil || len(recs) == 0 {
				return err
			}
			if end < 0 { // the end is left out
				recs = recs[len(recs)-len(firstBatch(recs)):]
			}
			end = recs[len(recs)-1].Offset
			if err := r.give(recs...); err != nil {
				return err
			}
		}
	})
}

// sift yields the decided records of a transcript on lines that keep accepts, from the
// last to a place.
func (r *reading) sift(from int64, keep driver.Keep) error {
	sift := func(keep func(int64, []byte) bool) scanner {
		return func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
			return transcript.Sift(in, size, keep, opts)
		}
	}
	scan := sift(func(offset int64, lines []byte) bool {
		// If the search must end, keep the next line: scan returns the error before it.
		return r.ctx.Err() != nil || r.d.closing.Err() != nil || keep(driver.Cursor(offset), lines)
	})
	// In most transcripts keep accepts no line. The scan omits an unfinished line.
	if r.sure || endsLine(r.in, r.size) {
		if err := r.scan(scan, from, r.size, func(transcript.Record) error { return errStopped }); err == nil {
			return nil
		}
	}
	// All records before the last decided one are decided. No line is decoded ahead.
	end, last := int64(0), *r
	last.back = sift(func(int64, []byte) bool { return true })
	last.yield = func(rec transcript.Record) bool {
		end = rec.End
		return false
	}
	if err := last.backward(from); err != nil || end == 0 {
		return err
	}
	r.size, r.sure = last.size, last.sure
	return r.attempt(func() error {
		return r.scan(scan, from, min(end, r.size), func(rec transcript.Record) error {
			end = rec.Offset
			return r.give(rec)
		})
	})
}

// reread reads records up to a whole batch, again and again until two readings are
// alike. Without a whole batch it returns nil. Batch returns the whole batch at the
// end of the records read so far, or nil.
func (r *reading) reread(from, to int64, scan scanner, batch func([]transcript.Record) []transcript.Record) ([]transcript.Record, error) {
	var before []transcript.Record
	for try := range tries {
		var recs []transcript.Record
		whole := false
		err := r.scan(scan, from, to, func(rec transcript.Record) error {
			recs = append(recs, rec)
			if whole = len(batch(recs)) > 0; whole {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			return nil, err
		}
		if !whole {
			recs = nil
		}
		if try > 0 && slices.EqualFunc(recs, before, isSame) {
			return recs, nil
		}
		before = recs
	}
	return nil, nil
}

// isSame reports whether two readings of a record are alike.
func isSame(a, b transcript.Record) bool {
	if a.Offset != b.Offset || a.End != b.End || (a.Damage == nil) != (b.Damage == nil) {
		return false
	}
	return (a.Damage == nil || *a.Damage == *b.Damage) && (!a.HasEntry() || bytes.Equal(a.Entry.Line(), b.Entry.Line()))
}

type scanner func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error]

// scan calls take with the records between two places until take fails.
func (r *reading) scan(scan scanner, from, to int64, take func(transcript.Record) error) error {
	if from > to {
		return fmt.Errorf("%w: it has %d bytes, and %d were read before", filelog.ErrReplaced, to, from)
	}
	line := int64(-1)
	for rec, err := range scan(r.in, to, &transcript.ScanOptions{From: from, Final: r.sure}) {
		if err != nil {
			return err
		}
		// A loop that continues at a cursor must have seen all records of a line
		// or none, so a closed driver ends it between two lines.
		if rec.End != line {
			if err := r.d.enter(r.ctx); err != nil {
				return err
			}
			r.d.ops.Done()
		}
		line = rec.End
		if err := take(rec); err != nil {
			return err
		}
	}
	return nil
}

// give yields records. It returns errStopped if the loop was left.
func (r *reading) give(recs ...transcript.Record) error {
	for _, rec := range recs {
		if !r.yield(rec) {
			return errStopped
		}
	}
	return nil
}

func oddUnless(ok bool) error {
	if ok {
		return nil
	}
	return errOdd
}

// isWhole reports whether records are all lines of one batch, without damage.
func isWhole(recs []transcript.Record) bool {
	return max(recs[0].Entry.Batch, 1) == len(recs) && isRun(recs)
}

// isBeginning reports whether records are the first lines of a batch, without damage.
func isBeginning(recs []transcript.Record) bool {
	return isRun(recs) && recs[0].Entry.Batch > len(recs)
}

// isRun reports whether records are lines of one batch from the first on.
func isRun(recs []transcript.Record) bool {
	for i, rec := range recs {
		if rec.Damage != nil || max(rec.Entry.Part, 1) != i+1 || i > 0 && rec.Entry.Batch > 0 {
			return false
		}
	}
	return len(recs) > 0
}

// lastBatch returns the whole batch at the end of records in order, if there is one.
func lastBatch(recs []transcript.Record) []transcript.Record {
	n := max(recs[len(recs)-1].Entry.Part, 1)
	if n > len(recs) || !isWhole(recs[len(recs)-n:]) {
		return nil
	}
	return recs[len(recs)-n:]
}

// firstBatch returns the whole batch at the end of records in reverse order, if there is
// one.
func firstBatch(recs []transcript.Record) []transcript.Record {
	n := max(recs[len(recs)-1].Entry.Batch, 1)
	if n > len(recs) || !isWhole(inOrder(recs[len(recs)-n:])) {
		return nil
	}
	return recs[len(recs)-n:]
}

// inOrder returns records in the order of their lines.
func inOrder(recs []transcript.Record) []transcript.Record {
	if len(recs) == 1 {
		return recs
	}
	recs = slices.Clone(recs)
	slices.Reverse(recs)
	return recs
}
