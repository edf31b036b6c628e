package search_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// watched counts scans and their records. If fails is not 0, the scan with that number fails; read,
// if not nil, is called with each record. Closing it leaves the driver open for others. A context
// that ends does not end a scan: drivers need not check it.
type watched struct {
	driver.Driver
	scans, records atomic.Int64
	fails          int64
	read           func()
}

var errBroken = errors.New("the disk is broken")

func (*watched) Close() error { return nil }

func (w *watched) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		if w.scans.Add(1) == w.fails {
			yield(transcript.Record{}, errBroken)
			return
		}
		for rec, err := range w.Driver.Scan(context.WithoutCancel(ctx), ref, from, dir, nil) {
			if w.read != nil {
				w.read()
			}
			if w.records.Add(1); !yield(rec, err) {
				return
			}
		}
	}
}
