package erase

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Erasure selects what to erase. The fields add up, with one exception: with a
// Match, Owner and Sessions only limit the sessions in which it selects entries,
// and the sessions stay.
type Erasure struct {
	// Owner is a person: all of their sessions go, with transcripts, rows,
	// archives and blobs, and the entries that other sessions have copied from
	// them. Empty selects no person.
	Owner string
	// Sessions go in the same way.
	Sessions []session.Ref
	// Entries go, and the sessions stay. Copies of the entries in forks go as well,
	// even if the session of a Selection was deleted.
	Entries []Selection
	// Match reports whether an entry goes. It is called with every entry, the
	// header included, and with the text of each draft as a whole. It must be a
	// pure function: Run calls it again, also for entries appended since the
	// plan. Nil matches nothing. With Sessions and no Owner the Erasers erase
	// nothing.
	Match func(transcript.Entry) bool
}

// Selection is entries of a session.
type Selection struct {
	Session session.Ref `json:"session"`
	Entries []string    `json:"entries"`
}

// A Plan lists the data that [Run] will erase. It holds IDs and no text, so it may be
// shown to a person, stored and used later. Run also takes the copies of its entries in
// forks that were made since. A plan that was read back from JSON has no Match any
// more: it erases the listed entries, not later ones, and cannot be used with Erasers.
type Plan struct {
	ID       string        `json:"id"`
	At       time.Time     `json:"at"`
	Sessions []session.Ref `json:"sessions,omitempty"` // those that go as a whole
	// Owners are the owners of Sessions. A session with another one was made since, and
	// stays.
	Owners   []string      `json:"owners,omitempty"`
	Entries  []Selection   `json:"entries,omitempty"`
	Archived []session.Ref `json:"archived,omitempty"` // sessions of Entries that are archived, and will be again
	// Places are all places that something goes from, including places of the
	// Erasers.
	Places []transcript.Place `json:"places"`
	// Kept are entries that Match matches even when they are erased, because names
	// of tools and values, keys and IDs stay. They are also the idempotency keys and the
	// key that a fork for another owner has taken over from a session that goes. Erase the
	// session if these must go.
	Kept []transcript.Place `json:"kept,omitempty"`

	subject *transcript.Subject  // nil if the plan was read back from JSON
	among   map[session.Ref]bool // what Match is for; nil is every session
}

// match is the Match of the Erasure, or nil.
func (p *Plan) match() func(transcript.Entry) bool {
	if p.subject == nil {
		return nil
	}
	return p.subject.Match
}

// The subject for the Erasers is empty if the plan covers only matches in given
// sessions.
func (p *Plan) beside() transcript.Subject {
	if p.among != nil && p.subject.Owner == "" {
		return transcript.Subject{}
	}
	return *p.subject
}

// Receipt reports on an erase.
type Receipt struct {
	ID   string    `json:"id"` // of the plan
	Done time.Time `json:"done"`
	// Places are those that something was erased from.
	Places []transcript.Place `json:"places"`
	Kept   []transcript.Place `json:"kept,omitempty"` // as of the plan
	// Beyond describes data out of reach of an erase.
	Beyond []string `json:"beyond"`
}

// beyondReach is the end of every Beyond, after the part of the driver.
var beyondReach = []string{
	"exports",
	"what model providers and tools were sent",
	"logs that the application writes",
	"what programs that have read the sessions keep in memory",
}

// scan yields the records of a session. It may be ranged over several times.
func scan(ctx context.Context, st *session.Store, ref session.Ref) records {
	return func(yield func(transcript.Record, error) bool) {
		s, err := get(ctx, st, ref)
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		s.Scan(ctx, session.ScanOptions{})(yield)
	}
}

// get returns a session, in the trash or not.
func get(ctx context.Context, st *session.Store, ref session.Ref) (*session.Session, error) {
	s, err := st.Get(ctx, ref)
	if s != nil {
		err = nil
	}
	return s, err
}

// all returns all sessions, and the ledgers of package session/retain.
func all(ctx context.Context, st *session.Store) ([]session.Info, error) {
	rows, err := st.List(ctx, &session.ListOptions{State: session.EveryState})
	if err != nil {
		return nil, err
	}
	ledgers, err := st.List(ctx, &session.ListOptions{State: session.EveryState, Key: session.Key{Agent: "_removed"}})
	return append(rows, ledgers...), err
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// linked returns the session that a link is to.
func linked(l transcript.Link) session.Ref { return session.Ref{Agent: l.Agent, ID: l.Session} }

// about names a session in an error.
func about(ref session.Ref, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("session %s/%s: %w", ref.Agent, ref.ID, err)
}

// records yields the records of a transcript; it may be ranged over several
// times.
type records = iter.Seq2[transcript.Record, error]
