// Package ahead does work for a loop before the loop asks for it, on all processors
// and in order.
package ahead

import (
	"iter"
	"sync"
)

// Most is how many values Map takes ahead of a loop at most.
const Most = groups * groupSize

// A group is what one goroutine does at a time. A loop begins with one value and
// doubles that, so one that ends early has cost little.
const (
	groupSize = 32
	groups    = 8
	maxBytes  = 256 << 10
)

type group[T, R any] struct {
	in  []T
	out []R
}

// Map yields what do appends for each value of in: in their order, and up to the first
// error. It takes at most as many values ahead of the loop, up to Most, and no further
// one once their sizes, in bytes, come to 256 KiB. Several goroutines call do at the
// same time, but the loop's own alone if most is 1, and that one alone reads in.
func Map[T, R any](in iter.Seq2[T, error], most int, size func(T) int, do func([]R, T) []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var (
			all          [groups]group[T, R]
			last         int // the group that values are added to
			count, bytes int // of all values
			limit        = 1
			others       sync.WaitGroup
		)
		give := func() bool {
			all[last].do(do)
			others.Wait()
			for i := range all[:last+1] {
				for _, r := range all[i].out {
					if !yield(r, nil) {
						return false
					}
				}
				clear(all[i].in) // so that nothing is kept until its place is used again
				clear(all[i].out)
				all[i].in, all[i].out = all[i].in[:0], all[i].out[:0]
			}
			last, count, bytes = 0, 0, 0
			limit = min(2*limit, most)
			return true
		}
		for v, err := range in {
			if err != nil {
				if give() {
					var none R
					yield(none, err)
				}
				return
			}
			g := &all[last]
			g.in = append(g.in, v)
			count, bytes = count+1, bytes+size(v)
			switch {
			case count == limit || bytes >= maxBytes:
				if !give() {
					return
				}
			case len(g.in) == groupSize:
				others.Go(func() { g.do(do) })
				last++
			}
		}
		give()
	}
}

func (g *group[T, R]) do(do func([]R, T) []R) {
	for _, v := range g.in {
		g.out = do(g.out, v)
	}
}
