package filedriver

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// learned is what a process knows from the transcripts themselves.
type learned struct {
	lost    bool             // all transcripts are to be compared with their rows
	news    []string         // sessions whose rows the next writer must add
	listed  time.Time        // of the folder, when its names were last compared with the rows
	strange map[string]error // by file name: transcripts without a header that can be read
}

// readGen reads the lines that the row of a session does not cover for its gen,
// which costs less than making the row anew, unless nobody but this process may
// have made the session current. It drops a session without a transcript.
func (x *index) readGen(e *entry) {
	f, err := x.a.stat(e.id)
	if errors.Is(err, fs.ErrNotExist) {
		x.del(e)
	}
	from := max(e.size, e.read)
	others := slices.ContainsFunc(x.busy[e.id], func(m busyMark) bool { return m.by != x.by })
	if err != nil || !others || e.size == 0 || f.size <= from {
		return
	}
	row := driver.Row{Size: from}
	if x.a.read(f, func(_ int64, scan Scan) error { return lastGen(&row, scan) }) == nil {
		e.gen, e.read = max(e.gen, row.Gen), f.size
	}
}

// compare looks for transcripts that the index does not know, or not as they
// are, if there may be any. A writer adds a row after each change of the
// folder. So a folder that is not older than the index may hold a name that
// somebody put there or took away, or a session that is just being made.
func (x *index) compare(ctx context.Context) error {
	folder, err := x.a.root.Lstat("sessions")
	if err != nil {
		return x.a.d.wrap("list sessions", x.a.dir, err, "check that this user may read it")
	}
	at := folder.ModTime()
	if !x.lost && (x.info != nil && at.Before(x.info.ModTime()) || at.Equal(x.listed)) {
		return nil
	}
	files, err := x.a.files(x.lost)
	if err != nil {
		return err
	}
	clear(x.strange)
	there := make(map[string]bool, len(files))
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		there[f.id] = true
		e := x.find(f.id)
		if x.deletes[f.id] || e != nil && e.key != "" && (!x.lost || e.size == f.size) {
			continue
		}
		x.look(f)
		x.news = append(x.news, f.id)
	}
	for id := range x.byID {
		if !there[id] {
			x.drop(id)
		}
	}
	x.lost, x.listed = false, at
	return nil
}

// compared notes that the writer's own change of the folder needs no look at
// its names. The caller holds the lock of the index.
func (x *index) compared() {
	if folder, err := x.a.root.Lstat("sessions"); err == nil {
		x.listed = folder.ModTime()
	}
}

// check makes the row of a session anew if it is not about all of the
// transcript, and drops it if there is none. It reports whether the row has
// changed.
func (x *index) check(id string) (changed bool) {
	f, err := x.a.stat(id)
	e := x.find(id)
	if errors.Is(err, fs.ErrNotExist) && e != nil {
		x.del(e)
		return true
	}
	if err != nil || e != nil && e.size == f.size || x.strange[f.file] != nil {
		return false
	}
	x.look(f)
	return true
}

// look makes the row of a transcript. One that cannot be understood keeps the
// row it has, or gets one that says only which key it belongs to; opening it
// says what is wrong. Without a header it has none, and may belong to any key.
func (x *index) look(f found) {
	var known driver.Row
	e := x.find(f.id)
	if e != nil {
		known, _ = x.stored(e)
	}
	row, err := x.a.describe(f, known)
	if errors.Is(err, fs.ErrNotExist) {
		delete(x.strange, f.file) // just deleted
		return
	}
	if err != nil {
		x.a.d.log.Warn("a transcript cannot be read", "file", x.a.path(f), "err", err)
	}
	switch {
	case errors.Is(err, errNoHeader):
		if e != nil && e.key != "" {
			return
		}
		x.strange[f.file] = err
		if row.ID == "" {
			return
		}
	case err != nil && known.ID != "":
		known.Gen = max(row.Gen, e.gen)
		row = known
		fallthrough
	default:
		delete(x.strange, f.file)
	}
	x.set(entryOf(row))
}

// certain returns an error while a transcript may belong to any key: then a key
// without a session may be the key of that one.
func (x *index) certain() error {
	for file, err := range x.strange {
		id, _ := DecodeName(strings.TrimSuffix(file, extension))
		f := found{file: file, id: id}
		info, statErr := x.a.sess.Lstat(file)
		if errors.Is(statErr, fs.ErrNotExist) {
			delete(x.strange, file)
			continue
		}
		fix := "restore it from a copy or move it away"
		if statErr == nil && id != "" {
			f.size = info.Size()
			x.look(f) // somebody may have restored it
			if x.strange[file] == nil {
				continue
			}
			fix += ", or delete session " + id
		}
		return x.a.spoilt("create session", f, err, "it may be the session that is asked for: "+fix+"; one that is made expressly need not wait for that")
	}
	return nil
}

// bootID identifies the boot of the system, or is empty where nothing does.
// Lines written under another boot may have been lost since.
var bootID = sync.OnceValue(func() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // a missing file means that nothing is known
	return string(bytes.TrimSpace(data))
})
