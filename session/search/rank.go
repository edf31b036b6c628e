package search

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
)

// ranking holds the statistics of all chosen sessions for a ranked search.
type ranking struct {
	mu     sync.Mutex // guards the fields below
	counts words.Ranking
	best   []match // the best so far, the worst of them first
}

// rank yields the best entries. One pass over the sessions counts, another
// keeps the best.
func (s *search) rank(ctx context.Context, yield func(Hit, error) bool) {
	all := &ranking{counts: words.Ranking{With: make([]int64, s.words.Items())}}
	err := s.each(ctx, all.count)
	if err == nil {
		err = s.each(ctx, all.choose)
	}
	if err == nil {
		err = s.markBest(ctx, all.best)
	}
	for _, m := range slices.Backward(all.best) {
		if err == nil && !yield(m.Hit, nil) {
			return
		}
	}
	if err != nil {
		yield(Hit{}, fmt.Errorf("search: %w", err))
	}
}

// count adds up the lines of a session, and per word those whose bytes may
// contain it: the rarity of a word needs no decoding.
func (all *ranking) count(ctx context.Context, r *reading) error {
	var lines, size int64
	with := make([]int64, r.words.Items())
	keep := func(text []byte) bool {
		several := bytes.Count(text, []byte("\n"))
		if several > 0 && r.words.MayFit(text) {
			return true // each line then comes alone
		}
		lines += int64(several) + 1
		size += int64(len(text)) + 1
		if several == 0 {
			r.words.MayHave(text, with)
		}
		return false
	}
	for _, err := range r.scan(ctx, session.ScanOptions{Keep: keep}) {
		if err != nil {
			return err
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.counts.Texts, all.counts.Bytes = all.counts.Texts+lines, all.counts.Bytes+size
	for i, n := range with {
		all.counts.With[i] += n
	}
	return ctx.Err()
}

func (all *ranking) choose(ctx context.Context, r *reading) error {
	limit := cmp.Or(r.query.Limit, rankedLimit)
	return r.read(ctx, words.MostOnce, func(m *match) error {
		m.Score = all.counts.Score(m.fit, m.size)
		all.mu.Lock()
		defer all.mu.Unlock()
		if len(all.best) == limit && compare(*m, all.best[0]) < 0 {
			return nil
		}
		m.quote(r.shown)
		at, _ := slices.BinarySearchFunc(all.best, *m, compare)
		all.best = slices.Insert(all.best, at, *m)
		if len(all.best) > limit {
			all.best = slices.Delete(all.best, 0, 1)
		}
		return nil
	})
}

// compare orders hits from the worst to the best; of equals the newer is better.
func compare(a, b match) int {
	return cmp.Or(
		cmp.Compare(a.Score, b.Score), a.Time.Compare(b.Time),
		cmp.Compare(a.Session.Agent, b.Session.Agent), cmp.Compare(a.Session.ID, b.Session.ID), cmp.Compare(a.at, b.at),
	)
}

func (s *search) markBest(ctx context.Context, best []match) error {
	of := map[*source][]int{}
	for i := range best {
		of[best[i].of] = append(of[best[i].of], i)
	}
	for _, places := range of {
		var group []match
		for _, i := range places {
			group = append(group, best[i])
		}
		if err := mark(ctx, group); err != nil && !s.isGone(err) {
			return err
		}
		for n, i := range places {
			best[i] = group[n]
		}
	}
	return nil
}
