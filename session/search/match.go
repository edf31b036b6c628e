package search

import (
	"cmp"
	"context"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// reading reads a session.
type reading struct {
	*search
	*source
	// These are read when a hit needs them.
	calls  calls
	absent map[string]bool
}

// match is a hit with its line.
type match struct {
	Hit
	fit  words.Fit
	of   *source
	at   int64 // the place of the line
	size int   // of the line
}

// together is how many hits of a session are marked at once.
const together = 256

// read calls found, which must copy the match to keep it, for every entry that fits, the
// newest first. It counts each word up to most times. Hits of a ranked search lack
// excerpts, and marks unless r.only needs these.
func (r *reading) read(ctx context.Context, most int, found func(*match) error) error {
	var group []match
	give := func() (err error) {
		if !r.query.Ranked || r.only != nil {
			err = mark(ctx, group)
		}
		for i := range group {
			if m := &group[i]; err == nil && (r.only == nil || r.only(m.Hit)) {
				err = found(m)
			}
		}
		group = group[:0]
		return err
	}
	size := min(cmp.Or(r.query.Limit, together), together)
	for rec, err := range r.scan(ctx, session.ScanOptions{Own: r.own, Keep: r.words.MayFit}) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && rec.HasEntry() {
			var m match
			var fits bool
			if m, fits, err = r.look(ctx, rec, most); fits {
				if !r.query.Ranked {
					m.quote(r.shown)
				}
				group = append(group, m)
			}
		}
		if err == nil && len(group) == size {
			err = give()
		}
		if err != nil {
			return err
		}
	}
	return give()
}

// mark sets Rewound, Compacted, Clipped and Hidden of hits of one session, by
// [session.Session.Where].
func mark(ctx context.Context, hits []match) error {
	if len(hits) == 0 {
		return nil
	}
	ids := make([]string, len(hits))
	for i, m := range hits {
		ids[i] = m.Entry
	}
	s, err := hits[0].of.session(ctx)
	if err != nil {
		return err
	}
	where, err := s.Where(ctx, ids...)
	for i := range hits {
		m := &hits[i]
		w := where[m.Entry]
		m.Rewound, m.Compacted, m.Clipped, m.Hidden = w.Rewound || w.Superseded, w.Compacted, w.Clipped, w.Hidden
	}
	return err
}

// look returns the hit if an entry fits.
func (r *reading) look(ctx context.Context, rec transcript.Record, most int) (m match, fits bool, err error) {
	q, e := &r.query, rec.Entry
	if !q.Since.IsZero() && e.Time.Before(q.Since) || !q.Until.IsZero() && !e.Time.Before(q.Until) {
		return m, false, nil
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
	fit, ok := r.words.Look(ctx, textsOf(list), most)
	if err := ctx.Err(); err != nil || !ok {
		return m, false, err
	}
	rest, err := r.filter(ctx, rec.Offset, list)
	if err != nil {
		return m, false, err
	}
	if len(rest) < len(list) { // again, without the passages that do not count
		if fit, ok = r.words.Look(ctx, textsOf(rest), most); !ok {
			return m, false, nil
		}
	}
	first := fit.Best(excerptSize)
	p := rest[first.Text]
	return match{
		Hit: Hit{
			Session: r.ref, Entry: e.ID, Time: e.Time, Role: p.role, Block: p.block, Type: p.kind, Tool: p.tool,
			Excerpt: p.text, Start: first.Start, End: first.End,
		},
		fit: fit, of: r.source, at: rec.Offset, size: len(e.Line()),
	}, true, nil
}

// quote cuts the excerpt of a hit to about size bytes.
func (h *Hit) quote(size int) {
	h.Excerpt, h.Start, h.End = words.Excerpt(h.Excerpt, h.Start, h.End, size)
}

// filter drops passages of other tools and of the reading tools, and carried
// items whose entry exists. It runs only on entries that match the words.
func (r *reading) filter(ctx context.Context, at int64, list []passage) (rest []passage, err error) {
	for _, p := range list {
		switch {
		case p.call != "" && r.calls == nil:
			r.calls, err = readCalls(ctx, r.source)
		case p.carried != "" && r.absent == nil:
			r.absent, err = readAbsent(ctx, r.source)
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
