package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/filename"
)

// A diff is the effect of one commit on the memories: written before it is
// applied, and kept as a record. Members that OpenViking shares use its names.
type diff struct {
	ExtractedAt time.Time `json:"extracted_at"`
	Operations  struct {
		Adds    []step `json:"adds"`
		Updates []step `json:"updates"`
		Deletes []step `json:"deletes"` // always empty: learning deletes nothing
	} `json:"operations"`
	Skipped []step `json:"skipped_operations"`
	Summary struct {
		Adds    int `json:"total_adds"`
		Updates int `json:"total_updates"`
		Deletes int `json:"total_deletes"`
		Skipped int `json:"total_skipped"`
	} `json:"summary"`
	Source Source `json:"source"`
	Reason string `json:"reason,omitempty"` // why there are no candidates
	Done   bool   `json:"done"`
}

// A step is the fate of one candidate, or of several candidates refused for the
// same reason.
type step struct {
	N         int        `json:"op"` // from 1, in the order of execution
	URI       string     `json:"uri,omitempty"`
	Category  Category   `json:"memory_type"`
	ID        string     `json:"id,omitempty"`
	PageID    string     `json:"page_id,omitempty"` // the ID of the memory with the same content
	File      string     `json:"file,omitempty"`
	Before    string     `json:"before,omitempty"`
	After     string     `json:"after,omitempty"`
	Code      string     `json:"reason_code,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Count     int        `json:"count,omitempty"`     // of candidates, if several
	Candidate *Candidate `json:"candidate,omitempty"` // of an add or update, for a new decision
	Failed    bool       `json:"failed,omitempty"`    // refused, not known already
}

// setSteps sorts the steps into the groups of a diff.
func (d *diff) setSteps(steps []step) {
	d.Operations.Adds, d.Operations.Updates, d.Operations.Deletes, d.Skipped = []step{}, []step{}, []step{}, []step{}
	for _, s := range steps {
		switch {
		case s.After == "":
			d.Skipped = append(d.Skipped, s)
		case s.Before == "":
			d.Operations.Adds = append(d.Operations.Adds, s)
		default:
			d.Operations.Updates = append(d.Operations.Updates, s)
		}
	}
	d.Summary.Adds, d.Summary.Updates, d.Summary.Skipped = len(d.Operations.Adds), len(d.Operations.Updates), 0
	for _, s := range d.Skipped {
		d.Summary.Skipped += cmp.Or(s.Count, 1)
	}
}

func (d *diff) steps() []step {
	list := slices.Concat(d.Operations.Adds, d.Operations.Updates, d.Skipped)
	slices.SortFunc(list, func(a, b step) int { return cmp.Compare(a.N, b.N) })
	return list
}

// A progress records the completed steps of a diff.
type progress struct {
	Of   time.Time `json:"of"`   // ExtractedAt of the diff
	Done int       `json:"done"` // number of steps, from the first
	// Instead holds steps that were decided again because a memory changed.
	Instead []step `json:"instead,omitempty"`
}

const (
	diffsFolder = "diffs"
	diffExt     = ".json"
	progressExt = ".log"
)

// diffName is the name of the diff of a commit, without an extension.
func diffName(owner, commit string) string {
	return path.Join(ownerFolder(owner), diffsFolder, filename.Encode(commit))
}

// readJSON reads a file, and reports whether it exists.
func (m *Store) readJSON(ctx context.Context, name string, v any) (bool, error) {
	data, err := m.files.Read(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
		if err != nil {
			err = fmt.Errorf("memory: %s is damaged; remove it to learn the chapter again: %w", name, err)
		}
	}
	return err == nil, err
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	_ = e.Encode(v) // of strings, numbers and times, to memory
	return b.Bytes()
}
