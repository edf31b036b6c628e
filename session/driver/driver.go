// Package driver is the interface of the storage that package session keeps its
// sessions in. It does not interpret lines.
//
// Two drivers come with the module: session.Open uses one that keeps a folder of
// JSONL files, and memdriver keeps everything in memory, for tests. The author of
// another one runs the suite of package sessiontest on it.
package driver

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/convolog/convolog/transcript"
)

// Driver stores sessions: for each an append-only sequence of lines and a
// [Row] that describes it.
//
// All methods may be called by several goroutines, and several processes may
// use one storage at a time. The context is honoured until a write begins; a
// write that has begun is finished. A nil error means that the write is as
// durable as the settings of the driver promise. An error that does not say
// otherwise means that nothing was written. A write whose outcome is unknown
// gives a [*NotDurableError]. A session that is not there gives an error that
// matches [io/fs.ErrNotExist]; after Close every method gives one that matches
// [ErrClosed].
type Driver interface {
	// Append adds lines, one or more, all or none and with nothing in between, if the
	// session ends at the cursor at, or anywhere if at is negative. The condition and the
	// write are one step, in all processes. Append does not retain lines.
	//
	// ^c means anywhere, for a caller that has read up to the cursor c. If the session was
	// replaced since then, a driver whose cursors show that fails with [ErrReplaced], even
	// if another call has got that error.
	//
	// If the session ends elsewhere, or lines is empty, Append adds the lines that decide
	// returns instead. Decide is called with the cursor at which the session ends. Until
	// Append returns, no other call, in any process, can append to the session or delete
	// it. An error of decide fails the append. Decide may scan the session, get its row
	// and look its key up; it must not call another method of the driver on it. It may be
	// called again if the driver repeats the append. If decide is nil, an append at another
	// end fails with [ErrConflict]. An append of no lines only ends an unfinished write of
	// a dead process.
	Append(ctx context.Context, ref Ref, lines []Line, at Cursor, decide func(ctx context.Context, end Cursor) ([]Line, error)) (Result, error)

	// Scan yields the records of a session in the given direction. Forward it
	// starts at the cursor from, backward it ends there; 0 is the beginning.
	// Records are read as the loop asks for them, lines of an append that is
	// not finished may be missing at the end, and a line that was yielded
	// never changes. The sequence ends after the first pair with an error.
	// Records on lines that keep refuses are left out; nil keeps all.
	Scan(ctx context.Context, ref Ref, from Cursor, dir Direction, keep Keep) iter.Seq2[transcript.Record, error]

	// Load returns the current session of a key: the one with the highest gen. A session
	// with the gen 0 is never current. Without a current session it creates one, and
	// header returns its first line. Callers that ask for one key at the same time, in any
	// process, get the same session. If unreadable lines may be the session of the key,
	// Load fails and creates nothing. Header may be called several times; the last one
	// counts. If header is nil, Load only looks.
	Load(ctx context.Context, key KeyRef, header func(gen int64) (Row, Line)) (Row, error)

	// Create makes a session and the current one of its key. Header gets a gen above all
	// of the key. The lines in more follow the header: the session exists with all of
	// them, or it does not exist. An ID in use gives an error that matches
	// [io/fs.ErrExist]. The row has the cursor after its lines as its Size, or 0,
	// whatever Size header returns.
	//
	// If header returns a row with a BaseRev, Create checks the session of the same agent
	// that Base names. At the moment of creation it must have that Rev, and its deletion
	// must not have begun. Otherwise Create fails with [ErrReplaced].
	Create(ctx context.Context, key KeyRef, header func(gen int64) (Row, Line), more ...Line) (Row, error)

	// SetCurrent makes a session the current one of its key. Unless it is current
	// already, it appends the line, with a gen above all of the key. If gen is above 0,
	// SetCurrent only raises the gen of the session to it, as Create does with a GivenGen,
	// and writes no line.
	SetCurrent(ctx context.Context, ref Ref, gen int64, line func(gen int64) Line) (Row, error)

	// Delete removes the sessions that end at the cursor at, or all if at is negative. If
	// at is not negative, a session that ends elsewhere gives an error that matches
	// [ErrConflict], and one with a running turn [ErrBusy]. The current session of a key
	// is then the one with the highest gen of those that remain. When the error is nil,
	// no stored word of the deleted sessions remains anywhere in the storage. After an
	// error, every session that no error names is deleted; errors of several sessions are
	// joined. A session that is named twice counts once. Other users of a session that
	// was deleted and made anew get [ErrReplaced] once. Once a session of an agent whose
	// name begins with '_' is deleted, no word remains of sessions and copies that
	// processes were making when they were killed.
	Delete(ctx context.Context, at Cursor, refs ...Ref) error

	// Get returns the row of a session. If only its header is known, between the loss
	// of an index and a List, the row holds ID, Owner, Key and Gen, and Size is 0.
	Get(ctx context.Context, ref Ref) (Row, error)

	// Put replaces the row of a session. It may be lost in a crash: a row repeats
	// facts of the lines. Gen, Owner and Key are kept as they are.
	Put(ctx context.Context, row Row) error

	// List returns the next n rows of an agent's sessions after a place, the
	// newest first, with Current set; n 0 means all. A row that lacks lines is Stale,
	// unless List has brought it up to date. The zero Position is before
	// the first row. A row that stays unchanged between two calls is on exactly
	// one of two pages, even if others change. Without an agent List returns a row for
	// each agent that has sessions, sorted, with Agent alone.
	List(ctx context.Context, agent string, after Position, n int) ([]Row, error)

	// LockTurn takes the turn lock of a session, which is released when
	// release is called or the process ends. If wait is false and the lock is
	// held, the error matches [ErrBusy]; if it is true LockTurn waits until
	// ctx is done, and the error then matches both, even if ctx was done before
	// the call.
	LockTurn(ctx context.Context, ref Ref, wait bool) (release func() error, err error)

	// Flush returns when everything appended to the session so far is on
	// stable storage. After a sync has failed it fails, unless cure is set: then it makes
	// the session accept appends again, and the stored parts of failed appends are on
	// stable storage as well. After an error the session is as it was. If another process
	// has archived, replaced or deleted the session since the sync failed, the first Flush
	// returns the failure, and the next one is about the new state.
	Flush(ctx context.Context, ref Ref, cure bool) error

	// Close waits for the calls under way and releases everything. Calls that
	// wait for a lock give up with [ErrClosed]. Close does not wait for a loop
	// over a Scan: the loop ends with [ErrClosed] at its next record. A turn lock
	// that is held stays held until it is released.
	Close() error
}

