package exchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/transcript"
)

// session copies a session.
func (c *copying) session(ctx context.Context, info session.Info) (CopyResult, error) {
	line := c.copyOf(info.Ref, &c.CopyOptions, nil)
	s, err := c.from.Get(ctx, info.Ref)
	if err == nil {
		err = line.run(ctx, s)
	}
	if err == nil && !c.DryRun {
		err = line.put(ctx, info.State == session.Archived)
	}
	return line.CopyResult, err
}

func (c *copying) copyOf(ref session.Ref, o *CopyOptions, j *join) lineCopy {
	return lineCopy{
		CopyResult: CopyResult{Ref: ref}, to: c.to, archived: c.there[ref].State == session.Archived, join: j,
		blobs: blobCopy{CopyOptions: o, ref: ref, named: map[string]bool{}},
	}
}

// A lineCopy is one try to copy a session.
type lineCopy struct {
	CopyResult
	to       *session.Store
	there    *session.Session // the copy; nil if it does not exist
	archived bool             // the copy
	torn     bool             // a kill has left a part of a line in the copy
	at       int64            // the end of the copy
	batcher  transcript.Batcher
	unit     []transcript.Entry // lines that filters get together
	theirs   []transcript.Entry // the same lines of the copy
	chunk    chunk
	blobs    blobCopy
	join     *join // of Merge
}

// A chunk holds entries to append.
type chunk struct {
	entries []transcript.Entry
	size    int // in bytes
}

func (c *lineCopy) run(ctx context.Context, s *session.Session) (err error) {
	c.there, err = c.to.Get(ctx, c.Ref)
	if c.Created = errors.Is(err, fs.ErrNotExist); err != nil && !c.Created {
		return err
	}
	if err = c.lines(ctx, s); err != nil || !c.torn || c.join != nil || c.Appended == 0 || c.blobs.DryRun {
		return err
	}
	// Every line of the copy is in the session, and it lacks some.
	if err := c.to.DeleteAt(ctx, c.Ref, c.at); err != nil {
		return fmt.Errorf("the copy holds a part of a line: delete the copy, and copy again: %w", err)
	}
	return session.ErrReplaced // the next try copies it anew
}

// lines compares the lines of the session with the copy, and appends the missing ones.
// It appends nothing before it has compared the last line of the copy.
func (c *lineCopy) lines(ctx context.Context, s *session.Session) error {
	next, stop := iter.Pull2(c.copied(ctx))
	defer stop()
	for rec, err := range c.join.records(s.Scan(ctx, session.ScanOptions{})) {
		if err != nil {
			return err
		}
		if !rec.HasEntry() || !c.continues(rec.Entry) {
			if err := c.endUnit(ctx); err != nil {
				return err
			}
		}
		if !rec.HasEntry() {
			c.Damage = append(c.Damage, *rec.Damage)
			c.batcher.Break()
			continue
		}
		c.Lines++
		c.blobs.name(rec.Entry)
		c.batcher.Add(rec.Entry)
		c.unit = append(c.unit, rec.Entry)
		if theirs, err, ok := next(); err != nil {
			return err
		} else if ok {
			c.theirs = append(c.theirs, theirs)
		}
	}
	if err := c.endUnit(ctx); err != nil {
		return err
	}
	if _, err, ok := next(); err != nil {
		return err
	} else if ok && c.join == nil {
		return fmt.Errorf("%w (it has more than the %d of the session)", ErrDiverged, c.Lines)
	}
	return c.flush(ctx)
}

// continues reports whether an entry continues the unit: one of the same batch, or of the
// same answer, whose lines an import may have put into several.
func (c *lineCopy) continues(e transcript.Entry) bool {
	f, ok := e.Body.(transcript.MessageLine)
	return c.batcher.Open() || ok && f.Of != "" && slices.ContainsFunc(c.unit, func(u transcript.Entry) bool { return u.ID == f.Of })
}

// endUnit compares the unit with the lines of the copy, and adds those that it lacks.
func (c *lineCopy) endUnit(ctx context.Context) error {
	unit, theirs := c.unit, c.theirs
	c.unit, c.theirs = nil, nil
	if len(theirs) == 0 {
		return c.add(ctx, unit)
	}
	if err := c.compare(ctx, unit, theirs); err != nil || len(unit) == len(theirs) {
		return err
	}
	if c.torn && c.join != nil { // the batch cannot be completed
		c.join.part(c.Lines-len(unit), len(theirs), unit[len(theirs)], transcript.Entry{})
		return ErrDiverged
	}
	filtered, err := unit, error(nil)
	if !c.blobs.DryRun {
		filtered, err = c.there.FilterWrite(ctx, unit) // with the lines that the copy has
	}
	if err != nil {
		return err
	}
	return c.add(ctx, filtered[len(theirs):])
}

