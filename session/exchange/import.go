package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A Source is one session of another program. [dialect.Session] is one; a program
// with a format of its own implements it, see the example.
type Source interface {
	// Info describes the session. Dialect is any name you choose, for example
	// "roomchat", ID the session there: both stay the same from import to import. The
	// other fields may be empty.
	Info() dialect.Session
	// Records yields the session from its beginning, the same records in each loop. For
	// each message yield the entries of one [transcript.NewBatch](m.At, newID, msg).
	// newID must return the same ID at each import, such as the message's number. New
	// records come last. A record with Damage names a place that is not a record. An
	// error ends the sequence.
	Records() iter.Seq2[transcript.Record, error]
}

// Import brings sessions of other programs into the store, from a
// [dialect.Folder] for example, and reports on each in the order of the source.
//
// Every record becomes a batch of native lines with its own time; the first line has the
// original one in "src". The session and its entries keep the IDs of the source that are
// valid and not in use; the others get new ones. [Find] finds a session by the ID that it
// had. The history of the session
// equals the source's, compactions included. Creation time, labels and a title
// that is more than the beginning of the first text are taken over. A helper is
// linked to its session and to the entry of its call, see [session.Info]. Records
// that models do not see become custom entries.
//
// Importing a source again appends the records that are new. Nothing is doubled, even if
// an import was killed: a new ID of the session is derived from the program and the ID
// there, and each batch has an idempotency key derived from the original line and its
// ordinal among equal lines. If a source contains several sessions of one ID, the paths
// of all but the first go into their IDs. An export of a session, to any program, adds
// nothing when it comes back with the same words, calls, results and media. If a tree was
// continued from an earlier entry, a rewind comes first. A source that cannot be followed
// is left alone; its Err matches [ErrDiverged].
//
// Several processes may import one source at a time. The current session of a
// key stays current, unless it was imported too and its last message is older.
// A native session that is in the store already is left alone. If the session is
// archived and the source has more, the error matches [fs.ErrExist] and
// [session.ErrArchived].
//
// The usage of an answer is counted in one session of the store, even if its
// program has copied the answer into other files.
//
// A session that fails does not keep others from being imported; the returned
// error joins all errors, each naming its source. Import stops when ctx is done
// or the store is closed. The source is read several times and must not change
// in between. Memory holds one session at a time, from its last compaction, with several
// copies of its longest line.
func Import[S Source](ctx context.Context, st *session.Store, source iter.Seq[S], opts *ImportOptions) ([]Imported, error) {
	if err := opened(st); err != nil {
		return nil, err
	}
	return importAll(ctx, st, func(yield func(Source) bool) {
		if source == nil {
			return
		}
		for s := range source {
			var from Source = s
			if from == nil {
				from = dialect.Session{Err: fmt.Errorf("a nil Source: %w", fs.ErrInvalid)}
			}
			if !yield(from) {
				return
			}
		}
	}, opts)
}

func importAll(ctx context.Context, st *session.Store, source iter.Seq[Source], opts *ImportOptions) ([]Imported, error) {
	var o ImportOptions
	if opts != nil {
		o = *opts
	}
	if o.Key == nil {
		o.Key = importKey
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var report []Imported
	var errs []error
	taken, parents, requests := map[session.Ref]bool{}, newParents(st), newRequests(st)
	for from := range source {
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("exchange: import: %w", err))
			break
		}
		s := from.Info()
		s.Created, _ = dialect.InZone(s.Created, o.Zone)
		s.Updated, _ = dialect.InZone(s.Updated, o.Zone)
		im := importing{store: st, opts: o, parents: parents, requests: requests, records: from.Records(), Imported: Imported{Source: s, Lost: dialect.Losses{}}}
		if im.Key, im.Err = o.Key(s); im.Err == nil {
			im.Err = im.run(ctx, taken)
		}
		if im.Err != nil {
			errs = append(errs, fmt.Errorf("exchange: import %s: %w", cmp.Or(s.Path, s.ID), im.Err))
		}
		if !o.DryRun {
			st.Audit(ctx, session.Action{Name: "import", Session: im.Session, Err: im.Err})
		}
		report = append(report, im.Imported)
		if o.Done != nil {
			o.Done(im.Imported)
		}
		if errors.Is(im.Err, session.ErrClosed) {
			break
		}
	}
	return report, errors.Join(errs...)
}

