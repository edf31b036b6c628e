package filelog

import (
	"context"
	"time"
)

// A Held is a Log whose append lock is held over several steps, so that a
// caller can read, decide and write with nobody in between, in any process. It
// is for one goroutine and for a short time.
type Held struct {
	l   *Log
	end int64

	// The events to report when the lock is given back, and in whose name.
	ctx    context.Context
	waited time.Duration
	tail   int64
	syncs  []Synced
}

// Hold takes the append lock, settles the tail as [Log.Settle] does, and
// returns with the lock held. Other appends on the file wait until Release; an
// Append on the same Log by the holder waits for ever.
func (l *Log) Hold(ctx context.Context) (*Held, error) {
	const op = "hold"
	if err := l.begin(op); err != nil {
		return nil, err
	}
	if l.opts.ReadOnly {
		l.ops.Done()
		return nil, l.fail(op, ErrReadOnly, fixWritable)
	}
	waited, err := l.lock(ctx, op, false)
	if err != nil {
		l.ops.Done()
		return nil, err
	}
	l.end, l.lookedUp = 0, 0 // a Reset elsewhere may have left any size
	w, err := l.settle(ctx, op)
	if err != nil {
		l.unlock()
		l.ops.Done()
		return nil, err
	}
	l.held = Held{l: l, end: w.lines.end, ctx: ctx, waited: waited, tail: w.tail}
	if w.cured != (Synced{}) {
		l.held.syncs = append(l.held.syncs, w.cured)
	}
	return &l.held, nil
}

// End returns the offset after the last line.
func (h *Held) End() int64 { return h.end }

// Append adds lines as [Log.Append] does, but does not sync them: see Sync.
func (h *Held) Append(lines []byte) error {
	const op = "append"
	l := h.l
	if len(lines) == 0 || lines[len(lines)-1] != '\n' {
		return l.fail(op, errNotLines, "nothing was written")
	}
	if err := l.write(op, h.end, lines); err != nil {
		return err
	}
	start := h.end
	h.end += int64(len(lines))
	l.wrote(start, lines)
	return nil
}

// Reset makes lines the whole content of the file, in place: it stays the same
// file and locks on it stay in force. A crash in between leaves it empty or
// with a part of lines.
func (h *Held) Reset(lines []byte) error {
	h.l.end, h.l.lookedUp = 0, 0
	if err := h.l.file().Truncate(0); err != nil {
		return h.l.fail("reset", err, "the file is as it was")
	}
	h.end = 0
	h.l.mu.Lock()
	h.l.dirty = extent{}
	h.l.unsynced.drop(len(h.l.unsynced.parts))
	h.l.mu.Unlock()
	return h.Append(lines)
}

// Sync puts everything written so far on stable storage, whatever the policy.
// A [*NotDurableError] says that the outcome is unknown.
func (h *Held) Sync() error {
	l := h.l
	l.mu.Lock()
	seq := l.written
	l.mu.Unlock()
	var s Synced
	failed, _ := l.syncTo(context.Background(), seq, &s) // never an error then
	if l.opts.OnSync != nil {
		h.syncs = append(h.syncs, s)
	}
	if failed != nil {
		return failed
	}
	return nil
}

// Release gives the append lock back. The Held cannot be used afterwards.
func (h *Held) Release() {
	was := *h
	l := h.l
	*h = Held{}
	l.unlock()
	l.tellWait(was.ctx, AppendLock, was.waited, nil)
	l.tellTail(was.ctx, was.tail)
	for _, s := range was.syncs {
		l.tellSync(was.ctx, s)
	}
	l.ops.Done()
}
