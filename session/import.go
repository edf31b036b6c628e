package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// ErrDiverged says that a source can no more be brought to the session that
// was imported from it: records that were imported have changed in it or are
// gone, or both have been continued. Nothing was appended. Delete the session
// and import it again, or import it for another agent, see [ImportOptions].Key.
var ErrDiverged = errors.New("the source and the session imported from it have gone different ways: " +
	"nothing was appended; delete the session or import for another agent")

// ImportOptions of [Store.Import]. Nil and zero fields are the defaults.
type ImportOptions struct {
	// Key says where a session of the source belongs; nil is [ImportKey].
	Key func(dialect.Session) (Key, error)
	// DryRun writes nothing. The report says what would be done.
	DryRun bool
}

// Imported is what became of one session of a source.
type Imported struct {
	Source  dialect.Session
	Session Ref
	Key     Key
	Created bool // the session was not there
	Records int  // in the source
	// Appended is how many of the records were new: 0 if all were imported
	// earlier.
	Appended int
	// Lost counts what was not carried over as it is: "damage" (places in the
	// source that are no record), "time" (entries without a time, which have got
	// the one before), "reference" (of compactions, clips and rewinds to
	// entries that are not there), "unknown" (records that are not understood;
	// they are kept as custom entries), "archive" (files of earlier copies, which
	// were not read), "record" (that no line could be made of) and "source"
	// (lines that are too long to keep the original beside what was made of it).
	Lost dialect.Losses
	// Err is why it was not imported, or not completely.
	Err error
}

// ImportKey returns the key of a session of another program: its own by the
// rules of [ParseForeignKey], and where that names no agent, that of the
// session. A program without keys gives agent:<dialect>:<session ID>, the
// agent being "main" if there is none.
func ImportKey(s dialect.Session) (Key, error) {
	if s.Key == "" {
		k := Key{Agent: cmp.Or(s.Agent, "main"), Channel: string(s.Dialect), Peer: cmp.Or(s.ID, s.Path)}
		return k, k.Validate()
	}
	k, err := ParseForeignKey(s.Key)
	if err == nil && k.Channel == foreignChannel && k.Agent == "main" {
		k.Agent = cmp.Or(s.Agent, k.Agent)
	}
	if err == nil {
		err = k.Validate()
	}
	return k, err
}

// Import brings sessions of other programs into the store, those of a
// [dialect.Folder] for example, and reports on each of them in the order of the
// source.
//
// Every record becomes a batch of native lines with new IDs and its own time;
// the first of them has the original line in "src". The history of the session
// is that of the source, compactions included. Creation time, labels and a
// title that is more than the beginning of the first text are those of the
// source. Records that no model is shown become custom entries.
//
// Importing a source again appends what it has more by then. Nothing is doubled,
// even if an import was killed: each batch has an idempotency key made of the
// original line and its ordinal among equal ones, and the ID of the session is
// made of the program and the ID there; of several in one source with one ID, all
// but the first by their paths as well. Where a tree has been continued from an
// earlier entry, a rewind comes first. What cannot be continued is left as it is
// and its Err matches [ErrDiverged].
//
// Two processes may import one source at a time. What is current of a key stays
// so, unless it was imported as well and its last message is older. A
// native session that is in the store already is left alone.
//
// A session that fails does not keep others from being imported; the error
// joins those of all, each naming its source. If the context ends, or the store
// is closed, the rest is not looked at. Nobody should be writing to the source,
// which is read several times. Some hundred bytes of memory are needed for each
// of its records.
func (st *Store) Import(ctx context.Context, source iter.Seq[dialect.Session], opts *ImportOptions) ([]Imported, error) {
	var o ImportOptions
	if opts != nil {
		o = *opts
	}
	if o.Key == nil {
		o.Key = ImportKey
	}
	var report []Imported
	var errs []error
	taken := map[Ref]bool{}
	for s := range source {
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("session: import: %w", err))
			break
		}
		im := importing{store: st, dry: o.DryRun, taken: taken, Imported: Imported{Source: s, Lost: dialect.Losses{}}}
		if im.Key, im.Err = o.Key(s); im.Err == nil {
			im.Err = im.run(ctx)
		}
		if im.Err != nil {
			errs = append(errs, fmt.Errorf("session: import %s: %w", cmp.Or(s.Path, s.ID), im.Err))
		}
		report = append(report, im.Imported)
		if errors.Is(im.Err, ErrClosed) {
			break
		}
	}
	return report, errors.Join(errs...)
}

// importing is the import of one session.
type importing struct {
	store *Store
	dry   bool
	taken map[Ref]bool // what sessions of the source have become so far
	Imported

	there  imported // what the session has already
	header transcript.Entry
	plan   importPlan
}

// importTries is how often an import starts again because somebody else has
// appended meanwhile.
const importTries = 10

