package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// CreateOptions of [Store.Create]. Nil and zero fields are the defaults.
type CreateOptions struct {
	ID     string   `json:"id,omitempty"`    // of the session; empty makes a UUIDv7
	Title  string   `json:"title,omitempty"` // set by hand; empty is made from the first user message
	Owner  string   `json:"owner,omitempty"` // UTF-8, as are labels; empty means the parent's
	Labels []string `json:"labels,omitempty"`
	// TTL is the time from the last user message until the session is [Expired], in
	// whole seconds, rounded up; 0 means never. Only package session/retain removes
	// sessions, when it is called. In JSON it is a number of nanoseconds.
	TTL time.Duration `json:"ttl,omitempty"`
	// Parent is the entry of the call that starts a sub-agent in the session; an
	// empty Agent means the session's. It is recorded and not checked, unless its
	// owner is needed: see [Info] and [ListOptions].
	Parent transcript.Link `json:"parent,omitzero"`
	// Values are listed values that the session begins with, by name: any JSON. They are the
	// program's: a client of HTTP, which sends the other options, cannot set them.
	Values map[string]json.RawMessage `json:"-"`
	// Aside leaves the current session of the key as it is: the new session is not
	// current before [Session.MakeCurrent].
	Aside bool `json:"aside,omitempty"`
	// Header is the complete header of an imported session; the other options are
	// ignored. Its ID, its time, its body except version, key, gen, and its
	// [transcript.Entry.Source] are kept. A header with a gen, or without one if Aside
	// is set, is stored line for line, and must have the key of the session: the gen
	// decides whether the session is current. A gen that another session of the key uses
	// gives an error that matches [fs.ErrExist].
	Header *transcript.Entry `json:"-"`
}

// Create makes a new session, the current one of its key. The old one stays;
// [Session.MakeCurrent] brings it back. An ID in use gives an error that
// matches fs.ErrExist.
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
	st.auditOwner(ctx, row)
	return &Session{st, row.Ref()}, nil
}

// auditOwner reports that the Store itself has made a session for an owner.
func (st *Store) auditOwner(ctx context.Context, row driver.Row) {
	if row.Owner != "" && st.owner == "" && !ofLibrary(row.Agent) {
		st.Audit(ctx, Action{Name: "owner", Session: row.Ref()})
	}
}

// Load returns the current session of a key, which it makes if missing. Two
// goroutines or processes that load a new key get the same session. The session
// has been read when the error is nil.
func (st *Store) Load(ctx context.Context, key Key) (s *Session, err error) {
	const op = "load"
	var row driver.Row
	for n := 0; n == 0 || n < loadTries && (errors.Is(err, ErrReplaced) || errors.Is(err, fs.ErrNotExist)); n++ {
		if row, err = st.loadOrCreate(ctx, key); err != nil {
			return nil, &Error{Op: op, Key: key.String(), Err: err}
		}
		s, err = st.open(ctx, op, row)
	}
	return s, err
}

// loadTries is how often Load tries while other goroutines or processes delete the
// session.
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
	header := st.header(agent, key, o)
	values, err := st.values(header, o.Values)
	if err != nil {
		return row, err
	}
	return st.createWith(ctx, agent, header, values, driver.Row{Aside: o.Aside})
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
		return *o, &InputError{"ttl", "it is negative"}
	case o.Parent != (transcript.Link{}):
		if err := driver.CheckRef(Ref{Agent: cmp.Or(o.Parent.Agent, "-"), ID: o.Parent.Session}); err != nil {
			return *o, err
		}
	}
	if !utf8.ValidString(o.Owner) { // a line would hold another owner
		return *o, &InputError{"owner", fmt.Sprintf("%q is not valid UTF-8", o.Owner)}
	}
	for name, value := range o.Values {
		if !utf8.ValidString(name) || !json.Valid(value) {
			return *o, &InputError{"values", fmt.Sprintf("%q: the name is not valid UTF-8, or the value not valid JSON", name)}
		}
	}
	return *o, checkMeta(transcript.Meta{Title: &o.Title, Labels: o.Labels})
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

// values returns the entries that set the first values of a session.
func (st *Store) values(header transcript.Entry, values map[string]json.RawMessage) ([]transcript.Entry, error) {
	var items []transcript.Item
	for _, name := range slices.Sorted(maps.Keys(values)) {
		items = append(items, transcript.Value{Name: name, Value: values[name], Listed: true})
	}
	return st.entries(header.Time, newID, items)
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
		replay.ApplyMeta(&row, h.Meta)
		return row, live.LineOf(st.lines.WithChecksum(e))
	}
}