// compare compares a unit with the first lines of it in the copy: they are as the session
// has them, or as the filters of the other store make them. Exports show that without
// keeping anything.
func (c *lineCopy) compare(ctx context.Context, unit, theirs []transcript.Entry) error {
	same := func(a, b transcript.Entry) bool { // one of the stores may have no checksums
		a, b = c.join.bare(a), c.join.bare(b)
		return bytes.Equal(a.Line(), b.Line()) || bytes.Equal(a.WithChecksum().Line(), b.WithChecksum().Line())
	}
	if slices.EqualFunc(unit[:len(theirs)], theirs, same) {
		return nil
	}
	shown, err := c.there.FilterExport(ctx, unit)
	if err == nil {
		theirs, err = c.there.FilterExport(ctx, theirs)
	}
	if err != nil {
		return err
	}
	for i, e := range theirs {
		if !same(shown[i], e) {
			c.join.part(c.Lines-len(unit), i, shown[i], e)
			return fmt.Errorf("%w (line %d differs, or one before it)", ErrDiverged, c.Lines)
		}
	}
	return nil
}

func (c *lineCopy) copied(ctx context.Context) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		if c.Created {
			return
		}
		for rec, err := range c.there.Scan(ctx, session.ScanOptions{}) {
			c.at = max(c.at, rec.End)
			if c.join.leavesOut(rec) {
				continue
			}
			c.join.noteRev(1, rec.Entry)
			if err == nil && !rec.HasEntry() {
				c.torn = true
				continue
			}
			if !yield(rec.Entry, err) {
				return
			}
		}
	}
}

// add adds lines of a unit to the chunk. It appends a chunk that is large enough first.
func (c *lineCopy) add(ctx context.Context, entries []transcript.Entry) (err error) {
	first := c.Appended == 0
	if first && len(entries) > 0 {
		if err := c.join.check(ctx); err != nil {
			return err
		}
	}
	c.Appended += len(entries)
	switch {
	case c.torn && c.join == nil || len(entries) == 0:
		return nil
	case first && c.Created:
		err = c.create(ctx, entries[0])
		entries = entries[1:]
	case first && c.archived && !c.blobs.DryRun:
		err = c.to.SetState(ctx, c.Ref, session.Live, -1)
		c.archived = false
	case c.chunk.size >= chunkBytes:
		err = c.flush(ctx)
	}
	for _, e := range entries {
		c.chunk.entries, c.chunk.size = append(c.chunk.entries, e), c.chunk.size+len(e.Line())
	}
	return err
}

func (c *lineCopy) create(ctx context.Context, e transcript.Entry) error {
	h, ok := e.Body.(transcript.Header)
	if ok && e.ID != c.ID {
		return fmt.Errorf("its header names session %q: the file was renamed or copied", e.ID)
	}
	if !ok || len(c.Damage) > 0 {
		return errors.New("its header is missing: nothing was written; restore its first line")
	}
	key, err := session.ParseKey(h.Key)
	if err != nil || c.blobs.DryRun {
		return err
	}
	key.Agent = c.Agent
	if c.there, err = c.to.Create(ctx, key, &session.CreateOptions{Header: &e, Aside: h.Gen == 0 && !c.join.isCurrent()}); err != nil {
		return err
	}
	for rec, err := range c.there.Scan(ctx, session.ScanOptions{}) {
		if err != nil {
			return err
		}
		switch rec.Entry.Body.(type) {
		case transcript.Header, transcript.Current:
			c.at = rec.End
			continue
		}
		return nil // another process already appends
	}
	return nil
}

// flush appends the chunk after the blobs that it names.
func (c *lineCopy) flush(ctx context.Context) error {
	entries := c.chunk.entries
	c.chunk = chunk{}
	copied, missing, err := c.blobs.flush(ctx)
	c.Blobs, c.Missing = c.Blobs+copied, c.Missing+missing
	if err == nil && len(entries) > 0 && !c.blobs.DryRun {
		c.at, err = c.there.AppendLines(ctx, c.at, entries...)
	}
	return err
}

func (c *lineCopy) put(ctx context.Context, archived bool) error {
	switch {
	case archived == c.archived && !c.Created:
		return nil
	case archived:
		return c.to.SetState(ctx, c.Ref, session.Archived, -1)
	case c.Created:
		return nil
	}
	return c.to.SetState(ctx, c.Ref, session.Live, -1)
}