func (im *importing) run(ctx context.Context) error {
	s := im.Source
	if s.Err != nil {
		return s.Err
	}
	first, err := im.firstEntry()
	if err != nil {
		return err
	}
	if _, ok := first.Body.(transcript.Header); ok {
		im.header = first
	}
	im.Session = Ref{Agent: im.Key.Agent, ID: importID(s, first, "")}
	if im.taken[im.Session] { // another file, a copy perhaps
		im.Session.ID = importID(s, first, s.Path)
	}
	im.taken[im.Session] = true
	im.lose("damage", len(s.Damage))
	if s.Dialect != dialect.OpenViking {
		im.lose("archive", len(s.Archives))
	}
	for _, n := range s.Unknown {
		im.lose("unknown", n)
	}
	if s.Dialect == dialect.Native && s.ID != "" {
		row, err := im.store.drv.Get(ctx, Ref{Agent: im.Key.Agent, ID: s.ID})
		if err == nil && row.Key == im.Key.String() {
			im.Session = row.Ref()
			return nil
		}
	}
	for n := range importTries {
		if err = im.try(ctx); !errors.Is(err, ErrConflict) || n == importTries-1 {
			break
		}
	}
	return err
}

// try brings the session to where the source is.
func (im *importing) try(ctx context.Context) error {
	im.there = imported{}
	_, err := im.store.drv.Get(ctx, im.Session)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	if !missing {
		if err := im.read(ctx); err != nil {
			return err
		}
	}
	if err := im.compare(); err != nil {
		return err
	}
	switch {
	case im.dry:
		im.Created, im.Appended = missing, im.plan.fresh
		return nil
	case missing || im.there.all+im.there.own == 0 && im.plan.fresh > 0:
		if err := im.create(ctx); err != nil {
			return err
		}
	case !im.plan.more():
		return nil
	}
	return im.write(ctx)
}

// read reads what the session has, and ends what a killed import left.
func (im *importing) read(ctx context.Context) error {
	s, err := im.store.Get(ctx, im.Session)
	if err != nil {
		return err
	}
	err = s.use(ctx, "import", func(t *state) error {
		if t.version > transcript.Version {
			return fmt.Errorf("format version %d, this program knows %d: %w", t.version, transcript.Version, ErrNewerFormat)
		}
		return nil
	})
	if err != nil {
		return err
	}
	im.there, err = readImported(ctx, s)
	return err
}

// create makes the session, if it is not there, and sees to what is current.
func (im *importing) create(ctx context.Context) error {
	before, had, err := im.before(ctx)
	if err != nil {
		return err
	}
	_, err = im.store.drv.Create(ctx, im.Key.Agent, im.Key.String(), im.headerLine)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	im.Created = im.Created || err == nil
	im.store.table.forget(im.Session)
	if err := im.read(ctx); err != nil {
		return err
	}
	if had && (!isImportID(before.ID) || before.UpdatedAt.After(im.Source.Updated)) {
		kept := &Session{store: im.store, ref: before.Ref()}
		return kept.MakeCurrent(ctx)
	}
	return nil
}

// before returns what is the current session of the key without this one.
func (im *importing) before(ctx context.Context) (row driver.Row, ok bool, err error) {
	row, err = im.store.drv.Current(ctx, im.Key.Agent, im.Key.String())
	if errors.Is(err, fs.ErrNotExist) {
		return row, false, nil
	}
	if err != nil || row.ID != im.Session.ID {
		return row, err == nil, err
	}
	// An import was killed between making the session and looking after what was
	// current.
	rows, err := im.store.drv.List(ctx, im.Key.Agent, driver.Place{}, 0)
	for _, r := range rows {
		if r.Key == im.Key.String() && r.ID != im.Session.ID && (!ok || r.Newer(row)) {
			row, ok = r, true
		}
	}
	return row, ok, err
}

// headerLine makes the first line of the session.
func (im *importing) headerLine(gen int64) (driver.Row, driver.Line) {
	s := im.Source
	created := s.Created
	if created.IsZero() {
		created = im.store.opts.Now()
	}
	created = created.UTC().Truncate(time.Microsecond)
	h := transcript.Header{Version: transcript.Version, Key: im.Key.String(), Gen: gen, Created: created}
	if from, ok := im.header.Body.(transcript.Header); ok {
		h.Meta = from.Meta
	}
	if s.Titled {
		h.Meta.Title = &s.Title
	}
	if len(s.Labels) > 0 {
		h.Meta.Labels = slices.Clone(s.Labels)
	}
	e := transcript.Entry{ID: im.Session.ID, Time: created, Body: h}
	if im.header.Body != nil {
		e = e.WithSource(im.header.Line())
	}
	row := driver.Row{ID: e.ID, CreatedAt: created, UpdatedAt: created}
	applyMeta(&row, h.Meta)
	return row, driver.Line{ID: e.ID, Type: transcript.TypeSession, Data: e.Line()}
}

func (im *importing) lose(what string, n int) {
	if n > 0 {
		im.Lost[what] += n
	}
}
