// Package ahead computes the values of a loop before the loop needs them, on all
// processors and in order.
package ahead

import (
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
)

// Most is the largest number of values that Map takes ahead of a loop.
const Most = groups * groupSize

// A group of values is the work of one goroutine at a time. A loop begins with one value
// and then doubles the number, so a loop that ends early costs little. For the same
// reason only enough groups work at once to keep the processors busy.
const (
	groups     = 8
	groupSize  = 32
	groupBytes = 32 << 10
)

type group[T, R any] struct {
	in    []T
	out   []R
	bytes int
	work  sync.WaitGroup
}

// Map yields the values that do appends for each value of in, in order, up to the first
// error. It takes up to most values ahead of the loop, never more than Most, and stops
// taking values when their sizes reach 256 KiB. Several goroutines call do at the same
// time, even while the loop's body runs. If most is 1, only the goroutine of the loop
// calls do. Only this goroutine reads in. When the loop ends, Map waits for all other
// goroutines: each ends after its current value.
func Map[T, R any](in iter.Seq2[T, error], most int, size func(T) int, do func([]R, T) []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var (
			all          [groups]group[T, R]
			first, last  int // first is the oldest group at work; values are added to last
			count, bytes int // the number and the size of all values in groups
			limit        = 1
			ended        atomic.Bool
			atOnce       = min(runtime.GOMAXPROCS(0)+1, groups)
		)
		defer func() {
			ended.Store(true)
			for i := range all {
				all[i].work.Wait()
			}
		}()
		give := func() bool {
			g := &all[first%groups]
			g.work.Wait()
			for _, r := range g.out {
				if !yield(r, nil) {
					return false
				}
			}
			count, bytes = count-len(g.in), bytes-g.bytes
			clear(g.in) // release the values before their places are used again
			clear(g.out)
			g.in, g.out, g.bytes = g.in[:0], g.out[:0], 0
			first++
			limit = min(2*limit, most)
			return true
		}
		end := func() bool {
			all[last%groups].do(do, &ended)
			for last++; first < last; {
				if !give() {
					return false
				}
			}
			return true
		}
		for v, err := range in {
			if err != nil {
				if end() {
					var none R
					yield(none, err)
				}
				return
			}
			g, n := &all[last%groups], size(v)
			g.in, g.bytes = append(g.in, v), g.bytes+n
			count, bytes = count+1, bytes+n
			if count == limit || len(g.in) == groupSize || g.bytes >= groupBytes {
				if limit <= groupSize {
					g.do(do, &ended)
				} else {
					g.work.Go(func() { g.do(do, &ended) })
				}
				last++
			}
			for count == limit || bytes >= groups*groupBytes || last-first == atOnce {
				if !give() {
					return
				}
			}
		}
		end()
	}
}

func (g *group[T, R]) do(do func([]R, T) []R, ended *atomic.Bool) {
	for _, v := range g.in {
		if ended.Load() {
			return
		}
		g.out = do(g.out, v)
	}
}
