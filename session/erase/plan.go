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

// Erasure selects data to erase. The fields add up, with one exception. With a Match,
// the fields Owner and Sessions only limit the sessions whose entries it selects, and
// the sessions stay.
type Erasure struct {
	// Owner is a person. All sessions of the owner go, with transcripts, rows, archives
	// and blobs. So do entries that other sessions have copied from them. Empty selects
	// no person.
	Owner string
	// Sessions go in the same way.
	Sessions []session.Ref
	// Entries go, and their sessions stay. Copies of the entries in forks also go, even
	// if the session of a Selection was deleted.
	Entries []Selection
	// Match reports whether an entry goes. It is called with every entry, including the
	// header, and with the whole text of each draft. It must be a pure function,
	// because Run calls it again, and also calls it for entries appended since the
	// plan. Nil matches nothing. With Sessions and no Owner, the Erasers erase nothing.
	Match func(transcript.Entry) bool
}

// A Selection names entries of a session.
type Selection struct {
	Session session.Ref `json:"session"`
	Entries []string    `json:"entries"`
}

// A Plan lists the data that [Run] will erase. It holds IDs and no text, so it can be
// shown to a person, stored and used later. Run also erases copies of its entries in
// forks that were made since. A plan read back from JSON has no Match. It erases the
// listed entries but not later ones, and cannot be used with Erasers.
type Plan struct {
	ID       string        `json:"id"`
	At       time.Time     `json:"at"`
	Sessions []session.Ref `json:"sessions,omitempty"` // sessions that go as a whole
	// Owners are the owners of Sessions. If a session now has another owner, it was
	// made since and stays.
	Owners   []string      `json:"owners,omitempty"`
	Entries  []Selection   `json:"entries,omitempty"`
	Archived []session.Ref `json:"archived,omitempty"` // sessions of Entries to be archived again
	// Places are all places with data to erase, including places of the Erasers.
	Places []transcript.Place `json:"places"`
	// Kept are places of entries that Match still matches after the erase, because
	// names of tools and values, keys and IDs stay. Kept also lists idempotency keys
	// and the key that a fork for another owner has taken over from an erased session.
	// To remove all of these, erase the sessions.
	Kept []transcript.Place `json:"kept,omitempty"`

	subject *transcript.Subject  // nil if the plan was read back from JSON
	among   map[session.Ref]bool // the sessions for Match; nil means all
}

// match returns the Match of the Erasure, or nil.
func (p *Plan) match() func(transcript.Entry) bool {
	if p.subject == nil {
		return nil
	}
	return p.subject.Match
}

// The result is the subject for the Erasers. It is empty if the plan covers only
// matches in given sessions.
func (p *Plan) beside() transcript.Subject {
	if p.among != nil && p.subject.Owner == "" {
		return transcript.Subject{}
	}
	return *p.subject
}

// A Receipt reports the results of an erase.
type Receipt struct {
	ID   string    `json:"id"` // the ID of the plan
	Done time.Time `json:"done"`
	// Places are all places from which data was erased.
	Places []transcript.Place `json:"places"`
	Kept   []transcript.Place `json:"kept,omitempty"` // like the Kept of a Plan
	// Beyond describes data that an erase cannot reach.
	Beyond []string `json:"beyond"`
}

// beyondReach ends every Beyond, after the part of the driver.
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

// get returns a session, even from the trash.
func get(ctx context.Context, st *session.Store, ref session.Ref) (*session.Session, error) {
	s, err := st.Get(ctx, ref)
	if s != nil {
		err = nil
	}
	return s, err
}

// all returns all sessions, including the ledgers of package session/retain.
func all(ctx context.Context, st *session.Store) ([]session.Info, error) {
	rows, err := st.List(ctx, &session.ListOptions{State: session.EveryState})
	if err != nil {
		return nil, err
	}
	ledgers, err := st.List(ctx, &session.ListOptions{State: session.EveryState, Key: session.Key{Agent: "_removed"}})
	return append(rows, ledgers...), err
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// linked returns the session that a link names.
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
