package ahead

import (
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func all[T any](values []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// The results come in order, results before an error before it, and at most as many
// values are taken ahead as asked for.
func TestMap(t *testing.T) {
	failed := errors.New("failed")
	values := make([]int, 2000)
	for i := range values {
		values[i] = i
	}
	for _, most := range []int{1, 7, Most} {
		got, taken := []int{}, 0
		in := func(yield func(int, error) bool) {
			for v, err := range all(values, failed) {
				taken++
				if !yield(v, err) {
					return
				}
			}
		}
		var last error
		for v, err := range Map(in, most, func(int) int { return 1 }, func(out []int, v int) []int { return append(out, v, -v) }) {
			if last = err; err != nil {
				break
			}
			require.LessOrEqual(t, taken-len(got)/2, most)
			got = append(got, v)
		}
		require.ErrorIs(t, last, failed)
		want := []int{}
		for _, v := range values {
			want = append(want, v, -v)
		}
		require.True(t, slices.Equal(want, got), "%d", most)
	}
}

// Values of any size come in order, no more of them are taken ahead than allowed, and
// however the loop ends, no goroutine works for it any longer.
func TestMapEnds(t *testing.T) {
	failed := errors.New("failed")
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sizes := make([]int, rnd.IntN(1500))
		for i := range sizes {
			sizes[i] = []int{0, 1, rnd.IntN(1 << 10), rnd.IntN(2 * groupBytes), rnd.IntN(2 * groups * groupBytes)}[rnd.IntN(2+int(seed%4))]
		}
		most, stop := 1+rnd.IntN(Most), rnd.IntN(2*len(sizes)+1)
		var working, calls atomic.Int32
		do := func(out []int, n int) []int {
			working.Add(1)
			defer working.Add(-1)
			calls.Add(1)
			if n%7 == 0 {
				runtime.Gosched()
			}
			return append(out, n)
		}
		count, bytes := 0, 0 // of what is taken
		in := func(yield func(int, error) bool) {
			for n, err := range all(sizes, failed) {
				if err == nil {
					require.Less(t, bytes, groups*groupBytes)
					count, bytes = count+1, bytes+n
				}
				if !yield(n, err) {
					return
				}
			}
		}
		var got []int
		var last error
		func() {
			defer func() { _ = recover() }()
			for n, err := range Map(in, most, func(n int) int { return n }, do) {
				if last = err; err != nil {
					break
				}
				require.LessOrEqual(t, count-len(got), most)
				got = append(got, n)
				bytes -= n
				if len(got) == stop && seed%2 == 0 {
					break
				}
				if len(got) == stop {
					panic("in the body")
				}
			}
		}()
		require.Zero(t, working.Load(), "seed %d", seed)
		require.True(t, slices.Equal(sizes[:len(got)], got), "seed %d", seed)
		if stop == 0 || stop > len(sizes) {
			require.ErrorIs(t, last, failed)
			require.Len(t, got, len(sizes))
			require.EqualValues(t, len(sizes), calls.Load())
		} else {
			require.Len(t, got, stop)
		}
	}
}

// Map keeps no value that the loop has passed.
func TestMapKeepsNothing(t *testing.T) {
	const big = 1 << 20
	sizes := []int{}
	for n := 100; n > 60; n-- { // each large one would be kept in a place of its own
		sizes = append(append(sizes, make([]int, n)...), big)
	}
	sizes = append(make([]int, 600), sizes...)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	in := all(sizes, nil)
	for v, err := range Map(in, Most, func(n int) int { return n }, func(out [][]byte, n int) [][]byte { return append(out, make([]byte, n)) }) {
		require.NoError(t, err)
		if len(v) == big {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
		}
	}
	require.Less(t, most, uint64(8*big))
}

// A loop that ends waits for the values that are being worked on, and for no others.
func TestMapEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make([]int, 4*Most)
		slow := atomic.Bool{}
		do := func(out []int, v int) []int {
			if slow.Load() {
				time.Sleep(time.Second)
			}
			return append(out, v)
		}
		began, n := time.Now(), 0
		for _, err := range Map(all(values, nil), Most, func(int) int { return 1 }, do) {
			require.NoError(t, err)
			if n++; n == Most {
				slow.Store(true)
				break
			}
		}
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}