// A join adapts the copy of a session for Merge. Nil adapts nothing.
type join struct {
	head *transcript.Header // if not nil, the session has this Rev, or was replaced
	// adapt returns an entry as the other store holds it; n counts the entries before it.
	adapt   func(n int, e transcript.Entry) transcript.Entry
	current bool                            // a new session is the current one of its key
	at      int                             // the number of common entries, whole units of them, if the sessions differ after them
	differs int                             // the index of the first entry that differs
	mine    string                          // names the entry there
	erased  func(ctx context.Context) error // refuses words that the other store has erased
	changed string                          // the reason why the rest cannot be an end
	revs    [2]int                          // of the session in both stores: an equal one later shows that it was not replaced
}

// noteRev notes the Rev of a header in the first or in the second store.
func (j *join) noteRev(store int, e transcript.Entry) {
	if h, ok := e.Body.(transcript.Header); ok && j != nil {
		j.revs[store] = h.Rev
	}
}

// leavesOut reports whether a record is not merged: each store decides which session
// of a key is current.
func (j *join) leavesOut(rec transcript.Record) bool {
	_, ok := rec.Entry.Body.(transcript.Current)
	return ok && j != nil
}

func (j *join) isCurrent() bool { return j != nil && j.current }

// bare returns a header without the numbers that differ from store to store.
func (j *join) bare(e transcript.Entry) transcript.Entry {
	h, ok := e.Body.(transcript.Header)
	if !ok || j == nil {
		return e
	}
	h.Gen, h.Rev = 0, 0
	e.Body = h
	return e.WithLine(nil)
}

func (j *join) check(ctx context.Context) error {
	if j == nil || j.erased == nil {
		return nil
	}
	return j.erased(ctx)
}

// nameOf names an entry by its ID, or by its line if another program wrote it without one.
func nameOf(e transcript.Entry) string { return cmp.Or(e.ID, string(e.WithChecksum().Line())) }

// part notes that the sessions differ after common entries: at the entry i of a unit.
func (j *join) part(at, i int, mine, theirs transcript.Entry) {
	if j == nil {
		return
	}
	if j.at, j.differs, j.mine = at, at+i, nameOf(mine); mine.ID == theirs.ID && mine.ID != "" {
		j.changed = "an entry was changed in one of the two, perhaps by an erase"
	}
}

func (j *join) records(all iter.Seq2[transcript.Record, error]) iter.Seq2[transcript.Record, error] {
	if j == nil {
		return all
	}
	return func(yield func(transcript.Record, error) bool) {
		n := 0
		for rec, err := range all {
			if err == nil && j.leavesOut(rec) {
				continue
			}
			if h, ok := rec.Entry.Body.(transcript.Header); ok && n == 0 && j.head != nil && h.Rev != j.head.Rev {
				err = session.ErrReplaced
			}
			if err == nil && rec.HasEntry() {
				if j.noteRev(0, rec.Entry); j.adapt != nil {
					rec.Entry = j.adapt(n, rec.Entry)
				}
				n++
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// withBody returns an entry with another body and a new line.
func withBody(e transcript.Entry, b transcript.Body) transcript.Entry {
	source, ok := e.Source()
	if e.Body = b; ok {
		return e.WithSource(source)
	}
	return e.WithLine(nil)
}

// A blobCopy copies the blobs of a session.
type blobCopy struct {
	*CopyOptions
	ref         session.Ref
	named       map[string]bool // by the lines up to here
	due         []string        // hashes of these that were not looked at
	has, stored []string        // hashes in both stores, before the first is copied
	listed      bool
}

func (b *blobCopy) name(e transcript.Entry) {
	for blob := range transcript.Blobs(e) {
		if !b.named[blob.SHA256] {
			b.due = append(b.due, blob.SHA256)
		}
		b.named[blob.SHA256] = true
	}
}

// flush copies the blobs that were named and that the other store lacks.
func (b *blobCopy) flush(ctx context.Context) (copied, missing int, err error) {
	due := b.due
	b.due = nil
	switch {
	case len(due) == 0:
		return 0, 0, nil
	case b.From == nil:
		return 0, 0, errors.New("its images or documents are stored outside of its lines, and nothing copies them: name the places of both stores")
	case !b.listed:
		if b.has, err = b.From.List(ctx, b.ref); err == nil && b.To != nil {
			b.stored, err = b.To.List(ctx, b.ref)
		}
		if b.listed = err == nil; err != nil {
			return 0, 0, err
		}
	}
	due = slices.DeleteFunc(due, func(hash string) bool { return slices.Contains(b.stored, hash) })
	n := len(due)
	due = slices.DeleteFunc(due, func(hash string) bool { return !slices.Contains(b.has, hash) })
	switch {
	case len(due) == 0 || b.To != nil && b.DryRun:
	case b.To == nil:
		return 0, 0, errors.New("its images or documents are stored outside of its lines, and the other store has no place for them: set CopyOptions.To")
	default:
		missing, err = blobs.Copy(ctx, b.From, b.To, b.ref, due)
	}
	return len(due) - missing, n - len(due) + missing, err
}