// createFrom makes a session of a key with the header of [CreateOptions].
func (st *Store) createFrom(ctx context.Context, agent, key string, opts CreateOptions) (row driver.Row, err error) {
	header := *opts.Header
	h, ok := header.Body.(transcript.Header)
	switch {
	case !ok:
		return row, fmt.Errorf("a line of type %q is not a header: nothing was written", header.Type())
	case h.Gen == 0 && !opts.Aside:
		h.Key = key
		header.Body = h
		return st.createWith(ctx, agent, header, nil, driver.Row{})
	case st.owner != "" && h.Owner != st.owner:
		return row, errOwner
	case h.Key != key:
		return row, fmt.Errorf("the key of the header is %q: nothing was written", h.Key)
	}
	row, _ = st.first(header)(h.Gen)
	row.Rev, row.GivenGen, row.Aside = h.Rev, h.Gen, h.Gen == 0
	ref := Ref{Agent: agent, ID: row.ID}
	if err := driver.CheckRef(ref); err != nil {
		return row, err
	}
	return st.filterNew(ctx, ref, []transcript.Entry{header}, func(entries []transcript.Entry) (driver.Row, error) {
		defer st.table.Forget(ref)
		h, _ := entries[0].Body.(transcript.Header)
		replay.ApplyMeta(&row, h.Meta)
		return st.drv.Create(ctx, driver.KeyRef{Agent: agent, Owner: row.Owner, Key: key}, func(int64) (driver.Row, driver.Line) { return row, live.LineOf(entries[0]) })
	})
}

// createWith makes a session of a header and of lines that follow it. With holds
// the BaseRev and Aside of its row.
func (st *Store) createWith(ctx context.Context, agent string, header transcript.Entry, lines []transcript.Entry, with driver.Row) (row driver.Row, err error) {
	h, _ := header.Body.(transcript.Header)
	h.Owner = cmp.Or(h.Owner, st.owner)
	if st.owner != "" && h.Owner != st.owner {
		return row, errOwner
	}
	if err := driver.CheckRef(Ref{Agent: agent, ID: header.ID}); err != nil {
		return row, err
	}
	bare := transcript.Entry{ID: header.ID, Time: header.Time, Body: h}
	if source, ok := header.Source(); ok {
		bare = bare.WithSource(source)
	}
	return st.filterNew(ctx, Ref{Agent: agent, ID: bare.ID}, append([]transcript.Entry{bare}, lines...), func(entries []transcript.Entry) (row driver.Row, err error) {
		first := st.first(entries[0])
		if _, line := first(math.MaxInt64); len(line.Data) > transcript.DefaultMaxLine {
			return row, fmt.Errorf("the header needs a line of %d bytes, the limit is %d: nothing was written", len(line.Data), transcript.DefaultMaxLine)
		}
		full, err := replay.NewRow(agent, entries, &st.lines.Options)
		if err != nil {
			return row, err
		}
		full.BaseRev, full.Aside = with.BaseRev, with.Aside
		more := make([]driver.Line, len(lines))
		for i, e := range entries[1:] {
			more[i] = live.LineOf(e)
		}
		row, err = st.drv.Create(ctx, full.KeyRef(), func(gen int64) (driver.Row, driver.Line) {
			if full.Aside {
				gen = 0
			}
			_, line := first(gen)
			return full, line
		}, more...)
		if err == nil {
			st.table.Forget(row.Ref())
		}
		return row, err
	})
}

// filterNew calls create with the entries of a new session, the header first, as the
// filters return them.
func (st *Store) filterNew(
	ctx context.Context, ref Ref, entries []transcript.Entry, create func(entries []transcript.Entry) (driver.Row, error),
) (row driver.Row, err error) {
	if len(st.opts.Filters) == 0 {
		return create(entries)
	}
	if _, err := st.drv.Get(ctx, ref); err == nil {
		return row, fmt.Errorf("session %s of agent %q: %w: choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	// While the filters work, the caller may give up. After that their context ends
	// only with the call.
	making, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, end)
	out, err := st.filterWrite(making, ref, entries)
	if !stop() {
		err = cmp.Or(ctx.Err(), err)
	}
	if err == nil {
		own := 1 + copiesIn(entries)
		row, err = create(slices.Concat(out[:1], entries[1:own], out[own:]))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = errors.Join(err, st.sweepDeleted(context.WithoutCancel(ctx), ref))
	}
	return row, err
}
