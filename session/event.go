package session

import (
	"context"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

// Event is something that a [Store] has done, for [Options].Observe.
type Event struct {
	Kind    EventKind
	Session Ref
	Took    time.Duration // of what was done; 0 for what takes no time
	// Entries and Bytes are what an EventAppend has written; 0 if it was
	// repeated.
	Entries, Bytes int
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
	EventDamage            EventKind = "damage"             // damage was found while reading
	EventCompactionStart   EventKind = "compaction-start"   // the summarizer is called
	EventCompactionStep    EventKind = "compaction-step"    // the summarizer reads on, or gives up and leaves it to another one
	EventCompactionDone    EventKind = "compaction-done"    // the history is compacted
	EventCompactionFailed  EventKind = "compaction-failed"  // the history was not changed
	EventCompactionSkipped EventKind = "compaction-skipped" // it is due, or asked for by a guard, and is not tried: Cut says why, TooSoon or CoolingDown
)

// tell tells the observer of events. No lock is held.
func (st *Store) tell(ctx context.Context, ref Ref, events ...Event) {
	if st.opts.Observe == nil {
		return
	}
	for _, e := range events {
		e.Session = ref
		st.opts.Observe(ctx, e)
	}
}