// Ref names a session: its ID is unique within its agent.
type Ref struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
}

// KeyRef names a key. Keys of two owners have nothing in common, whatever their names.
// An empty Owner means no owner, which separates keys like any owner.
type KeyRef struct{ Agent, Owner, Key string }

// Line is one line of a session.
type Line struct {
	ID   string // of the entry
	Data []byte // one JSON object, without a newline
}

// Cursor is a place between two lines of a session, or an offset inside a
// damaged one. Of two cursors of one session the greater one is later; nothing
// else can be said about them. 0 is the beginning.
type Cursor int64

// Direction is the order in which a scan goes.
type Direction int

// The directions.
const (
	Forward Direction = iota
	Backward
)

// Keep reports whether a scan wants the records on lines. Its arguments are one line or
// several whole ones, without the last newline, and the place of the first. It must
// accept several lines if it accepts one of them; it is then called for each alone. Lines
// come in the order of the scan, each only when the loop has taken the records before;
// before the first record they may come twice. It must not retain or modify them.
type Keep func(at Cursor, lines []byte) bool

// Keeps reports whether a scan with keep yields a record. It yields every record without
// an entry.
func Keeps(keep Keep, rec transcript.Record) bool {
	return keep == nil || !rec.HasEntry() || keep(Cursor(rec.Offset), rec.Entry.Line())
}

// Anywhere is the cursor of an append that has no condition.
const Anywhere = ^Cursor(0)

// Result is the place of the lines of an append. Without any, both are the end.
type Result struct{ Start, End Cursor }

