package filedriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/transcript/filelog"
)

// document is the snapshot.
type document struct {
	Version    int                        `json:"version"`
	Generation int64                      `json:"generation"`
	Sessions   map[string]json.RawMessage `json:"sessions"`
}

// reload reads snapshot and journal anew. A snapshot that is no index of ours
// is kept under another name, at the next write, and made again.
func (x *index) reload() error {
	for range reloadTries { // a merge in between shows as a generation that does not fit
		data, info, err := x.a.readAll(snapshotName)
		if err != nil {
			return err
		}
		doc, rows, err := parseSnapshot(data)
		if err != nil {
			x.a.d.log.Warn("the index cannot be read and is made again from the transcripts",
				"file", filepath.Join(x.a.dir, snapshotName), "err", err)
		}
		x.corrupt = err != nil
		usable := info != nil && !x.corrupt
		x.lost = x.lost || x.corrupt || info == nil && x.snapshot != nil || len(x.unsaved) > 0
		x.reset(rows)
		x.generation, x.applied, x.snapshot = doc.Generation, 0, info
		log := x.log()
		if log == nil {
			return nil
		}
		size, err := log.Size()
		if errors.Is(err, filelog.ErrReplaced) {
			return errJournalGone
		}
		if err != nil {
			return err
		}
		journal, err := x.journalGeneration(size)
		switch {
		case errors.Is(err, errMoved), journal > x.generation && usable:
			continue
		case err != nil || journal < x.generation:
			x.lost = x.lost || journal < 0 && info == nil // it was emptied by hand
			return err                                    // hold empties it
		}
		x.lost = x.lost || journal > x.generation // so the snapshot was
		x.generation = journal
		if err := x.read(size); !errors.Is(err, errMoved) && !errors.Is(err, errGeneration) {
			return err
		}
	}
	// An old copy of the snapshot was put in place of the newer one.
	x.applied, x.lost = 0, true
	return nil
}

// journalGeneration reads the first line of the journal; -1 if there is none.
func (x *index) journalGeneration(size int64) (int64, error) {
	head := make([]byte, min(size, 64))
	if err := x.readJournal(head, 0); err != nil {
		return -1, err
	}
	line, _, ok := bytes.Cut(head, []byte("\n"))
	var c change
	if !ok || json.Unmarshal(line, &c) != nil || c.Generation == nil {
		return -1, nil
	}
	return *c.Generation, nil
}

// parseSnapshot reads a snapshot. One as merge writes it is only divided into
// lines; what anyone else wrote is decoded.
func parseSnapshot(data []byte) (document, *rows, error) {
	if data == nil {
		return document{}, newRows(0), nil
	}
	if doc, rows, ok := divideSnapshot(data); ok {
		return doc, rows, nil
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return document{}, newRows(0), err
	}
	if doc.Version != 1 || doc.Sessions == nil {
		return document{}, newRows(0), errNotIndex
	}
	all := newRows(len(doc.Sessions))
	for id, raw := range doc.Sessions {
		if row, err := decodeRow(id, raw); err == nil {
			all.set(row)
		}
	}
	return doc, all, nil
}

var errNotIndex = errors.New("not an index of version 1")

const (
	snapshotHead = `{"version":1,"generation":`
	snapshotRows = `,"sessions":{`
	snapshotEnd  = "}}"
)

// divideSnapshot finds the rows of a snapshot that has one on each line.
func divideSnapshot(data []byte) (doc document, all *rows, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(snapshotHead))
	if !ok {
		return doc, nil, false
	}
	head, rest, _ := bytes.Cut(rest, []byte{'\n'})
	number, ok := bytes.CutSuffix(head, []byte(snapshotRows))
	generation, err := strconv.ParseInt(string(number), 10, 64)
	if !ok || err != nil {
		return doc, nil, false
	}
	all = newRows(bytes.Count(rest, []byte{'\n'}))
	for {
		line, more, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			return doc, nil, false
		}
		if rest = more; string(line) == snapshotEnd {
			break
		}
		line, comma := bytes.CutSuffix(line, []byte{','})
		i := bytes.Index(line, []byte(`":{"id":"`))
		if i < 1 || line[0] != '"' || line[len(line)-1] != '}' {
			return doc, nil, false
		}
		id, row := line[1:i], line[i+2:]
		if !bytes.HasPrefix(row[len(`{"id":"`):], id) || !bytes.HasPrefix(row[len(`{"id":"`)+len(id):], []byte(`","key":"`)) {
			return doc, nil, false
		}
		all.m[string(id)] = lazyRow{text: row}
		if !comma && !bytes.Equal(rest, []byte(snapshotEnd+"\n")) {
			return doc, nil, false
		}
	}
	return document{Version: 1, Generation: generation}, all, len(rest) == 0
}

// setAside renames a snapshot that cannot be read, so that nothing overwrites
// it. The caller holds the index.
func (x *index) setAside() error {
	name := fmt.Sprintf("%s.corrupt-%d", snapshotName, time.Now().UnixNano())
	err := x.a.root.Rename(snapshotName, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.a.d.wrap("set aside index", filepath.Join(x.a.dir, snapshotName), err, "move it away by hand")
	}
	x.corrupt, x.snapshot = false, nil
	return nil
}

// merge writes the snapshot and empties the journal. The caller holds the
// index.
func (x *index) merge(h *filelog.Held) error {
	next := x.generation + 1
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "%s%d%s", snapshotHead, next, snapshotRows)
	sep := "\n"
	for _, id := range slices.Sorted(maps.Keys(x.rows.m)) {
		row := x.rows.m[id].line()
		if row == nil {
			continue
		}
		buf.WriteString(sep + `"` + id + `":`)
		buf.Write(row)
		sep = ",\n"
	}
	buf.WriteString("\n" + snapshotEnd + "\n")
	if err := filelog.WriteFileAtomic(x.a.root, snapshotName, buf.Bytes(), x.a.d.opts.Sync != filelog.SyncNever); err != nil {
		return err
	}
	info, err := x.a.root.Lstat(snapshotName)
	if err != nil {
		return err
	}
	x.generation, x.snapshot = next, info
	x.applied = 0
	lines := change{Generation: &next}.line()
	for id := range x.deleted {
		if x.removeFile(id) != nil {
			lines = append(lines, change{Delete: id}.line()...)
		}
	}
	if err := h.Reset(lines); err != nil {
		return err
	}
	x.applied = h.End()
	return nil
}
