package filedriver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// batchOf returns the lines of a batch of n lines, each with the name of its writer and
// the number of the batch.
func batchOf(writer string, number, n int) []driver.Line {
	items := make([]transcript.Item, n)
	for i := range items {
		items[i] = transcript.Custom{Name: writer, Data: []byte(strconv.Itoa(number))}
	}
	made := 0
	entries, err := transcript.NewBatchWithChecksums(time.Unix(1_700_000_000, 0), func() string {
		made++
		return fmt.Sprintf("%s-%d-%d", writer, number, made)
	}, items...)
	if err != nil {
		panic(err)
	}
	lines := make([]driver.Line, n)
	for i, e := range entries {
		lines[i] = driver.Line{ID: e.ID, Data: e.Line()}
	}
	return lines
}

// A worldOfWriters is a transcript that several processes write, one of which dies in
// the middle of its appends or takes them back.
type worldOfWriters struct {
	path  string
	acked []atomic.Int64 // by writer: the number of its last acknowledged batch
	reads atomic.Int64   // that have ended
	stop  atomic.Bool
}

// pace makes a writer wait for reads, so that readers can keep up on a busy machine.
func (w *worldOfWriters) pace(n int64) {
	for n > 8*(1+w.reads.Load()) && !w.stop.Load() {
		time.Sleep(100 * time.Microsecond)
	}
}

// write appends batches as a writer that never fails.
func (w *worldOfWriters) write(d *filedriver.Driver, ref driver.Ref, writer int, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for n := int64(1); !w.stop.Load(); n++ {
		w.pace(n)
		lines := batchOf(strconv.Itoa(writer), int(n), 1+rnd.IntN(3))
		if _, err := d.Append(context.Background(), ref, lines, driver.Anywhere, nil); err != nil {
			return err
		}
		w.acked[writer].Store(n)
	}
	return nil
}

// tear writes parts of batches under the append lock, and takes half of them back.
func (w *worldOfWriters) tear(seed uint64) error {
	root, err := os.OpenRoot(filepath.Dir(w.path))
	if err != nil {
		return err
	}
	defer root.Close()
	lock, err := filelog.OpenLockFile(root, filepath.Base(w.path))
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	rnd := rand.New(rand.NewPCG(seed, 2))
	for n := 0; !w.stop.Load(); n++ {
		w.pace(int64(n))
		if lock.TryLock(1<<62) != nil {
			continue
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		var text strings.Builder
		for _, l := range batchOf("bad", n, 4) {
			text.WriteString(string(l.Data) + "\n")
		}
		part := text.String()[:1+rnd.IntN(text.Len()-1)]
		if last := make([]byte, 1); info.Size() > 0 {
			if r, err := os.Open(w.path); err == nil {
				_, _ = r.ReadAt(last, info.Size()-1)
				_ = r.Close()
			}
			if last[0] != '\n' {
				part = "\n" + part
			}
		}
		if _, err = f.WriteString(part); err == nil && rnd.IntN(2) == 0 {
			err = f.Truncate(info.Size())
		}
		if unlockErr := lock.Unlock(1 << 62); err == nil {
			err = unlockErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A reader of a worldOfWriters remembers the last batch of each writer.
type worldReader struct {
	w    *worldOfWriters
	d    *filedriver.Driver
	ref  driver.Ref
	next driver.Cursor
	last []int64
}

// read reads the new lines and reports missing batches.
func (r *worldReader) read(ctx context.Context) error {
	defer r.w.reads.Add(1)
	acked := make([]int64, len(r.w.acked))
	for i := range acked {
		acked[i] = r.w.acked[i].Load()
	}
	for b, err := range transcript.Batches(func(yield func(transcript.Record, error) bool) {
		for rec, err := range r.d.Scan(ctx, r.ref, r.next, driver.Forward, nil) {
			if err == nil {
				r.next = driver.Cursor(rec.End)
			}
			if !yield(rec, err) {
				return
			}
		}
	}) {
		if err != nil {
			return err
		}
		if err := follows(b, r.last); err != nil {
			return err
		}
	}
	for i, n := range acked {
		if r.last[i] < n {
			return fmt.Errorf("writer %d: batch %d was acknowledged, the last one that was read is %d", i, n, r.last[i])
		}
	}
	return nil
}

// follows reports a batch of a good writer that is cut or does not follow its last one.
func follows(b transcript.Batch, last []int64) error {
	c, ok := b.Entries[0].Body.(transcript.Custom)
	if !ok || c.Name == "bad" {
		return nil
	}
	writer, err := strconv.Atoi(c.Name)
	n, err2 := strconv.ParseInt(string(c.Data), 10, 64)
	if err != nil || err2 != nil || !b.Complete || n != last[writer]+1 {
		return fmt.Errorf("writer %d: batch %d (complete: %v) follows batch %d", writer, n, b.Complete, last[writer])
	}
	last[writer] = n
	return nil
}

// Readers miss no acknowledged batch, while writers die or take back their lines.
func TestReadersBesideTornWriters(t *testing.T) {
	reads := 100
	if *faults != "short" {
		reads = 200
	}
	dir := t.TempDir()
	opts := &filedriver.Options{Sync: filelog.SyncNever}
	d := open(t, dir, opts)
	ref := create(t, d, "a", "k").Ref()
	w := &worldOfWriters{path: d.Path(ref), acked: make([]atomic.Int64, 3)}
	var writers, readers sync.WaitGroup
	for i := range w.acked {
		writers.Go(func() {
			other, err := filedriver.Open(dir, opts)
			if err == nil {
				err = w.write(other, ref, i, uint64(i))
				_ = other.Close()
			}
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	writers.Go(func() {
		if err := w.tear(7); err != nil {
			t.Errorf("the writer that tears: %v", err)
		}
	})
	for range 2 {
		readers.Go(func() {
			other, err := filedriver.Open(dir, opts)
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			r := worldReader{w: w, d: other, ref: ref, last: make([]int64, len(w.acked))}
			for n := range reads {
				if err := r.read(t.Context()); err != nil {
					t.Errorf("read %d: %v", n, err)
					return
				}
			}
		})
	}
	readers.Wait()
	w.stop.Store(true)
	writers.Wait()

	// Forward and backward, the whole transcript is the same.
	forward, _ := readAll(t, d.Scan(t.Context(), ref, 0, driver.Forward, nil))
	backward, _ := readAll(t, d.Scan(t.Context(), ref, 0, driver.Backward, nil))
	slices.Reverse(backward)
	require.Equal(t, forward, backward)
	last := make([]int64, len(w.acked))
	for b, err := range transcript.Batches(d.Scan(t.Context(), ref, 0, driver.Forward, nil)) {
		require.NoError(t, err)
		require.NoError(t, follows(b, last))
	}
	for i := range last {
		require.Equal(t, w.acked[i].Load(), last[i])
	}
}
