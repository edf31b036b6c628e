package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Options of [Open] and [OpenDriver]. Nil and zero fields are the defaults:
// durable, private, no model needed.
type Options struct {
	// Sync decides when an append is on stable storage. The zero value,
	// [SyncAlways], means: when it returns. docs/BENCHMARKS.md has the cost of each
	// policy. Open only.
	//
	// Processes that share a store should have one policy. No record shows which lines
	// of a [SyncNever] process are still unsynced. Another process may sync them, for a
	// [Session.Flush] or an append of its own. If it is killed while the disk fails, the
	// next process may report the lines as durable though they are not.
	Sync SyncPolicy
	// NoChecksum writes lines without a checksum. Lines without one are read
	// like all others, but a changed letter in one of them goes unnoticed.
	NoChecksum bool
	// ReadOnly opens without writing anything. Lines that a dead writer left
	// unfinished are taken for final; lines of a living one are left out until they
	// are whole. Open only.
	ReadOnly bool
	// SingleProcess allows network and unknown file systems, on which locks
	// between processes cannot be relied on. Open only.
	SingleProcess bool
	// Summary is where models are shown the summary of a compaction.
	Summary rebuild.SummaryForm
	// Counter estimates tokens; nil means tokens.Estimator.
	Counter tokens.Counter
	// Compact configures compactions, and its Trigger when AfterTurn runs one.
	// The zero value keeps the newest 20,000 tokens and needs no model for the
	// summary.
	Compact compact.Options
	// Filters see entries before they are stored, in this order, and histories and
	// entries before they leave, in the reverse order. A filter that moves words out of
	// entries comes after one that masks words: [Redact], then blobs.Filter of package
	// session/blobs. Every process that uses the store needs the same filters.
	Filters []Filter
	// AfterTurn functions are called by [Session.AfterTurn], in this order, before it
	// compacts. Their errors are joined. memory.Commits and turn.Titles return such functions.
	AfterTurn []func(ctx context.Context, s *Session) error
	// CachedSessions is how many unused sessions are kept in memory; 0 means 256.
	CachedSessions int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Observe receives every event, with the context of the call that caused it.
	// It runs in the goroutine of that call, of another one or of a background
	// sync, and no lock is held. Nil is silent.
	Observe func(ctx context.Context, e Event)
	// Logger receives warnings for a person; nil is silent.
	Logger *slog.Logger
}

// Store is a set of sessions. It is safe for several goroutines, and several
// processes may have one store open, each with a Store of its own.
//
// A Store keeps a bounded number of unused sessions open. Close waits for the
// goroutines that the Store starts, those that sync under [SyncInterval] for
// example.
type Store struct {
	*shared
	owner string // of a scope, or empty
}

// shared holds the state common to a Store and its scopes.
type shared struct {
	opts     Options
	drv      driver.Driver
	table    *table
	outlines outlines
	noted    atomic.Bool // the storage records that the store masks

	mu sync.Mutex // guards the field below
	// kept are the events that the driver reports while locks are held, each with
	// the context of the call that caused it. The next caller without a lock gives
	// them to the observer.
	kept []func()
}

// OpenDriver returns the store that keeps its sessions with drv. Close closes drv.
func OpenDriver(drv driver.Driver, opts *Options) *Store {
	st := newStore(opts)
	st.drv = drv
	st.keepMasking()
	st.warn()
	return st
}

// warn logs that an erase is unfinished.
func (st *Store) warn() {
	plans, err := st.drv.List(context.Background(), "_erase", driver.Position{}, 1)
	if len(plans) > 0 || err != nil {
		st.opts.Logger.Warn("an erase is unfinished, unless a process is carrying it out: erase.Resume finishes it", "err", err)
	}
}

// newStore returns a store that lacks its driver.
func newStore(opts *Options) *Store {
	st := &Store{shared: &shared{}}
	o := &st.opts
	if opts != nil {
		*o = *opts
	}
	o.Counter = tokens.Or(o.Counter)
	o.CachedSessions = cmp.Or(o.CachedSessions, 256)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	st.table = newTable(st)
	return st
}

// Close brings the index up to date, waits for the calls that are under way,
// syncs the rest, and releases everything. Every later call fails with
// [ErrClosed].
func (st *Store) Close() error {
	if st.owner != "" {
		return nil
	}
	st.putRows(context.Background(), "", false)
	return st.done(context.Background(), "close", Ref{}, st.drv.Close())
}

// Load returns the current session of a key, and makes a missing one. Two
// goroutines or processes that load a new key get the same session. The session
// has been read when the error is nil.
func (st *Store) Load(ctx context.Context, key Key) (s *Session, err error) {
	const op = "load"
	var row driver.Row
	for n := 0; n == 0 || n < loadTries && isGone(err); n++ {
		if row, err = st.loadOrCreate(ctx, key); err != nil {
			return nil, &Error{Op: op, Key: key.String(), Err: err}
		}
		s, err = st.open(ctx, op, row)
	}
	return s, err
}

// loadTries is how often Load looks for a session that another goroutine or process
// has not deleted.
const loadTries = 11

