package replay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/title"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Row makes the row of a session from its transcript. Known holds for the lines before
// known.Size: of those only the ones that the history needs are read.
func Row(known driver.Row, scan Scan, opts *Options) (driver.Row, error) {
	r, err := readOf(known, scan, opts)
	if err != nil {
		return known, err
	}
	row, err := r.Row(scan)
	if err != nil {
		return known, err
	}
	return row, nil
}

// readOf reads the lines that the history of a session needs, up to the end of a scan.
func readOf(known driver.Row, scan Scan, opts *Options) (*Reader, error) {
	r := New(opts)
	err := r.begin(scan, known, false)
	if err == nil {
		err = r.add(r.batcher.Break())
	}
	return &r, err
}

// NewRow makes the row of a session that is not in the store yet from its entries, the
// header first.
func NewRow(agent string, entries []transcript.Entry, opts *Options) (driver.Row, error) {
	r := New(opts)
	r.row = driver.Row{ID: entries[0].ID, Agent: agent}
	r.Fold = rebuild.New(&rebuild.Options{Summary: opts.Summary})
	for i, e := range entries {
		if err := r.take(transcript.Record{Offset: int64(i), End: int64(i) + 1, Entry: e}); err != nil {
			return r.row, err
		}
	}
	if err := r.add(r.batcher.Break()); err != nil {
		return r.row, err
	}
	return r.Row(nil)
}

// Row returns the row of the lines up to Next. It reads the lines that the row lacks, and
// counts the tokens added since the last time.
func (r *Reader) Row(scan Scan) (driver.Row, error) {
	if err := r.fill(scan); err != nil {
		return driver.Row{}, err
	}
	row := r.row
	row.Size, row.Turns, row.TokenEstimate = int64(r.Next), r.Fold.Turns(), r.stored.Count(r.Fold)
	return row, nil
}

// Filled reports whether the row has every line up to Next.
func (r *Reader) Filled() bool { return r.counted >= r.from }

// Owner returns the owner in the header.
func (r *Reader) Owner() string { return r.row.Owner }

// Rev returns the rev in the header.
func (r *Reader) Rev() int { return r.row.Rev }

// note brings the row up to date with one entry.
func (r *Reader) note(e transcript.Entry) error {
	switch b := e.Body.(type) {
	case transcript.Header:
		if r.version != 0 {
			return nil // a second header is ignored
		}
		if e.ID != r.row.ID {
			return fmt.Errorf("its header names session %q: the file was renamed or copied; give it back its name", e.ID)
		}
		r.version, r.copiedLeft = b.Version, b.Base.Lines
		r.row.Owner, r.row.Key, r.row.CreatedAt, r.row.UpdatedAt = b.Owner, b.Key, b.Created, e.Time
		r.row.Gen, r.row.Rev = max(r.row.Gen, b.Gen), b.Rev
		r.row.Base, r.row.Descent, r.row.Parent = b.Base, b.Descent, b.Parent
		ApplyMeta(&r.row, b.Meta)
		return nil
	case transcript.Meta:
		if r.copiedLeft == 0 { // else it came along with a message
			ApplyMeta(&r.row, b)
		}
	case transcript.Compaction:
		if r.copiedLeft == 0 {
			r.row.Compactions++
		}
	case transcript.Current:
		r.row.Gen = max(r.row.Gen, b.Gen)
	case transcript.MessageLine:
		if b.Of == "" && (b.Kind == transcript.TypeUser || b.Kind == transcript.TypeAssistant) {
			r.row.Messages++
		}
		if r.copiedLeft == 0 { // the base counts the others
			spent(&r.row, b)
		}
		if b.Kind == transcript.TypeUser {
			r.row.LastUserAt = e.Time
			if r.row.Title == "" && !r.row.TitleByHand {
				r.row.Title = title.Of(b.Message().Text())
			}
		}
	}
	r.copiedLeft = max(r.copiedLeft-1, 0)
	if e.ID != "" {
		r.row.LastID = e.ID
	}
	if transcript.IsHead(e.Type()) && e.Time.After(r.row.UpdatedAt) {
		r.row.UpdatedAt = e.Time
	}
	return nil
}

// spent adds an answer to the usage of a row.
func spent(row *driver.Row, f transcript.MessageLine) {
	if f.Kind != transcript.TypeAssistant || f.Usage.IsZero() {
		return
	}
	sum := map[string]driver.Usage{}
	maps.Copy(sum, row.Usage)
	sum[f.Model] = sum[f.Model].Plus(driver.Usage{
		Answers: 1, Input: f.Usage.Input, Output: f.Usage.Output, CacheRead: f.Usage.CacheRead, CacheWrite: f.Usage.CacheWrite,
	})
	row.Usage = sum
}

// ApplyMeta changes a row as the metadata say.
func ApplyMeta(row *driver.Row, m transcript.Meta) {
	if m.Title != nil {
		row.Title, row.TitleByHand, row.TitledAt = *m.Title, m.TitleBy != transcript.ByModel, row.Messages
	}
	if m.Labels != nil {
		row.Labels = slices.Clone(m.Labels)
	}
	if m.TTL != nil {
		row.TTL = *m.TTL
	}
	if m.Keep != nil {
		row.Keep = *m.Keep
	}
}
