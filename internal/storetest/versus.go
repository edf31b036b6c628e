package storetest

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// minPairs is the smallest number of comparisons, even in a very short benchmark.
const minPairs = 5

// A Side is one of two compared operations.
type Side struct {
	Prepare func() error // called before each block of calls, not measured; may be nil
	Call    func() error
}

// Versus compares op with base. Blocks of n calls of each alternate, so that other load on
// the machine affects both. It reports
//
//	x-baseline   median time of op / median time of base
//	ns-p50       median and 99th percentile of op
//	ns-p99
//	ns-baseline  median of base
//	allocs/op    of op
//	B/op
func Versus(b *testing.B, n int, op, base Side) *Contest {
	b.Helper()
	c := &Contest{Op: make(Times, 0, 1<<16), Base: make(Times, 0, 1<<16)}
	var before, after runtime.MemStats
	var mallocs, bytes uint64
	b.ReportAllocs()
	pair := func() {
		op.ready(b)
		runtime.ReadMemStats(&before)
		c.Op = c.Op.Block(b, n, op.Call)
		runtime.ReadMemStats(&after)
		mallocs += after.Mallocs - before.Mallocs
		bytes += after.TotalAlloc - before.TotalAlloc
		base.ready(b)
		c.Base = c.Base.Block(b, n, base.Call)
	}
	for b.Loop() {
		pair()
	}
	for len(c.Op) < n*minPairs {
		pair()
	}
	calls := uint64(len(c.Op))
	b.ReportMetric(c.Op.Percentile(50)/c.Base.Percentile(50), "x-baseline")
	b.ReportMetric(c.Op.Percentile(50), "ns-p50")
	b.ReportMetric(c.Op.Percentile(99), "ns-p99")
	b.ReportMetric(c.Base.Percentile(50), "ns-baseline")
	b.ReportMetric(float64(mallocs/calls), "allocs/op")
	b.ReportMetric(float64(bytes/calls), "B/op")
	b.ReportMetric(0, "ns/op") // hides the time of both sides together, which is meaningless
	return c
}

func (s Side) ready(b *testing.B) {
	b.Helper()
	if s.Prepare == nil {
		return
	}
	if err := s.Prepare(); err != nil {
		b.Fatal(err)
	}
}

// A Contest is a result of Versus.
type Contest struct{ Op, Base Times }

// Times are durations of single calls.
type Times []time.Duration

// Block makes n calls and appends the time of each.
func (ts Times) Block(b *testing.B, n int, call func() error) Times {
	b.Helper()
	for range n {
		began := time.Now()
		err := call()
		ts = append(ts, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
	}
	return ts
}

// Percentile returns a percentile in nanoseconds. It sorts ts.
func (ts Times) Percentile(p int) float64 {
	slices.Sort(ts)
	return float64(ts[min(len(ts)*p/100, len(ts)-1)])
}

// Mean returns the mean in nanoseconds.
func (ts Times) Mean() float64 {
	var sum time.Duration
	for _, t := range ts {
		sum += t
	}
	return float64(sum) / float64(len(ts))
}

// Throughput compares the work of op and base in a second. Each call returns the amount of
// its work. It reports
//
//	x-throughput  median rate of op / median rate of base; more is better
//	ops/s         median rate of op
func Throughput(b *testing.B, op, base func() (int, error)) {
	b.Helper()
	var rates [2][]float64
	pair := func() {
		for i, call := range []func() (int, error){op, base} {
			began := time.Now()
			n, err := call()
			if err != nil {
				b.Fatal(err)
			}
			rates[i] = append(rates[i], float64(n)/time.Since(began).Seconds())
		}
	}
	for b.Loop() {
		pair()
	}
	for len(rates[0]) < minPairs {
		pair()
	}
	for i := range rates {
		slices.Sort(rates[i])
	}
	median := func(r []float64) float64 { return r[len(r)/2] }
	b.ReportMetric(median(rates[0])/median(rates[1]), "x-throughput")
	b.ReportMetric(median(rates[0]), "ops/s")
	b.ReportMetric(0, "ns/op") // hides the time of both sides together, which is meaningless
}

// HeapBytes returns the size of the live heap.
func HeapBytes() uint64 {
	runtime.GC()
	runtime.GC() // frees the memory that finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