func (st *Store) loadOrCreate(ctx context.Context, key Key) (row driver.Row, err error) {
	if key.isOfOne() {
		return row, fmt.Errorf("%w: Channel and Peer must be set in %#v: Get returns a session by its ID", ErrKey, key)
	}
	if err := key.check(); err != nil {
		return row, err
	}
	header := []transcript.Entry{st.header(key.in(), key.String(), CreateOptions{})}
	if header, err = st.filterWrite(ctx, Ref{Agent: key.in(), ID: header[0].ID}, header); err == nil {
		row, err = st.drv.Load(ctx, driver.KeyRef{Agent: key.in(), Owner: st.owner, Key: key.String()}, st.first(header[0]))
	}
	return row, err
}

// Get returns a session by its ID. It reads no transcript: if that cannot be read, the
// next call reports it. A reference without an Agent means "main", here and in all
// methods of the Store.
func (st *Store) Get(ctx context.Context, ref Ref) (*Session, error) {
	ref = inMain(ref)
	row, err := st.get(ctx, ref)
	if err != nil {
		return nil, st.wrap("get", ref, err)
	}
	return st.handle(row), nil
}

// inMain returns a reference with an agent: without one it is "main".
func inMain(ref Ref) Ref { return Ref{Agent: cmp.Or(ref.Agent, "main"), ID: ref.ID} }

// own returns err, but in a scope errNotFound for a missing row or another owner's.
func (st *Store) own(row driver.Row, err error) error {
	if st.owner != "" && (err == nil && row.Owner != st.owner || errors.Is(err, fs.ErrNotExist)) {
		return errNotFound
	}
	return err
}

// get returns the row of a session that the store shows.
func (st *Store) get(ctx context.Context, ref Ref) (driver.Row, error) {
	row, err := st.drv.Get(ctx, ref)
	return row, st.own(row, err)
}

// check returns an error if a scope does not show one of the sessions.
func (st *Store) check(ctx context.Context, refs ...Ref) (err error) {
	for i := 0; err == nil && st.owner != "" && i < len(refs); i++ {
		_, err = st.get(ctx, refs[i])
	}
	return err
}