// importing is the import of one session.
type importing struct {
	Imported

	store    *session.Store
	opts     ImportOptions
	parents  *parents
	requests *requests
	records  iter.Seq2[transcript.Record, error] // of the source
	sourceIDs
	first transcript.Entry // of the source
	there follower         // what the session has already
	plan  plan
	owner string // of the session
}

// importTries is how often an import is tried while others append to the session.
const importTries = 10

// run imports the session. Taken are the sessions that others of the source
// have become.
func (im *importing) run(ctx context.Context, taken map[session.Ref]bool) (err error) {
	s := im.Source
	if s.Err != nil {
		return s.Err
	}
	if im.first, err = im.firstEntry(); err != nil {
		return err
	}
	if s.Dialect != dialect.OpenViking {
		im.lose("archive", len(s.Archives))
	}
	owner := im.store.Owner()
	im.derived, im.kept = importID(s, im.first, "", owner), s.ID
	im.Session = session.Ref{Agent: im.Key.Agent, ID: im.derived}
	if taken[im.Session] { // another file, perhaps a copy
		im.more = s.Path
		im.derived, im.kept = importID(s, im.first, s.Path, owner), ""
	}
	if s.PutAway {
		im.kept = ""
	}
	taken[session.Ref{Agent: im.Key.Agent, ID: im.derived}] = true
	for n := range importTries {
		if err = im.try(ctx); !errors.Is(err, session.ErrConflict) || n == importTries-1 {
			break
		}
	}
	im.parents.add(s, im.Session)
	return err
}

