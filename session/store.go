package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript/redact"
	"github.com/convolog/convolog/transcript/tokens"
)

// Options of [Open] and [OpenDriver]. Nil and zero fields are the defaults:
// durable, private, no model needed.
type Options struct {
	// Sync decides when an append is on stable storage. The zero value,
	// [SyncAlways], means: when it returns. docs/BENCHMARKS.md has the cost of each
	// policy. OpenDriver ignores it.
	//
	// Processes that share a store should have one policy. No record shows which lines
	// of a [SyncNever] process are still unsynced. Another process may sync them, for a
	// [Session.Flush] or an append of its own. If that one is killed while the disk
	// fails, a third may report the lines as durable though they are not.
	Sync SyncPolicy
	// NoChecksum writes lines without a checksum. Lines without one are read
	// like all others, but a changed letter in one of them goes unnoticed.
	NoChecksum bool
	// ReadOnly opens without writing anything. Lines that a dead writer left
	// unfinished are taken for final; lines of a living one are left out until they
	// are whole. It is for Open: the driver of OpenDriver must refuse changes itself.
	ReadOnly bool
	// SingleProcess makes [Open] allow network and unknown file systems, where locks
	// between processes are unreliable. OpenDriver ignores it.
	SingleProcess bool
	// Summary is where models are shown the summary of a compaction.
	Summary rebuild.SummaryForm
	// Counter estimates tokens; nil means tokens.Estimator.
	Counter tokens.Counter
	// Compact configures compactions, and its Trigger when AfterTurn runs one.
	// The zero value keeps the newest messages, by the window of the model, and needs
	// no model for the summary.
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
	//
	// Each EventAppendStart and EventCompactionStart is followed by the end of the
	// operation, see [EventKind]. The context that Observe returns for a start replaces
	// the caller's: filters, the driver and the summarizer receive it, and so does
	// Observe with the later events of the operation. It must be derived from ctx; nil
	// keeps ctx. The result for other events is ignored.
	Observe func(ctx context.Context, e Event) context.Context
	// Audit receives an [Action], done or failed, when whole sessions are removed,
	// archived, trashed, restored, exported, imported or given to an owner. It runs like
	// Observe. Nil is silent.
	Audit func(ctx context.Context, a Action)
	// Logger receives warnings for a person; nil is silent.
	Logger *slog.Logger
}

// SyncPolicy decides when an append is on stable storage, see [Options].Sync.
// Policies are comparable.
type SyncPolicy = filelog.SyncPolicy

// The policies without a parameter; [SyncInterval] has one.
var (
	// SyncAlways: when the append returns. It is the zero value. An append takes as long as
	// the disk takes to sync, which many goroutines share.
	SyncAlways = filelog.SyncAlways
	// SyncNever: when the operating system writes it. An append survives a
	// killed process but not a power cut. [Session.Flush] still syncs.
	SyncNever = filelog.SyncNever
)

// SyncInterval syncs at most d after an append, in the background, and when the store is
// closed: a power cut loses the entries acknowledged in the last d. An append that finds
// more than 8 MiB waiting syncs them itself. While there is nothing to sync, nothing runs.
// The next call reports a failed sync. If d is not positive, the policy is [SyncAlways].
func SyncInterval(d time.Duration) SyncPolicy { return filelog.SyncInterval(d) }

// Store is a set of sessions. It is safe for several goroutines, and several
// processes may have one store open, each with a Store of its own.
//
// A Store keeps a bounded number of unused sessions open. Close waits for the
// goroutines that the Store starts, for example to sync under [SyncInterval].
type Store struct {
	*shared
	owner string // of a scope, or empty
}

// shared holds the state common to a Store and its scopes.
type shared struct {
	observer
	opts  Options
	lines live.Options
	drv   driver.Driver
	table *live.Table
	noted atomic.Bool // the storage records that the store masks: set by noteMasking
}

// Session is a handle on one conversation. It is safe for several goroutines,
// is cheap and needs no Close. Handles stay good until the session is deleted
// or the store is closed. Every method that reads first reads the entries that
// any process has added since.
type Session struct {
	store *Store
	ref   Ref
}

// Ref returns the name of the session.
func (s *Session) Ref() Ref { return s.ref }

// Store returns the store that the session came from.
func (s *Session) Store() *Store { return s.store }

// OpenDriver returns the store that keeps its sessions with drv. Close closes drv.
func OpenDriver(drv driver.Driver, opts *Options) *Store {
	st := newStore(opts)
	st.start(drv)
	return st
}

// start gives the store its driver, and logs a warning while an erase is unfinished.
func (st *Store) start(drv driver.Driver) {
	st.drv, st.lines.Driver = drv, drv
	st.keepMasking()
	plans, err := st.drv.List(context.Background(), "_erase", driver.Position{}, 1)
	if len(plans) > 0 || err != nil {
		st.opts.Logger.Warn("an erase is unfinished, unless a process is carrying it out: erase.Resume finishes it", "err", err)
	}
}

// maskedNote is a session that exists if the store masks texts.
var maskedNote = Ref{Agent: "_settings", ID: "masked"}

