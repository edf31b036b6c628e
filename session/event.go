package session

import (
	"context"
	"sync"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// Event is an operation of a [Store], for [Options].Observe.
type Event struct {
	Kind    EventKind     `json:"kind"`
	Session Ref           `json:"session"`       // an index if the ID is empty
	Took    time.Duration `json:"took,omitzero"` // 0 if nothing was timed; in JSON nanoseconds
	// Entries and Bytes count the writes of an EventAppend; 0 if it was
	// repeated or had none. Bytes is also the size of an EventSync, from the first to the
	// last byte that this process had written since the last sync.
	Entries int `json:"entries,omitempty"`
	Bytes   int `json:"bytes,omitempty"`
	// Lock is the lock that an EventWait waited for: "append" for the append lock of a
	// transcript or of an index, "turn" for the turn lock.
	Lock string `json:"lock,omitempty"`
	// Tail is the unfinished line that was repaired. Superseded is the number
	// of entries of a cut append that its retry under the same idempotency key
	// replaces. An EventRepair sets one of the two.
	Tail       Tail `json:"tail,omitzero"`
	Superseded int  `json:"superseded,omitempty"`
	// Damage is the damage of an EventDamage.
	Damage transcript.Damage `json:"damage,omitzero"`
	// Cut is the plan of an EventCompaction..., with sizes in tokens, and Compaction its
	// result, as in [Compacted].
	Cut        compact.Cut           `json:"cut,omitzero"`
	Compaction transcript.Compaction `json:"compaction,omitzero"`
	// Step is a report of the summarizer, for EventCompactionStep.
	Step compact.Step `json:"step,omitzero"`
	// Failures counts the summaries in a row that have failed, including the
	// one of an EventCompactionFailed, or were skipped because of failures.
	// From three on the summarizer rests, see [CoolingDown].
	Failures int `json:"failures,omitempty"`
	// StandIn reports that compact.Extractive writes the summary of an
	// EventCompaction..., because the summarizer fails.
	StandIn bool `json:"standIn,omitempty"`
	// Err is why the operation failed; nil if it did not. Error is its text in
	// events that the library makes.
	Err   error  `json:"-"`
	Error string `json:"error,omitempty"`
}

// Tail is an unterminated last line of a transcript that a dead writer or a power cut
// has left and the next writer has ended. Its bytes stay in the transcript.
type Tail struct {
	Offset   int64  `json:"offset"`             // of its first byte
	Size     int64  `json:"size"`               // in bytes, without the line break
	Complete bool   `json:"complete,omitempty"` // one JSON object, which lost only its line break; otherwise torn
	Error    string `json:"error,omitempty"`    // why it could not be read back; Complete is false then
}

// EventKind is the subject of an [Event].
type EventKind string

// The kinds of events.
const (
	EventAppendStart       EventKind = "append-start"       // an append begins; an EventAppend ends it
	EventAppend            EventKind = "append"             // an append, done or failed, or an update that had nothing to append
	EventSync              EventKind = "sync"               // a sync of a transcript, done or failed; it may serve many appends
	EventWait              EventKind = "lock-wait"          // a wait for a lock of at least a millisecond, whether it was taken or not
	EventRepair            EventKind = "repair"             // an unfinished line was ended, or a cut append was found to be superseded
	EventDamage            EventKind = "damage"             // damage was found while reading
	EventCompactionStart   EventKind = "compaction-start"   // the summarizer is called; an EventCompactionDone or EventCompactionFailed ends it
	EventCompactionStep    EventKind = "compaction-step"    // the summarizer reads on, or gives up and another takes over
	EventCompactionDone    EventKind = "compaction-done"    // the history is compacted
	EventCompactionFailed  EventKind = "compaction-failed"  // the history was not changed
	EventToolPanic         EventKind = "tool-panic"         // a tool has panicked, which is its result; the log has the stack
	EventCompactionSkipped EventKind = "compaction-skipped" // one that is due, or that a guard requested, is skipped: Cut.Nothing is TooSoon or CoolingDown
)

// An observer passes events on.
type observer struct {
	observe func(ctx context.Context, e Event) context.Context // nil if there is none

	mu sync.Mutex // guards the field below
	// kept are the events that the driver reports while locks are held, each with
	// the context of the call that caused it: added by keep. The next caller of tell,
	// without a lock, gives them to the observer.
	kept []func()
}

// keep notes an event while locks may be held.
func (o *observer) keep(ctx context.Context, e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, func() { o.report(ctx, e) })
}

// tell reports the kept events of the driver to the observer, and then events.
// No lock is held.
func (o *observer) tell(ctx context.Context, ref Ref, events ...Event) {
	if o.observe == nil {
		return
	}
	o.mu.Lock()
	kept := o.kept
	o.kept = nil
	o.mu.Unlock()
	for _, report := range kept {
		report()
	}
	for _, e := range events {
		e.Session = ref
		o.report(ctx, e)
	}
}

// begin reports the start of an operation and returns the context for the rest of it.
func (o *observer) begin(ctx context.Context, ref Ref, e Event) context.Context {
	if o.observe == nil {
		return ctx
	}
	e.Session = ref
	return o.report(ctx, e)
}

func (o *observer) report(ctx context.Context, e Event) context.Context {
	if e.Err != nil {
		e.Error = e.Err.Error()
	}
	if own := o.observe(ctx, e); own != nil {
		return own
	}
	return ctx
}

// newsOf returns the events for damage and repairs in news.
func newsOf(news []replay.News) (events []Event) {
	for _, n := range news {
		kind := EventDamage
		if n.Superseded > 0 {
			kind = EventRepair
		}
		events = append(events, Event{Kind: kind, Damage: n.Damage, Superseded: n.Superseded})
	}
	return events
}

// An Action is a change, a hand-over or a refusal of whole sessions, for [Options].Audit.
// It holds no words of a conversation.
type Action struct {
	// Name is one of these: archive, trash, restore and delete, of one session; owner, if
	// the Store itself makes a session for an owner; erase and retention, after the
	// sessions that they delete or archive; export and import; refuse, by a server.
	Name    string `json:"action"`
	Session Ref    `json:"session,omitzero"` // zero if the action is about several or none
	Owner   string `json:"owner,omitempty"`  // who acts: the owner of the [Store.Scope]; empty for the Store itself
	Err     error  `json:"-"`                // nil if it was done
}
