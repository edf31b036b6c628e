package filedriver

import (
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// adopt brings index and files together: transcripts that the index does not
// know get a row, rows without a transcript are left out. A deletion that was
// cut short is finished. The caller holds x.mu and, if h is not nil, the
// index; without it nothing is written.
func (x *index) adopt(h *filelog.Held) error {
	unknown, err := x.diff()
	if err != nil {
		return err
	}
	for _, id := range unknown {
		if x.deleted[id] {
			if h == nil {
				continue
			}
			if err := x.removeFile(id); err != nil {
				return err
			}
			continue
		}
		row, ok := x.described(id)
		switch {
		case !ok:
		case h == nil:
			x.rows[id] = row
		default:
			if err := x.write(h, change{Put: &row}); err != nil {
				return err
			}
		}
	}
	x.lost = false
	return nil
}

// diff drops rows without a file and returns the IDs of files without a row.
func (x *index) diff() (unknown []string, err error) {
	ids, err := x.a.files()
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool, len(ids))
	for _, id := range ids {
		there[id] = true
		if _, ok := x.rows[id]; !ok {
			unknown = append(unknown, id)
		}
	}
	for id := range x.rows {
		if !there[id] {
			delete(x.rows, id)
		}
	}
	return unknown, nil
}

// described makes a row of a transcript. One that cannot be read has no row,
// and is neither hidden by that nor touched: opening it says what is wrong.
func (x *index) described(id string) (driver.Row, bool) {
	row, err := x.a.describe(id)
	if err != nil {
		x.a.d.log.Warn("a transcript cannot be read", "session", id, "err", err)
		return row, false
	}
	return row, true
}

// finishIntents finishes or discards what a dead process had begun to create.
// The caller holds the index.
func (x *index) finishIntents(h *filelog.Held) error {
	for id := range x.intents {
		c := change{Abort: id}
		if _, err := x.a.sess.Lstat(fileName(id)); err == nil {
			if row, ok := x.described(id); ok {
				c = change{Put: &row}
			}
		}
		if err := x.write(h, c); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes the transcript of a deleted session.
func (x *index) removeFile(id string) error {
	err := x.a.sess.Remove(fileName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && x.a.d.opts.Sync != filelog.SyncNever {
		err = filelog.SyncDir(x.a.sess, ".")
	}
	return x.a.d.wrap("delete session", x.a.dir, err, "remove "+fileName(id)+" by hand; the session is gone from the index")
}
