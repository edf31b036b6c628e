package filedriver

import (
	"errors"
	"io/fs"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

// An index that was left in order ends with a mark, the line {"clean":N}: every
// row was as its transcript, and nothing was written since. Then no transcript
// is looked at when it is opened, only the names in their folder, and not even
// these if the folder's time is still N. What can have changed all the same is
// found when a session is used or all are listed: a transcript to which a
// process had appended when it ended before the index was told, or that
// somebody edited in place. Until then such a session may stand in a wrong
// place among the newest. A process that had the store open already lists it
// as it was until somebody puts its row.
//
// The first line after a mark is synced, unless the store syncs nothing, so
// that a power cut that takes the lines after it does not bring it back.

// manyRows is from how many sessions on it pays not to read their names.
const manyRows = 1000

// trust takes the rows as they are if the index ends with a mark, and else
// wants all transcripts looked at. The caller holds x.mu.
func (x *index) trust() {
	if x.lost || x.rows.lost || x.damaged || !x.marked {
		x.lost = true
		return
	}
	x.trusted, x.checked = true, map[string]bool{}
	at, err := x.a.folderTime()
	if x.names = x.stamp == 0 || err != nil || at.UnixNano() != x.stamp; !x.names {
		x.listed = x.stamp
	}
}

// mark marks the index as in order, if it is or can be brought there: a row
// that is behind its transcript, because nobody could put it in time, is made
// anew. The caller holds the index and no call is under way.
func (x *index) mark(h *filelog.Held) error {
	if x.lost || x.rows.lost || x.names || len(x.unsaved)+len(x.unreadable)+len(x.intents) > 0 {
		return nil
	}
	if late := x.behind(); len(late) > 0 {
		for _, f := range late {
			x.look(f)
		}
		if err := x.save(h); err != nil || len(x.unreadable)+len(x.behind()) > 0 {
			return err
		}
	}
	for id := range x.deleted {
		if err := x.removeFile(id); err != nil {
			return err
		}
	}
	stamp := x.newStamp()
	if x.marked && x.stamp == stamp {
		return nil
	}
	return x.write(h, change{Clean: &stamp})
}

// behind returns the transcripts that this process has used and whose rows are
// about another size than they have.
func (x *index) behind() (all []found) {
	x.a.d.idsMu.Lock()
	defer x.a.d.idsMu.Unlock()
	for ref := range x.a.d.ids {
		if ref.Agent != x.a.name {
			continue
		}
		if size, ok := x.rows.size(ref.ID); ok {
			if f, err := x.a.stat(ref.ID); err != nil || f.size != size {
				all = append(all, f)
			}
		}
	}
	return all
}

// newStamp is the time of the folder if no name was added or removed since the
// names were compared with the rows, else 0.
func (x *index) newStamp() int64 {
	if x.listed == 0 || x.rows.len() < manyRows {
		return 0
	}
	if at, err := x.a.folderTime(); err != nil || at.UnixNano() != x.listed {
		return 0
	}
	return x.listed
}

// folderTime is when a name in the folder of transcripts last changed.
func (a *agent) folderTime() (time.Time, error) {
	info, err := a.root.Lstat("sessions")
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// listedAt is the folder's time before its names are read, or 0 if a name that
// is added later could leave it the same: file systems count time in steps.
func (a *agent) listedAt() int64 {
	at, err := a.folderTime()
	step := 3 * time.Second
	if at.Nanosecond()%int(10*time.Millisecond) != 0 {
		step = 100 * time.Millisecond
	}
	if age := time.Since(at); err != nil || age < step {
		return 0
	}
	return at.UnixNano()
}

// check looks at a transcript whose row was taken on trust, and reports whether
// that was wrong. The caller holds x.mu.
func (x *index) check(id string) (wrong bool) {
	if !x.trusted || x.checked[id] {
		return false
	}
	f, err := x.a.stat(id)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			x.drop(id)
			return true
		}
		return false
	}
	x.checked[id] = true
	if size, ok := x.rows.size(id); ok && size == f.size {
		return false
	}
	x.look(f)
	return true
}

// recent returns the n newest rows, each as its transcript is.
func (x *index) recent(n int) (list []driver.Row) {
	for again := true; again; {
		list, again = x.rows.recent(n), false
		for _, row := range list {
			again = x.check(row.ID) || again
		}
	}
	keys := make([]string, 0, len(list))
	for _, row := range list {
		keys = append(keys, row.Key)
	}
	if len(keys) > 0 {
		x.byKey(keys...) // the caller asks which of them are current
	}
	return list
}
