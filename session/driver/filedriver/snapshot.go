package filedriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
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

func parseSnapshot(data []byte) (document, map[string]driver.Row, error) {
	rows := map[string]driver.Row{}
	if data == nil {
		return document{}, rows, nil
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return document{}, rows, err
	}
	if doc.Version != 1 || doc.Sessions == nil {
		return document{}, rows, fmt.Errorf("not an index of version 1")
	}
	for id, raw := range doc.Sessions {
		var row driver.Row
		if json.Unmarshal(raw, &row) == nil && row.ID == id {
			rows[id] = row
		}
	}
	return doc, rows, nil
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
	fmt.Fprintf(&buf, "{\"version\":1,\"generation\":%d,\"sessions\":{", next)
	sep := "\n"
	for _, id := range sortedKeys(x.rows) {
		name, err := json.Marshal(id)
		if err != nil {
			return err
		}
		row, err := json.Marshal(x.rows[id])
		if err != nil {
			continue // made again from its transcript
		}
		fmt.Fprintf(&buf, "%s%s:%s", sep, name, row)
		sep = ",\n"
	}
	buf.WriteString("\n}}\n")
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

func sortedKeys(m map[string]driver.Row) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
