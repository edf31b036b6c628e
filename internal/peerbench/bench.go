package peerbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Bench measures a peer and Convolog alternately. It reports
//
//	x-convolog     median time of the peer / median time of Convolog
//	us-p50, us-p99 median and 99th percentile of the peer
//	us-convolog    median of Convolog
//
// and in benchmarks with several goroutines
//
//	x-convolog     median time of a whole round / the same of Convolog
//	ops/s          rate of the peer
func Bench(b *testing.B, open Opener) {
	for _, level := range []Level{PowerCut, Kill} {
		b.Run("append/1KiB/"+string(level), func(b *testing.B) { benchAppend(b, open, level, 1, 1000) })
		b.Run("turn/4x512B/"+string(level), func(b *testing.B) { benchAppend(b, open, level, 4, 500) })
		b.Run("group/16x1KiB/"+string(level), func(b *testing.B) { benchGroup(b, open, level) })
	}
	b.Run("load/1000x512B", func(b *testing.B) { benchLoad(b, open) })
}

// both opens the peer and Convolog.
func both(b *testing.B, open Opener, level Level) [2]Peer {
	b.Helper()
	var peers [2]Peer
	for i, open := range []Opener{open, OpenConvolog} {
		p, err := open(b.TempDir(), level)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := p.Close(); err != nil {
				b.Error(err)
			}
		})
		peers[i] = p
	}
	return peers
}

func benchAppend(b *testing.B, open Opener, level Level, messages, size int) {
	peers, msgs := both(b, open, level), Conversation(messages, size)
	block := 32
	if level == PowerCut {
		block = 4
	}
	versus(b, block, func(i int) error { return peers[i].Append(b.Context(), "c", msgs) })
}

func benchGroup(b *testing.B, open Opener, level Level) {
	const conversations, each = 16, 4
	peers, msgs := both(b, open, level), Conversation(1, 1000)
	times := versus(b, 1, func(i int) error {
		var wg sync.WaitGroup
		errs := make([]error, conversations)
		for c := range conversations {
			wg.Go(func() {
				for range each {
					if err := peers[i].Append(b.Context(), fmt.Sprint("c", c), msgs); err != nil {
						errs[c] = err
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	b.ReportMetric(conversations*each/(times[0]/1e6), "ops/s")
	b.ReportMetric(conversations*each/(times[1]/1e6), "ops/s-convolog")
}

// benchLoad loads a conversation that was written before the peer is opened.
func benchLoad(b *testing.B, open Opener) {
	ctx := b.Context()
	var dirs [2]string
	openers := [2]Opener{open, OpenConvolog}
	msgs := Conversation(1000, 400)
	for i := range dirs {
		dirs[i] = b.TempDir()
		if err := write(ctx, openers[i], dirs[i], msgs); err != nil {
			b.Fatal(err)
		}
	}
	var times [2][]time.Duration
	for b.Loop() {
		for i, dir := range dirs {
			d, err := timeLoad(ctx, openers[i], dir, len(msgs))
			if err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], d)
		}
	}
	report(b, times)
}

// write writes the conversations "long" and "short".
func write(ctx context.Context, open Opener, dir string, msgs []Message) error {
	p, err := open(dir, Kill)
	if err != nil {
		return err
	}
	err = p.Append(ctx, "short", msgs[:2])
	for len(msgs) > 0 && err == nil {
		n := min(len(msgs), 2)
		err = p.Append(ctx, "long", msgs[:n])
		msgs = msgs[n:]
	}
	return errors.Join(err, p.Close())
}

// timeLoad measures a load of the long conversation. It opens the peer and loads the short
// conversation first, so that the time of opening does not count.
func timeLoad(ctx context.Context, open Opener, dir string, want int) (time.Duration, error) {
	p, err := open(dir, Kill)
	if err != nil {
		return 0, err
	}
	var took time.Duration
	if _, err = p.Load(ctx, "short"); err == nil {
		began := time.Now()
		var msgs []Message
		msgs, err = p.Load(ctx, "long")
		took = time.Since(began)
		if err == nil && len(msgs) != want {
			err = fmt.Errorf("%d messages of %d", len(msgs), want)
		}
	}
	return took, errors.Join(err, p.Close())
}

// versus alternates blocks of calls for the peer (i is 0) and Convolog (i is 1). It returns
// the median times of both in microseconds.
func versus(b *testing.B, block int, call func(i int) error) [2]float64 {
	b.Helper()
	var times [2][]time.Duration
	for b.Loop() {
		for i := range times {
			for range block {
				began := time.Now()
				err := call(i)
				times[i] = append(times[i], time.Since(began))
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	return report(b, times)
}

func report(b *testing.B, times [2][]time.Duration) [2]float64 {
	b.Helper()
	percentile := func(i, p int) float64 {
		slices.Sort(times[i])
		return float64(times[i][min(len(times[i])*p/100, len(times[i])-1)]) / 1e3
	}
	b.ReportMetric(percentile(0, 50)/percentile(1, 50), "x-convolog")
	b.ReportMetric(percentile(0, 50), "us-p50")
	b.ReportMetric(percentile(0, 99), "us-p99")
	b.ReportMetric(percentile(1, 50), "us-convolog")
	b.ReportMetric(percentile(1, 99), "us-convolog-p99")
	b.ReportMetric(0, "ns/op") // hides the time of both together, which is meaningless
	return [2]float64{percentile(0, 50), percentile(1, 50)}
}

// Check writes a conversation with a peer and reads it back after a restart.
func Check(t *testing.T, open Opener) {
	for _, level := range []Level{PowerCut, Kill} {
		dir, msgs := t.TempDir(), Conversation(6, 200)
		if err := write(t.Context(), open, dir, msgs); err != nil {
			t.Fatal(level, err)
		}
		p, err := open(dir, level)
		if err != nil {
			t.Fatal(level, err)
		}
		if err := p.Append(t.Context(), "long", msgs); err != nil {
			t.Error(level, err)
		}
		got, err := p.Load(t.Context(), "long")
		if err != nil || !slices.Equal(got, slices.Concat(msgs, msgs)) {
			t.Errorf("%s: %d messages, not the written ones; %v", level, len(got), err)
		}
		if err := p.Close(); err != nil {
			t.Error(level, err)
		}
	}
}
