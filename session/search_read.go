package session

import (
	"context"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// reading is a session that a search reads.
type reading struct {
	*search
	ref Ref
	// These are read when a hit needs them.
	marks  *marks
	calls  calls
	absent map[string]bool
	own    driver.Cursor // the place behind copied lines, see search.forks; 0 if it is not known
}

// copied reports whether a line is a copy of one that is searched where it comes
// from.
func (r *reading) copied(ctx context.Context, at driver.Cursor) (bool, error) {
	left := r.forks[r.ref]
	if left == 0 {
		return false, nil
	}
	if r.own == 0 {
		for rec, err := range r.store.drv.Scan(ctx, r.ref, 0, driver.Forward) {
			if err != nil {
				return false, err
			}
			if left--; left < 0 { // the first one is the header
				r.own = driver.Cursor(rec.End)
				break
			}
		}
	}
	return at < r.own, nil
}

// read calls found for every entry that fits, the newest first, with each word
// counted up to most. The hits have no excerpts yet.
func (r *reading) read(ctx context.Context, most int, found func(Hit, words.Fit) error) error {
	keep := func(_ driver.Cursor, lines []byte) bool { return r.words.MayFit(lines) }
	for rec, err := range r.store.sift(ctx, r.ref)(keep) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && rec.HasEntry() {
			err = r.look(ctx, rec, most, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look calls found if an entry fits.
func (r *reading) look(ctx context.Context, rec transcript.Record, most int, found func(Hit, words.Fit) error) error {
	q, e, at := &r.query, rec.Entry, driver.Cursor(rec.Offset)
	if !q.Since.IsZero() && e.Time.Before(q.Since) || !q.Until.IsZero() && !e.Time.Before(q.Until) {
		return nil
	}
	var list []passage
	for _, p := range passages(e) {
		if r.said && p.role == roleSystem {
			continue
		}
		if (q.Role == "" || q.Role == p.role) && (q.Block == "" || q.Block == p.kind) {
			list = append(list, p)
		}
	}
	fit, ok := r.words.Look(textsOf(list), most)
	if !ok {
		return nil
	}
	rest, err := r.filter(ctx, at, list)
	if err != nil {
		return err
	}
	if len(rest) < len(list) { // again without those that it turned out not to be about
		if fit, ok = r.words.Look(textsOf(rest), most); !ok {
			return nil
		}
	}
	if copied, err := r.copied(ctx, at); err != nil || copied {
		return err
	}
	first := fit.Best(excerptSize)
	p := rest[first.Text]
	hit := Hit{
		Session: r.ref, Entry: e.ID, Time: e.Time, Role: p.role, Block: p.block, Type: p.kind, Tool: p.tool,
		Excerpt: p.text, Start: first.Start, End: first.End,
		at: at, size: len(e.Line()),
	}
	if r.only != nil {
		if err := r.mark(ctx, &hit); err != nil || !r.only(hit) {
			return err
		}
	}
	return found(hit, fit)
}

// quote cuts the excerpt of a hit to about that many bytes.
func (h *Hit) quote(size int) {
	h.Excerpt, h.Start, h.End = words.Excerpt(h.Excerpt, h.Start, h.End, size)
}

// filter leaves out passages of other tools, of the reading tools, and carried
// items whose entry is there. It is asked about entries that have the words.
func (r *reading) filter(ctx context.Context, at driver.Cursor, list []passage) (rest []passage, err error) {
	for _, p := range list {
		switch {
		case p.call != "" && r.calls == nil:
			r.calls, err = readCalls(r.store.sift(ctx, r.ref))
		case p.carried != "" && r.absent == nil:
			r.absent, err = readAbsent(r.store.sift(ctx, r.ref))
		}
		if err != nil {
			return nil, err
		}
		if p.call != "" {
			p.tool = r.calls.tool(p.call, at)
		}
		if p.carried != "" && !r.absent[p.carried] || r.query.Tool != "" && p.tool != r.query.Tool || isRecall(p) {
			continue
		}
		rest = append(rest, p)
	}
	return rest, nil
}

// mark says where the entry of a hit stands.
func (r *reading) mark(ctx context.Context, hit *Hit) (err error) {
	if r.marks == nil {
		if r.marks, err = readMarks(r.store.sift(ctx, r.ref)); err != nil {
			return err
		}
	}
	hit.Rewound = r.marks.rewound(hit.at)
	hit.Compacted = !hit.Rewound && hit.at < r.marks.kept
	hit.Clipped = !hit.Rewound && r.marks.clipped[hit.Entry]
	return nil
}
