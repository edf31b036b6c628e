package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// ErrDiverged says that the copy of a session has lines that the session lacks.
// Nothing was written.
var ErrDiverged = errors.New("the copy has other lines than the session: nothing was written; delete one of the two, or copy into another store")

// Copied reports on a session that was copied.
type Copied struct {
	Ref
	Created  bool                `json:"created,omitempty"` // the other store did not have it
	Lines    int                 `json:"lines"`             // of the session
	Appended int                 `json:"appended"`          // of these were new to the other store
	Blobs    int                 `json:"blobs,omitempty"`   // were new to it
	Missing  int                 `json:"missing,omitempty"` // blobs that lines name, and that neither store has
	Damage   []transcript.Damage `json:"damage,omitempty"`  // places in the session that are no lines; they were not copied
}

// CopyBlobs copies the blobs with some hashes that the other store of a [Store.CopyTo]
// lacks. The lines of the session name them, and the other store has its header.
type CopyBlobs = func(ctx context.Context, hashes []string) (copied, missing int, err error)

// CopyTo copies a session to another store, over the same driver or another one:
// its lines byte for byte, its place among the sessions of its key, and whether it is
// archived. Blobs copies the blobs that the lines name; nil is for sessions without. If the other store has a part of the session already, CopyTo adds what is
// missing, blobs included, so a copy that was killed can be continued, and one that has
// grown old can be brought up to date. With dryRun nothing is written, and the report
// says what would be.
//
// When the error is nil, every line that was there when CopyTo began has been read
// back from the other store. Lines that are appended to the session
// meanwhile may be missing; the next call brings them. A place in a damaged file that
// is no line cannot be copied: the report has it, and everything around it is copied.
//
// If the other store has lines of the session that are not in it, because the copy was
// continued or the session was erased from, the error matches [ErrDiverged]. If the
// key has another session there with the same gen, the error matches fs.ErrExist and
// names that session. In both cases nothing was written. A session without a header
// that can be read cannot be copied. A driver that is no [driver.Adopter], and a scope,
// cannot be copied to: the error matches [errors.ErrUnsupported].
//
// Nobody should use the copy before CopyTo has returned: until then it is the
// beginning of the session. The turn lock is not taken. Filters are not called.
func (st *Store) CopyTo(ctx context.Context, to *Store, ref Ref, blobs CopyBlobs, dryRun bool) (Copied, error) {
	if blobs == nil {
		blobs = func(context.Context, []string) (copied, missing int, err error) {
			return 0, 0, errors.New("it has images or documents beside its lines, and nothing copies them: say where both stores keep them")
		}
	}
	for tries := 1; ; tries++ {
		c := copying{from: st, to: to, blobs: blobs, dry: dryRun, Copied: Copied{Ref: ref}, named: map[string]bool{}}
		err := c.run(ctx)
		if tries < copyTries && errors.Is(err, driver.ErrReplaced) {
			continue // it was restored, or replaced by an erase
		}
		if !dryRun {
			to.looks.Add(1)
			to.table.forget(ref)
			to.tell(ctx, ref)
		}
		return c.Copied, st.wrap("copy", ref, err)
	}
}

// copyTries is how often CopyTo starts again because one of the sessions is replaced.
const copyTries = 3

// A copying is one try of CopyTo.
type copying struct {
	Copied
	from, to *Store
	dry      bool
	adopter  driver.Adopter

	row, there driver.Row    // of the session, and of the copy
	end        driver.Cursor // of the session when the copy began
	at         driver.Cursor // of the copy
	header     transcript.Entry
	torn       bool // a kill has left a part of a line in the copy
	batcher    transcript.Batcher
	chunk      []driver.Line // that are to be appended
	size       int           // of the chunk in bytes
	blobs      CopyBlobs
	named      map[string]bool // blobs that the lines up to here name
	due        []string        // those of them that are to be copied with the chunk
}

// chunkBytes is how large a chunk is that is appended at once, but for the last
// batch in it.
const chunkBytes = 1 << 20

func (c *copying) run(ctx context.Context) (err error) {
	var ok bool
	if c.adopter, ok = c.to.drv.(driver.Adopter); !ok {
		return fmt.Errorf("the other store cannot be copied to: %w", errors.ErrUnsupported)
	}
	if c.row, err = c.from.drv.Get(ctx, c.Ref); err != nil {
		return err
	}
	if c.end, err = c.from.drv.Settle(ctx, c.Ref); err != nil {
		return err
	}
	if c.there, err = c.to.drv.Get(ctx, c.Ref); errors.Is(err, fs.ErrNotExist) {
		c.Created, err = true, nil
	} else if err == nil {
		c.at, err = c.to.drv.Settle(ctx, c.Ref)
	}
	if err != nil {
		return err
	}
	if err := c.lines(ctx); err != nil || c.dry {
		return err
	}
	if c.torn {
		if err := c.clear(ctx); err != nil {
			return err
		}
		return driver.ErrReplaced // the next try copies it anew
	}
	if c.Appended > 0 {
		if err := c.verify(ctx); err != nil {
			return err
		}
	}
	return c.finish(ctx)
}