// try brings the session up to date with the source.
func (im *importing) try(ctx context.Context) error {
	s, err := im.locate(ctx)
	if err != nil {
		return err
	}
	missing := s == nil
	if im.there, err = readFollower(ctx, s); err != nil {
		return err
	}
	if im.Source.Dialect == dialect.Native && im.there.own > 0 && len(im.there.batches) == 0 {
		return nil // it is the session of the source
	}
	if im.Source.Dialect == dialect.ClaudeCode && im.Source.Updated.After(im.there.updated) {
		if err := im.requests.load(ctx, im.Source); err != nil {
			return err
		}
	}
	err = im.compare()
	if !missing && im.closed && (err == nil || errors.Is(err, ErrDiverged)) {
		if err == nil && im.plan.fresh > 0 && !im.plan.foreign() {
			return fmt.Errorf("%s/%s belongs to an owner, and the source to none: import it for the owner: %w", im.Session.Agent, im.Session.ID, fs.ErrPermission)
		}
		return nil
	}
	diverged := errors.Is(err, ErrDiverged)
	if err != nil && (!diverged || im.plan.changed) {
		return err
	}
	// An export has other lines with the same texts.
	if diverged || !missing && im.Source.Origin == im.Session.ID && im.plan.foreign() {
		if back, readErr := im.contained(ctx, s); back || readErr != nil {
			return readErr
		}
	}
	if err != nil {
		return err
	}
	if im.opts.DryRun {
		im.Created, im.Appended = missing, im.plan.fresh
		return im.count()
	}
	// An import that was killed may have left the session empty, and current in
	// place of another one: create decides again which of them is current.
	if missing || im.there.empty() && im.plan.fresh > 0 {
		if s, err = im.create(ctx, missing); err != nil {
			return err
		}
		if im.there, err = readFollower(ctx, s); err != nil {
			return err
		}
	}
	if im.plan.rewind == "" && im.plan.fresh == 0 {
		return nil
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	im.owner = info.Owner
	if err = im.write(ctx, s); errors.Is(err, session.ErrArchived) {
		err = fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

// create makes the session unless it is there, which is a conflict if it was missing. The
// session that was current before stays current, unless it was imported too and is older.
func (im *importing) create(ctx context.Context, missing bool) (*session.Session, error) {
	header, err := im.header(ctx)
	if err != nil {
		return nil, err
	}
	before, err := im.before(ctx, header)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := im.store.Create(ctx, im.Key, &session.CreateOptions{Header: &header})
	im.Created = im.Created || err == nil
	if errors.Is(err, fs.ErrExist) {
		if s, err = im.store.Get(ctx, im.Session); errors.Is(err, fs.ErrNotExist) && im.Session.ID == im.kept {
			im.kept, err = "", session.ErrConflict // it is another owner's
		} else if err == nil && missing {
			return nil, session.ErrConflict // made since, perhaps of another source
		}
	}
	if err != nil || before == nil {
		return s, err
	}
	info, err := before.Info(ctx)
	own := false
	if err == nil {
		own, err = hasOwn(ctx, before)
	}
	if err == nil && (own || info.UpdatedAt.After(im.Source.Updated)) {
		err = before.MakeCurrent(ctx)
	}
	return s, err
}

// before returns the current session of the key, or, if that is the imported
// one already, the newest of the others.
func (im *importing) before(ctx context.Context, header transcript.Entry) (*session.Session, error) {
	h, _ := header.Body.(transcript.Header)
	owner := cmp.Or(h.Owner, im.store.Owner())
	infos, err := im.store.List(ctx, &session.ListOptions{Key: im.Key, Owner: owner, Current: true, State: session.AnyState})
	if err == nil && len(infos) > 0 && infos[0].ID == im.Session.ID {
		infos, err = im.store.List(ctx, &session.ListOptions{Key: im.Key, Owner: owner})
	}
	for _, info := range infos {
		if info.Key == im.Key.String() && info.Owner == owner && info.ID != im.Session.ID {
			return im.store.Get(ctx, info.Ref)
		}
	}
	return nil, err
}

func (im *importing) header(ctx context.Context) (_ transcript.Entry, err error) {
	s := im.Source
	created := s.Created
	if created.IsZero() {
		created = im.opts.Now()
	}
	created = created.UTC().Truncate(time.Microsecond)
	from, native := im.first.Body.(transcript.Header)
	h := transcript.Header{Created: created, Owner: cmp.Or(im.opts.For, from.Owner)}
	if im.store.Owner() == "" {
		h.Owner = im.wanted()
	}
	if native {
		h.Meta, h.Base, h.Descent, h.Parent = from.Meta, from.Base, from.Descent, from.Parent
	}
	if s.Parent != "" {
		if h.Parent, err = im.parents.link(ctx, s, im.Key.Agent); err != nil {
			return transcript.Entry{}, err
		}
	}
	if s.Titled {
		h.Meta.Title = &s.Title
	}
	if len(s.Labels) > 0 {
		h.Meta.Labels = slices.Clone(s.Labels)
	}
	e := transcript.Entry{ID: im.Session.ID, Time: created, Body: h}
	if native {
		e = e.WithSource(im.first.Line())
	}
	return e, nil
}

// count notes the answers that a dry run would append: they count in no later session.
func (im *importing) count() error {
	for b, err := range im.batches(func(string) {}) {
		if err != nil {
			return err
		}
		for _, e := range b.entries {
			im.requests.add(im.Session, e)
		}
	}
	return nil
}

// chunkBytes is how many bytes of original lines are written with one append, and
// synced together.
const chunkBytes = 512 << 10

// write appends what the source has and the session has not.
func (im *importing) write(ctx context.Context, s *session.Session) error {
	var chunk []transcript.Entry
	size, batches := 0, 0
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		entries, n := chunk, batches
		chunk, size, batches = nil, 0, 0 // the texts are free as soon as they are written
		end, err := s.AppendLines(ctx, im.there.end, entries...)
		if err == nil {
			im.there.end = end
			im.Appended += n
		}
		return err
	}
	if im.plan.rewind != "" {
		e := transcript.Entry{ID: newID(), Time: im.opts.Now(), Body: transcript.Rewind{To: im.plan.rewind}}
		e.Idem, e.IdemHash = rewindKeys+strconv.Itoa(im.there.rewinds), transcript.IdemHash([]transcript.Entry{e})
		chunk = append(chunk, e)
	}
	for b, err := range im.batches(func(string) {}) {
		if err != nil {
			return errors.Join(err, flush())
		}
		if size >= chunkBytes { // not earlier: the source has let go of a long line
			if err := flush(); err != nil {
				return err
			}
		}
		if b.entries == nil {
			continue
		}
		batches++
		size += b.size
		for _, e := range b.entries {
			im.requests.add(im.Session, e)
			chunk = append(chunk, e)
		}
	}
	return flush()
}

// newID returns an ID greater than all that this process has made.
func newID() string { return uuid.Must(uuid.NewV7()).String() } // crypto/rand never fails

func (im *importing) lose(what string, n int) {
	if n > 0 {
		im.Lost[what] += n
	}
}
