package ahead

import (
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"

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

// The results come in order, all that came before an error before the error, and those
// that are taken ahead are as many as were asked for.
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

// Nothing is kept of values that the loop has passed.
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
