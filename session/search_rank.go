package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session/driver"
)

// ranking is what a ranked search knows of all chosen sessions.
type ranking struct {
	mu     sync.Mutex // guards the fields below
	counts words.Ranking
	best   []Hit // the best ones so far, the worst of them first
}

// rank yields the best entries. One pass over the sessions counts, another one
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
	for _, hit := range slices.Backward(all.best) {
		if err == nil && !yield(hit, nil) {
			return
		}
	}
	if err != nil {
		yield(Hit{}, fmt.Errorf("session: search: %w", err))
	}
}

// count adds up the lines of a session and those that may have each word, by their
// bytes: nothing is decoded to know how rare a word is.
func (all *ranking) count(ctx context.Context, r *reading) error {
	var lines, size int64
	with := make([]int64, r.words.Items())
	low := driver.Cursor(math.MaxInt64) // of what was counted
	keep := func(at driver.Cursor, text []byte) bool {
		if at < low {
			low = at
			lines += int64(bytes.Count(text, []byte("\n"))) + 1
			size += int64(len(text))
		}
		if bytes.IndexByte(text, '\n') >= 0 {
			return r.words.MayFit(text)
		}
		r.words.MayHave(text, with)
		return false
	}
	for _, err := range r.store.sift(ctx, r.ref)(keep) {
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

// choose keeps the best entries of a session.
func (all *ranking) choose(ctx context.Context, r *reading) error {
	limit := cmp.Or(r.query.Limit, rankedLimit)
	return r.read(ctx, words.MostOnce, func(hit Hit, fit words.Fit) error {
		hit.Score = all.counts.Score(fit, hit.size)
		all.mu.Lock()
		defer all.mu.Unlock()
		if len(all.best) == limit && compareHits(hit, all.best[0]) < 0 {
			return nil
		}
		hit.quote(r.shown)
		at, _ := slices.BinarySearchFunc(all.best, hit, compareHits)
		all.best = slices.Insert(all.best, at, hit)
		if len(all.best) > limit {
			all.best = slices.Delete(all.best, 0, 1)
		}
		return nil
	})
}

// compareHits orders hits from the worst to the best; of equal ones the newer is
// better.
func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), a.Time.Compare(b.Time), byName(a.Session, b.Session), cmp.Compare(a.at, b.at))
}

// markBest says of the best entries where they stand.
func (s *search) markBest(ctx context.Context, best []Hit) error {
	read := map[Ref]*reading{}
	for i := range best {
		hit := &best[i]
		r := read[hit.Session]
		if r == nil {
			r = &reading{search: s, ref: hit.Session}
			read[hit.Session] = r
		}
		if err := s.wrap(r.ref, r.mark(ctx, hit)); err != nil {
			return err
		}
	}
	return nil
}
