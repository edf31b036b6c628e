package session

import (
	"context"
	"sync"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// Event is something that a [Store] has done, for [Options].Observe.
type Event struct {
	Kind    EventKind
	Session Ref           // without an ID it is the index of the agent
	Took    time.Duration // of what was done; 0 for what takes no time
	// Entries and Bytes are what an EventAppend has written; 0 if it was
	// repeated. Bytes is also how much an EventSync was for, from the first to
	// the last byte that this process had written since the sync before.
	Entries, Bytes int
	// Lock is what an EventWait was for: the append lock of a transcript or of
	// an index, or the turn lock.
	Lock filelog.Lock
	// Tail is the unfinished line that an EventRepair is about, and Superseded
	// how many entries of a cut append it is about, whose place its retry under
	// the same idempotency key takes. One of both is set.
	Tail       filelog.Tail
	Superseded int
	// Damage is what an EventDamage is about.
	Damage transcript.Damage
	// Cut is the plan of an EventCompaction..., with sizes in tokens, and
	// Compaction what came of it, for EventCompactionDone.
	Cut        compact.Cut
	Compaction transcript.Compaction
	// Step is what the summarizer tells, for EventCompactionStep.
	Step compact.Step
	// Failures is how many summaries in a row the summarizer has failed to
	// write, that of an EventCompactionFailed included, or was not asked for
	// because of that. From three on it is left alone, see [CoolingDown].
	Failures int
	// StandIn says that compact.Extractive writes the summary of an
	// EventCompaction..., because the summarizer fails.
	StandIn bool
	// Err is why it failed; nil if it did not.
	Err error
}

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	EventAppend            EventKind = "append"             // entries were appended, or not
	EventSync              EventKind = "sync"               // a transcript or an index was put on stable storage, or not; one may be for many appends
	EventWait              EventKind = "lock-wait"          // a lock was waited for, for at least filelog.LongWait, and taken, or not
	EventRepair            EventKind = "repair"             // an unfinished line was ended, or a cut append was found to be superseded
	EventDamage            EventKind = "damage"             // damage was found while reading
	EventCompactionStart   EventKind = "compaction-start"   // the summarizer is called
	EventCompactionStep    EventKind = "compaction-step"    // the summarizer reads on, or gives up and leaves it to another one
	EventCompactionDone    EventKind = "compaction-done"    // the history is compacted
	EventCompactionFailed  EventKind = "compaction-failed"  // the history was not changed
	EventCompactionSkipped EventKind = "compaction-skipped" // it is due, or asked for by a guard, and is not tried: Cut says why, TooSoon or CoolingDown
)

// tell tells the observer of events, and of what the driver has told before.
// No lock is held.
func (st *Store) tell(ctx context.Context, ref Ref, events ...Event) {
	if st.opts.Observe == nil {
		return
	}
	st.drivers.tell(st.opts.Observe)
	for _, e := range events {
		e.Session = ref
		st.opts.Observe(ctx, e)
	}
}

// driverEvents are what the driver has told while locks were held. Who has no
// lock tells the observer.
type driverEvents struct {
	mu   sync.Mutex // guards what follows
	kept []driverEvent
}

// A driverEvent is an event and the context of the call that did it.
type driverEvent struct {
	ctx context.Context
	e   Event
}

func (d *driverEvents) keep(ctx context.Context, e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = append(d.kept, driverEvent{ctx, e})
}

func (d *driverEvents) tell(observe func(context.Context, Event)) {
	d.mu.Lock()
	kept := d.kept
	d.kept = nil
	d.mu.Unlock()
	for _, k := range kept {
		observe(k.ctx, k.e)
	}
}

// watch makes a driver tell d what observe is to be told.
func (d *driverEvents) watch(o *filedriver.Options, observe func(context.Context, Event)) {
	if observe == nil {
		return
	}
	tail := o.OnTail
	o.OnTail = func(ctx context.Context, ref Ref, t filelog.Tail) {
		tail(ctx, ref, t)
		d.keep(ctx, Event{Kind: EventRepair, Session: ref, Tail: t})
	}
	o.OnWait = func(ctx context.Context, ref Ref, w filelog.Wait) {
		d.keep(ctx, Event{Kind: EventWait, Session: ref, Lock: w.Lock, Took: w.Took, Err: w.Err})
	}
	o.OnSync = func(ctx context.Context, ref Ref, s filelog.Synced) {
		d.keep(ctx, Event{Kind: EventSync, Session: ref, Took: s.Took, Bytes: int(s.Bytes), Err: s.Err})
		if s.Background { // by nobody who could tell it later, and without a lock
			d.tell(observe)
		}
	}
}