// lines compares the lines of the session with those of the copy, and appends what
// the copy does not have. Nothing is appended before the last line of the copy was
// compared.
func (c *copying) lines(ctx context.Context) error {
	next, stop := iter.Pull2(c.copied(ctx))
	defer stop()
	for rec, err := range until(c.from.scan(ctx, c.Ref), c.end)(0, driver.Forward) {
		if err != nil {
			return err
		}
		if !rec.HasEntry() {
			c.Damage = append(c.Damage, *rec.Damage)
			c.batcher.Break()
			continue
		}
		if c.Lines++; c.Lines == 1 {
			c.header = rec.Entry
		}
		theirs, err, ok := next()
		c.name(rec.Entry)
		switch {
		case err != nil:
			return err
		case !ok:
			err = c.add(ctx, rec.Entry)
		case !bytes.Equal(theirs.Line(), rec.Entry.Line()):
			err = fmt.Errorf("%w (line %d differs)", ErrDiverged, c.Lines)
		}
		if err != nil {
			return err
		}
	}
	if _, err, ok := next(); err != nil {
		return err
	} else if ok {
		return fmt.Errorf("%w (it has more than the %d of the session)", ErrDiverged, c.Lines)
	}
	if c.torn && len(c.Damage) > 0 {
		c.torn = false // as likely as not it is the damage of the session
		if c.Appended > 0 {
			return errTorn
		}
	}
	return c.flush(ctx)
}

// copied yields the lines of the copy.
func (c *copying) copied(ctx context.Context) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		if c.Created {
			return
		}
		for rec, err := range c.to.drv.Scan(ctx, c.Ref, 0, driver.Forward) {
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

// add adds a line to the chunk, and appends a chunk that is large enough in front of
// it.
func (c *copying) add(ctx context.Context, e transcript.Entry) error {
	c.Appended++
	if c.torn {
		return nil
	}
	if c.Appended == 1 {
		if err := c.begin(ctx); err != nil {
			return err
		}
	}
	if c.size >= chunkBytes && !c.batcher.Open() {
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	c.batcher.Add(e)
	if c.Lines > 1 {
		c.chunk, c.size = append(c.chunk, lineOf(e)), c.size+len(e.Line())
	}
	return nil
}

// name notes the blobs that a line names for the first time.
func (c *copying) name(e transcript.Entry) {
	for blob := range transcript.Blobs(e) {
		if !c.named[blob.SHA256] {
			c.due = append(c.due, blob.SHA256)
		}
		c.named[blob.SHA256] = true
	}
}

// begin makes the copy ready for the first line that it does not have.
func (c *copying) begin(ctx context.Context) (err error) {
	if _, ok := c.header.Body.(transcript.Header); c.Created && (!ok || len(c.Damage) > 0) {
		return errNoHeader
	}
	if c.dry {
		return nil
	}
	if c.Created {
		return c.create(ctx)
	}
	return c.adopt(ctx)
}

// create makes the copy, with the first line of the session.
func (c *copying) create(ctx context.Context) error {
	first := newReader(&c.to.opts)
	first.row.ID, first.row.Agent = c.ID, c.Agent
	err := first.note(c.header)
	if err == nil {
		c.there = first.row
		c.there.Gen = 0 // nobody has one yet
		err = c.adopt(ctx)
	}
	if err == nil {
		c.at, err = c.to.drv.Settle(ctx, c.Ref)
	}
	return err
}

// adopt restores the copy if it is archived, gives it the gen of the session, and
// makes it if it is not there.
func (c *copying) adopt(ctx context.Context) error {
	if c.there.Archived {
		if err := c.to.SetState(ctx, c.Ref, Live, -1); err != nil {
			return err
		}
	}
	if c.there.Gen >= c.row.Gen {
		return nil
	}
	c.there.Gen = c.row.Gen
	return c.adopter.Adopt(ctx, c.there, lineOf(c.header))
}

// flush appends the chunk, behind the blobs that it names.
func (c *copying) flush(ctx context.Context) error {
	chunk := c.chunk
	c.chunk, c.size = nil, 0
	if len(c.due) > 0 {
		copied, missing, err := c.blobs(ctx, c.due)
		c.Blobs, c.Missing, c.due = c.Blobs+copied, c.Missing+missing, nil
		if err != nil {
			return err
		}
	}
	if len(chunk) == 0 || c.dry {
		return nil
	}
	res, err := c.to.drv.Append(ctx, c.Ref, nil, driver.Cond{Decide: func(_ context.Context, start driver.Cursor) ([]driver.Line, error) {
		if start != c.at {
			return nil, fmt.Errorf("somebody else appends to the copy: %w", ErrConflict)
		}
		return chunk, nil
	}})
	c.at = res.End
	return err
}

// finish makes the row and the state of the copy those of the session.
func (c *copying) finish(ctx context.Context) (err error) {
	if c.Appended > 0 {
		c.there, err = c.to.drv.Get(ctx, c.Ref)
	}
	if err != nil {
		return err
	}
	if c.there.Archived && c.row.Archived {
		return nil
	}
	err = c.adopt(ctx) // others may have made it the current session since begin
	if err == nil && c.there.Size != int64(c.at) {
		var row driver.Row
		row, err = describe(driver.Row{ID: c.ID, Agent: c.Agent, Key: c.row.Key}, c.to.scan(ctx, c.Ref), &c.to.opts)
		if err == nil {
			err = c.to.drv.Put(ctx, row)
		}
	}
	if err == nil && c.row.Archived {
		err = c.to.SetState(ctx, c.Ref, Archived, -1)
	}
	return err
}