// Row describes a session, so that sessions can be listed without reading
// their lines. All of it can be derived from the lines; it is a cache.
type Row struct {
	ID            string    `json:"id"`
	UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	Size          int64     `json:"size"` // the cursor up to which the row holds; a driver may update an older row
	Gen           int64     `json:"gen"`
	Rev           int       `json:"rev,omitempty"` // as in the header; of two rows the one with the higher Rev counts
	LastID        string    `json:"lastId,omitempty"`
	Archived      bool      `json:"archived,omitempty"` // see [Rewriter]
	Owner         string    `json:"owner,omitempty"`    // as in the header
	Key           string    `json:"key"`
	Agent         string    `json:"agentId,omitempty"`
	Title         string    `json:"title,omitempty"`
	TitleByHand   bool      `json:"titleByHand,omitempty"`
	TitledAt      int       `json:"titledAt,omitempty"` // Messages when the title was set
	Labels        []string  `json:"labels,omitempty"`
	CreatedAt     time.Time `json:"createdAt,omitzero"`
	LastUserAt    time.Time `json:"lastUserAt,omitzero"`
	Messages      int       `json:"messageCount"`
	Turns         int       `json:"turnCount"`
	TokenEstimate int       `json:"tokenEstimate"`
	Compactions   int       `json:"compactions,omitempty"` // rewound ones included, but not those that a fork was copied with
	TTL           int64     `json:"ttl,omitempty"`         // seconds
	Keep          bool      `json:"keep,omitempty"`
	Trashed       int64     `json:"trashed,omitempty"` // as in the last metadata; counts only while the session is archived
	// Waits is the next step of the unfinished work at the end of the history, as
	// the method Waits of rebuild.Pending names it. Empty means that no work is unfinished.
	Waits string `json:"waits,omitempty"`
	// Usage is the usage of the answers, by model. The map is never changed: an
	// update makes a new map.
	Usage map[string]Usage `json:"usage,omitempty"`

	// Values are the listed values of the application, by name, in JSON. The map is never
	// changed. Unlisted is how many more did not fit.
	Values   map[string]json.RawMessage `json:"values,omitempty"`
	Unlisted int                        `json:"unlisted,omitempty"`

	// Base, Descent and Parent are copies of the links in the header.
	Base    transcript.Link   `json:"base,omitzero"`
	Descent []transcript.Link `json:"descent,omitempty"`
	Parent  transcript.Link   `json:"parent,omitzero"`

	// BaseRev is for [Driver.Create] alone: the Rev that the session of Base must have.
	// Nil allows any.
	BaseRev *int `json:"-"`

	// GivenGen is for [Driver.Create] alone: above 0 it is the gen of the session, for
	// example of a copy from another storage. A gen that another session of the key has
	// gives an error that matches [io/fs.ErrExist]. The next gen of the key is above it.
	GivenGen int64 `json:"-"`

	// Aside is for [Driver.Create] alone: the session gets the gen 0.
	Aside bool `json:"-"`

	// Current reports whether the session is the current one of its key. Only
	// List sets it.
	Current bool `json:"-"`

	// Bytes is the size of all lines with their newlines, also in an archive. Only Get,
	// Load and List set it, and only if Size does not count bytes.
	Bytes int64 `json:"-"`

	// Stale reports that the session may have lines after Size. Only List sets it.
	Stale bool `json:"-"`
}

// Usage is the cost of the answers of one model, in tokens as the provider has
// reported them.
type Usage struct {
	Answers    int `json:"answers"`
	Input      int `json:"input"` // neither read from nor written to a cache
	Output     int `json:"output"`
	CacheRead  int `json:"cacheRead,omitempty"`
	CacheWrite int `json:"cacheWrite,omitempty"`
}

// Plus returns the sum of both.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Answers + v.Answers, u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// Position is a place in a list of rows that is ordered by UpdatedAt, then by
// ID, the latest and greatest first.
type Position struct {
	UpdatedAt time.Time
	ID        string
}

// Position returns the place of the row.
func (r Row) Position() Position { return Position{r.UpdatedAt, r.ID} }

// Compare returns a negative number if p comes before q in a list.
func (p Position) Compare(q Position) int {
	if c := q.UpdatedAt.Compare(p.UpdatedAt); c != 0 {
		return c
	}
	return strings.Compare(q.ID, p.ID)
}

// Ref returns the name of the session.
func (r Row) Ref() Ref { return Ref{Agent: r.Agent, ID: r.ID} }

// KeyRef returns the name of the key of the session.
func (r Row) KeyRef() KeyRef { return KeyRef{Agent: r.Agent, Owner: r.Owner, Key: r.Key} }

// Errors that callers branch on. None of them means that anything was written.
var (
	ErrClosed   = errors.New("the store is closed")
	ErrConflict = errors.New("session changed since it was read; read it again and retry")
	ErrBusy     = errors.New("lock is held, for example by another turn; wait for it or try again later")
	ErrReplaced = errors.New("the session was deleted or replaced: load it again")
)
