//go:build linux && (amd64 || arm64)

package soak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// noSync makes selected syncs do nothing.
func noSync(which func(path string) bool) func(c storetest.Call) storetest.Verdict {
	return func(c storetest.Call) storetest.Verdict {
		return storetest.Verdict{Skip: c.Kind == "sync" && which(c.Path)}
	}
}

// credulous trusts the index about each session in it.
func credulous(dir string, opts *session.Options) (*session.Store, error) {
	rows := map[string]driver.Row{}
	index, _ := os.ReadFile(filepath.Join(dir, "agents/main/sessions.jsonl"))
	for line := range bytes.Lines(index) {
		var c struct{ Row *driver.Row }
		if json.Unmarshal(line, &c) == nil && c.Row != nil {
			rows[c.Row.ID] = *c.Row
		}
	}
	if opts == nil {
		opts = &session.Options{}
	}
	drv, err := filedriver.Open(dir, &filedriver.Options{
		Sync: opts.Sync,
		Describe: func(row driver.Row, _ filedriver.Scan) (driver.Row, error) {
			if known, ok := rows[row.ID]; ok {
				return known, nil
			}
			return row, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return session.OpenDriver(drv, opts), nil
}

// A batchless driver does not mark the lines of one append.
type batchless struct{ driver.Driver }

func (b batchless) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range b.Driver.Scan(ctx, ref, from, dir, keep) {
			rec.Entry.Batch, rec.Entry.Part = 0, 0
			if !yield(rec, err) {
				return
			}
		}
	}
}

func openBatchless(dir string, opts *session.Options) (*session.Store, error) {
	if opts == nil {
		opts = &session.Options{}
	}
	drv, err := filedriver.Open(dir, &filedriver.Options{Sync: opts.Sync})
	if err != nil {
		return nil, err
	}
	return session.OpenDriver(batchless{drv}, opts), nil
}

// The harness finds the defect of each naive writer; otherwise it could miss
// defects of this writer.
func TestCrashHarnessBites(t *testing.T) {
	t.Parallel()
	stride := storetest.Extent(*storetest.Faults, 600, 64, 64)
	for _, c := range []struct {
		what   string
		work   string // the workload
		mutant storetest.Mutant
		want   string
	}{
		{"folders are not synced", "talk", storetest.Mutant{Judge: noSync(func(path string) bool { return filepath.Ext(path) == "" })}, "is not there"},
		{"the folder of transcripts is not synced", "talk", storetest.Mutant{Judge: noSync(func(path string) bool { return path == "agents/main/sessions" })}, "is not there"},
		{"transcripts are not synced", "talk", storetest.Mutant{Judge: noSync(func(path string) bool { return strings.HasSuffix(path, ".jsonl") })}, "has the entries"},
		{"renamed before it is synced", "talk", storetest.Mutant{Judge: noSync(func(path string) bool { return strings.Contains(path, ".tmp-") })}, "opening"},
		{"acknowledged before it is written", "talk", storetest.Mutant{Early: true}, "is not there"},
		{"deletions are not synced", "delete", storetest.Mutant{Judge: noSync(func(path string) bool {
			return path == "agents/main/sessions.jsonl" || path == "agents/main/sessions"
		})}, "is there"},
		{"the index is believed", "talk", storetest.Mutant{Open: credulous}, "the index says"},
		{"a part of a batch is shown as whole", "talk", storetest.Mutant{Open: openBatchless}, "does not report it"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			for _, wl := range workloads {
				if wl.Name != c.work {
					continue
				}
				// One state is enough: few are tried first, then all.
				n, broken := endure(t, wl, session.SyncAlways, c.mutant, storetest.Sample{Moment: 1, Stride: stride, N: 32}, c.want, 1)
				if len(broken) == 0 {
					n, broken = endure(t, wl, session.SyncAlways, c.mutant, storetest.Sample{Moment: 1, Stride: stride, N: 1}, c.want, 1)
				}
				require.NotEmpty(t, broken, "in none of %d states %q", n, c.want)
				t.Logf("after %d states: %.300s", n, broken[0])
			}
		})
	}
}
