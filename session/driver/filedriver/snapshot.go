package filedriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
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
	var before fs.FileInfo
	for range reloadTries { // a merge in between shows as a generation that does not fit
		data, info, err := x.a.readAll(snapshotName)
		if err != nil {
			return err
		}
		same := before != nil && info != nil && sameFile(info, before)
		before = info
		generation, rows, ours, err := parseSnapshot(data)
		if err != nil {
			x.a.d.log.Warn("the index cannot be read and is made again from the transcripts",
				"file", filepath.Join(x.a.dir, snapshotName), "err", err)
		}
		x.corrupt = err != nil
		usable := info != nil && !x.corrupt
		x.foreign = usable && !ours
		x.lost = x.lost || x.corrupt || x.foreign || info == nil && x.snapshot != nil || len(x.unsaved) > 0
		if x.foreign {
			rows.keep(x.a)
		}
		x.reset(rows)
		x.generation, x.applied, x.snapshot = generation, 0, info
		x.merging, x.marked, x.damaged = false, false, false
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
		case errors.Is(err, errMoved), journal > x.generation && usable && !same:
			continue
		case err != nil:
			return err
		case journal > x.generation && usable:
			x.lost = true // an old copy of the snapshot was put in its place
			return nil
		case journal < x.generation:
			// The snapshot need not have the last lines of the journal: whoever
			// merged it died, or is about to write them again. Hold empties it.
			x.lost = true
			return nil
		}
		x.lost = x.lost || journal > x.generation // so the snapshot was
		x.generation = journal
		if err := x.read(size); !errors.Is(err, errMoved) && !errors.Is(err, errGeneration) {
			return err
		}
	}
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
// lines, and ours is true; what anyone else wrote is decoded, in any layout and
// with any further members. A nil text is an empty snapshot of ours.
func parseSnapshot(data *string) (generation int64, all *rows, ours bool, err error) {
	if data == nil {
		return 0, newRows(), true, nil
	}
	if generation, all, ok := divideSnapshot(*data); ok {
		return generation, all, true, nil
	}
	var doc document
	if err := json.Unmarshal([]byte(*data), &doc); err != nil {
		return 0, newRows(), false, err
	}
	if doc.Version != 1 || doc.Sessions == nil {
		return 0, newRows(), false, errNotIndex
	}
	all = newRows()
	for id, raw := range doc.Sessions {
		if row, err := decodeRow(id, raw); err == nil && row.Key != "" {
			bound(&row)
			all.set(id, lazyRow{row: &row})
		}
	}
	return doc.Generation, all, false, nil
}

var errNotIndex = errors.New("not an index of version 1")

const (
	snapshotHead = `{"version":1,"generation":`
	snapshotRows = `,"sessions":{`
	snapshotEnd  = "}}"
)

// divideSnapshot finds the rows of a snapshot that has one on each line, in the
// order of their IDs.
func divideSnapshot(data string) (generation int64, all *rows, ok bool) {
	rest, ok := strings.CutPrefix(data, snapshotHead)
	if !ok {
		return 0, nil, false
	}
	head, rest, _ := strings.Cut(rest, "\n")
	number, ok := strings.CutSuffix(head, snapshotRows)
	generation, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return 0, nil, false
	}
	all = newRows()
	all.base = make([]string, 0, len(rest)/300)
	last := ""
	for {
		line, more, whole := strings.Cut(rest, "\n")
		if !whole {
			return 0, nil, false
		}
		if rest = more; line == snapshotEnd {
			break
		}
		line, comma := strings.CutSuffix(line, ",")
		i := strings.Index(line, `":`+rowHead)
		if i < 1 || line[0] != '"' || line[len(line)-1] != '}' {
			return 0, nil, false
		}
		id, row := line[1:i], line[i+2:]
		if after := row[len(rowHead):]; id <= last || !strings.HasPrefix(after, id) || !strings.HasPrefix(after[len(id):], rowKey) {
			return 0, nil, false
		}
		last = id
		all.base = append(all.base, row)
		if !comma && rest != snapshotEnd+"\n" {
			return 0, nil, false
		}
	}
	all.n = len(all.base)
	return generation, all, rest == ""
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