func (st *Store) open(ctx context.Context, op string, row driver.Row) (*Session, error) {
	s := st.handle(row)
	err := s.view(ctx, op, func(*View) error { return nil })
	if errors.Is(err, ErrReplaced) && !errors.Is(err, fs.ErrNotExist) { // the state was of an earlier session with the same ID
		err = s.view(ctx, op, func(*View) error { return nil })
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CreateOptions of [Store.Create]. Nil and zero fields are the defaults.
type CreateOptions struct {
	ID     string   `json:"id,omitempty"`    // of the session; empty makes a UUIDv7
	Title  string   `json:"title,omitempty"` // set by hand; empty is made from the first user message
	Owner  string   `json:"owner,omitempty"` // UTF-8, as are labels; empty means the parent's
	Labels []string `json:"labels,omitempty"`
	// TTL is how long after its last user message the session is [Expired], in whole
	// seconds, rounded up; 0 is for ever. Only package session/retain removes
	// sessions, when it is called. In JSON it is a number of nanoseconds.
	TTL time.Duration `json:"ttl,omitempty"`
	// Parent is the entry of the call that starts a sub-agent in the session; an
	// empty Agent means the session's. It is recorded and not checked, unless its
	// owner is needed: see [Info] and [ListOptions].
	Parent transcript.Link `json:"parent,omitzero"`
	// Aside leaves the current session of the key as it is: the new session is not
	// current before [Session.MakeCurrent].
	Aside bool `json:"aside,omitempty"`
	// Header is the complete header of an imported session; the other options are
	// ignored. Its ID, its time, its body but for version, key and gen, and its
	// [transcript.Entry.Source] are kept. A header with a gen, or one without a gen and
	// with Aside set, is stored line for line, and must have the key of the session: the
	// gen decides whether the session is current. A gen that another session of the key
	// uses gives an error that matches [fs.ErrExist].
	Header *transcript.Entry `json:"-"`
}

// Create makes a new session and the current one of its key. The old one
// stays; [Session.MakeCurrent] brings it back. An ID in use gives an error
// that matches fs.ErrExist.
//
// A key that holds at most an Agent makes a session that is found by its ID alone: its key
// has the ID in place of a Peer and no Channel, and [Store.Load] never returns it. If the
// name of the Agent begins with '_', the session is for data of the library outside of all
// conversations: only a [Store.List] that names the Agent shows it, and no Filter sees its
// entries.
func (st *Store) Create(ctx context.Context, key Key, opts *CreateOptions) (*Session, error) {
	const op = "create"
	var o CreateOptions
	if opts != nil {
		o = *opts
	}
	if o.ID = cmp.Or(o.ID, newID()); o.Header != nil {
		o.ID = o.Header.ID
	}
	byID := key == Key{Agent: key.Agent}
	if byID {
		key.Peer = o.ID
	}
	var err error
	if !byID || !ofLibrary(key.Agent) {
		err = key.check()
	}
	var row driver.Row
	if err == nil {
		row, err = st.create(ctx, key.in(), key.String(), o)
	}
	if err != nil {
		return nil, &Error{Op: op, Key: key.String(), Err: err}
	}
	return st.handle(row), nil
}

// handle returns a handle on a session. It reads nothing, so a session that exists is never
// reported as an error.
func (st *Store) handle(row driver.Row) *Session {
	return &Session{store: st, ref: row.Ref()}
}

func (st *Store) create(ctx context.Context, agent, key string, o CreateOptions) (row driver.Row, err error) {
	if o.Header != nil {
		return st.createFrom(ctx, agent, key, o)
	}
	if _, err = o.checked(); err == nil {
		o.Owner, err = st.ownerBy(ctx, agent, o)
	}
	if err != nil {
		return row, err
	}
	return st.createWith(ctx, agent, st.header(agent, key, o), nil, driver.Row{Aside: o.Aside})
}

// ownerBy returns the owner of a new session, by default its parent's.
func (st *Store) ownerBy(ctx context.Context, agent string, o CreateOptions) (string, error) {
	if o.Parent.Session == "" || o.Owner != "" && st.owner == "" {
		return o.Owner, nil
	}
	row, err := st.get(ctx, Ref{Agent: cmp.Or(o.Parent.Agent, agent), ID: o.Parent.Session})
	if st.owner == "" && errors.Is(err, fs.ErrNotExist) {
		err = nil // it may be in another store
	}
	return cmp.Or(o.Owner, row.Owner), err
}

// checked validates the options.
func (o *CreateOptions) checked() (CreateOptions, error) {
	switch {
	case o == nil:
		return CreateOptions{}, nil
	case o.TTL < 0:
		return *o, fmt.Errorf("TTL %v is negative", o.TTL)
	case o.Parent != (transcript.Link{}):
		if err := driver.CheckRef(Ref{Agent: cmp.Or(o.Parent.Agent, "-"), ID: o.Parent.Session}); err != nil {
			return *o, err
		}
	}
	for _, name := range append([]string{o.Owner}, o.Labels...) { // a line would have another one in its place
		if !utf8.ValidString(name) {
			return *o, fmt.Errorf("the owner or label %q is not valid UTF-8: nothing was written", name)
		}
	}
	return *o, nil
}

// header makes the header of a new session, without its gen.
func (st *Store) header(agent, key string, o CreateOptions) transcript.Entry {
	if o.ID == "" {
		o.ID = newID()
	}
	now := st.opts.Now().UTC().Truncate(time.Microsecond)
	h := transcript.Header{Key: key, Created: now, Owner: cmp.Or(o.Owner, st.owner)}
	if o.Title != "" {
		h.Meta.Title = &o.Title
	}
	h.Meta.Labels = o.Labels
	if h.Parent = o.Parent; h.Parent.Session != "" {
		h.Parent.Agent, h.Parent.Lines = cmp.Or(h.Parent.Agent, agent), 0
	}
	if o.TTL > 0 {
		h.Meta.TTL = new(int64((o.TTL + time.Second - 1) / time.Second))
	}
	return transcript.Entry{ID: o.ID, Time: now, Body: h}
}

// first returns the function that makes the first line of a session and its
// first row.
func (st *Store) first(header transcript.Entry) func(gen int64) (driver.Row, driver.Line) {
	h, _ := header.Body.(transcript.Header)
	h.Version = transcript.Version
	source, hasSource := header.Source()
	return func(gen int64) (driver.Row, driver.Line) {
		h.Gen = gen
		e := transcript.Entry{ID: header.ID, Time: header.Time, Body: h}
		if hasSource {
			e = e.WithSource(source)
		}
		row := driver.Row{ID: e.ID, Owner: h.Owner, CreatedAt: h.Created, UpdatedAt: e.Time, Base: h.Base, Descent: h.Descent, Parent: h.Parent}
		applyMeta(&row, h.Meta)
		return row, lineOf(st.withChecksum(e))
	}
}

// Delete removes sessions, their transcripts included. Of a key whose current
// session is deleted, the newest one that remains becomes current. When the
// error is nil, no stored word of the sessions remains.
func (st *Store) Delete(ctx context.Context, refs ...Ref) error {
	refs = slices.Clone(refs)
	for i, ref := range refs {
		refs[i] = inMain(ref)
	}
	err := st.table.alone(ctx, sorted(refs), func() error {
		if err := st.check(ctx, refs...); err != nil {
			return err
		}
		return st.drv.Delete(ctx, driver.Anywhere, refs...)
	})
	err = errors.Join(err, st.sweepDeleted(ctx, refs...))
	if len(refs) != 1 {
		return st.done(ctx, "delete", Ref{}, err)
	}
	return st.done(ctx, "delete", refs[0], err)
}

// sorted returns sessions in one order, each once.
func sorted(refs []Ref) []Ref {
	return slices.Compact(slices.SortedFunc(slices.Values(refs), func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.ID, b.ID))
	}))
}

// isGone reports whether an error means that a session no longer exists.
func isGone(err error) bool {
	return errors.Is(err, driver.ErrReplaced) || errors.Is(err, fs.ErrNotExist)
}
