package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// verify reads the copy, and compares it with the session batch by batch.
func (c *copying) verify(ctx context.Context) error {
	next, stop := iter.Pull2(transcript.Batches(until(c.to.scan(ctx, c.Ref), c.at)(0, driver.Forward)))
	defer stop()
	lines := 0
	for batch, err := range transcript.Batches(until(c.from.scan(ctx, c.Ref), c.end)(0, driver.Forward)) {
		if err != nil {
			return err
		}
		theirs, err, _ := next()
		if err != nil {
			return err
		}
		same := func(a, b transcript.Entry) bool { return bytes.Equal(a.Line(), b.Line()) }
		if batch.Complete != theirs.Complete || !slices.EqualFunc(batch.Entries, theirs.Entries, same) {
			return fmt.Errorf("the copy was read back and differs behind line %d: check the other store, delete the session there and copy again", lines)
		}
		lines += len(batch.Entries)
	}
	return nil
}

var errTorn = errors.New("the copy holds a part of a line: delete the copy, and copy again")

// clear deletes a copy in which a kill has left a part of a line, perhaps inside of a
// batch. All lines of the copy are in the session too.
func (c *copying) clear(ctx context.Context) error {
	apart, err := c.apart(ctx)
	if err != nil {
		return err
	}
	a, err := able[driver.Archiver](c.to.drv)
	if err == nil && !apart {
		err = errors.New("both stores are the same one")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errTorn, err)
	}
	return errors.Join(a.DeleteIf(ctx, []Ref{c.Ref}, func(row driver.Row) error {
		if row.Size != int64(c.at) {
			return errChanged
		}
		return nil
	})...)
}

// apart reports whether the two stores do not have one storage: a session that is made in
// one of them is not in the other one.
func (c *copying) apart(ctx context.Context) (bool, error) {
	probe := c.to.header("_copy", "_copy", CreateOptions{})
	row, err := c.to.drv.Create(ctx, "_copy", "_copy", c.to.first(probe))
	if err != nil {
		return false, err
	}
	_, err = c.from.table.store.drv.Get(ctx, row.Ref())
	gone := errors.Is(err, fs.ErrNotExist)
	if gone {
		err = nil
	}
	return gone, errors.Join(err, c.to.drv.Delete(ctx, row.Ref()))
}
