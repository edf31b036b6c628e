package filelog_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/convolog/convolog/internal/filelog"
)

// BenchmarkAppendTogether appends to one log from many goroutines and from one,
// in alternating slices. The metric x-one is the rate of the many in lines,
// divided by the rate of the one.
func BenchmarkAppendTogether(b *testing.B) {
	const (
		goroutines = 64
		alone      = 100 // appends of one goroutine in a slice
		each       = 50  // appends of each of the many in a slice
	)
	root, _ := folder(b)
	l := create(b, root, "first\n", nil)
	line := append(bytes.Repeat([]byte("x"), 1<<10-1), '\n')
	add := func(n int) {
		for range n {
			if _, _, err := l.Append(b.Context(), filelog.Lines(line)); err != nil {
				b.Error(err)
				return
			}
		}
	}
	var one, many time.Duration
	var ones, manys atomic.Int64
	for b.Loop() {
		began := time.Now()
		add(alone)
		one += time.Since(began)
		ones.Add(alone)

		began = time.Now()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { add(each) })
		}
		wg.Wait()
		many += time.Since(began)
		manys.Add(goroutines * each)
	}
	perOne := float64(ones.Load()) / one.Seconds()
	perMany := float64(manys.Load()) / many.Seconds()
	b.ReportMetric(perOne, "one/s")
	b.ReportMetric(perMany, "many/s")
	b.ReportMetric(perMany/perOne, "x-one")
	b.ReportMetric(0, "ns/op")
}