// keepMasking adds the ready hook to the filters if the store masks and the options do
// not. If that is unknown it masks: a mask can be explained, but a stored password
// cannot be taken back.
func (st *Store) keepMasking() {
	if masking(st.opts.Filters) {
		return
	}
	if _, err := st.drv.Get(context.Background(), maskedNote); !errors.Is(err, fs.ErrNotExist) {
		st.opts.Filters = slices.Concat([]Filter{Redact(redact.Secrets)}, st.opts.Filters)
		st.opts.Logger.Warn("the store masks secrets and the options lack session.Redact: redact.Secrets masks them", "err", err)
	}
}

// newStore returns a store without its driver.
func newStore(opts *Options) *Store {
	st := &Store{shared: &shared{}}
	o := &st.opts
	if opts != nil {
		*o = *opts
	}
	o.Counter = tokens.Or(o.Counter)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	st.observe = o.Observe
	st.lines = live.Options{
		Options:  replay.Options{Summary: o.Summary, Counter: o.Counter, Trigger: o.Compact.Counter, NoChecksum: o.NoChecksum},
		ReadOnly: o.ReadOnly, Idle: cmp.Or(o.CachedSessions, 256), Logger: o.Logger,
	}
	st.table = live.NewTable(&st.lines)
	return st
}

// Close brings the index up to date, waits for the calls that are under way,
// syncs the rest, and releases everything. Every later call fails with
// [ErrClosed].
func (st *Store) Close() error {
	if st.owner != "" {
		return nil
	}
	st.table.PutRows(context.Background(), "", false)
	return st.done(context.Background(), "close", Ref{}, st.drv.Close())
}

// Get returns a session by its ID. It reads no transcript: if that cannot be read, the
// next call reports it. A reference without an Agent means "main", here and in all
// methods of the Store.
//
// A session in the trash gives an error that matches [fs.ErrNotExist], like a missing
// one. Get also returns the session, for programs that must read it all the same.
func (st *Store) Get(ctx context.Context, ref Ref) (*Session, error) {
	ref = inMain(ref)
	row, err := st.get(ctx, ref)
	if err != nil {
		return nil, st.wrap("get", ref, err)
	}
	if isTrashed(row) {
		err = errTrashed
	}
	return &Session{st, ref}, st.wrap("get", ref, err)
}

var errTrashed = fmt.Errorf("the session is in the trash: restore it first: %w", fs.ErrNotExist)

// get returns the row of a session that the store shows.
func (st *Store) get(ctx context.Context, ref Ref) (driver.Row, error) {
	row, err := st.drv.Get(ctx, ref)
	return row, live.Shown(st.owner, row.Owner, err)
}

// check returns an error if a scope does not show one of the sessions.
func (st *Store) check(ctx context.Context, refs ...Ref) (err error) {
	for i := 0; err == nil && st.owner != "" && i < len(refs); i++ {
		_, err = st.get(ctx, refs[i])
	}
	return err
}

// wrap adds the session to an error, and the file if that is missing. With a zero
// ref the error is about several sessions, and its parts name them.
func (st *Store) wrap(op string, ref Ref, err error) error {
	if err == nil {
		return nil
	}
	if ref == (Ref{}) {
		return fmt.Errorf("session: %s: %w", op, err)
	}
	if live.IsGone(err) {
		st.table.Forget(ref) // later lines must not mix with the old state
	}
	e := &Error{Op: op, Session: ref, Err: err}
	if files, ok := st.drv.(interface{ Path(ref Ref) string }); ok && st.owner == "" && driver.CheckRef(ref) == nil {
		if path := files.Path(ref); !strings.Contains(err.Error(), path) {
			e.Path = path
		}
	}
	return e
}

// done ends a call: it reports the events of the driver, and then these, to the observer,
// and adds the operation and the session to an error.
func (st *Store) done(ctx context.Context, op string, ref Ref, err error, events ...Event) error {
	st.tell(ctx, ref, events...)
	return st.wrap(op, ref, err)
}

// Audit reports an action to [Options].Audit. Features and servers call it; an application
// calls it for actions of its own.
func (st *Store) Audit(ctx context.Context, a Action) {
	if st.opts.Audit == nil {
		return
	}
	if st.owner != "" {
		a.Owner = st.owner
	}
	st.opts.Audit(ctx, a)
}

// Beyond describes the places where deleted or erased words are out of the driver's
// reach. A driver may implement the same method.
func (st *Store) Beyond() []string {
	if d, ok := st.drv.(interface{ Beyond() []string }); ok {
		return d.Beyond()
	}
	return nil
}

// able returns a driver as a T, if it is one.
func able[T any](drv driver.Driver) (T, error) {
	a, ok := drv.(T)
	if !ok {
		return a, fmt.Errorf("the driver of the store lacks this ability: %w", errors.ErrUnsupported)
	}
	return a, nil
}

// Report gives the observer an event of a feature, and logs its error with attrs.
func Report(ctx context.Context, s *Session, e Event, attrs ...any) {
	s.store.opts.Logger.Warn(string(e.Kind), append([]any{"agent", s.ref.Agent, "session", s.ref.ID, "err", e.Err}, attrs...)...)
	s.store.tell(ctx, s.ref, e)
}
