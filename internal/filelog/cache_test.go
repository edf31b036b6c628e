package filelog

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cacheDisk is a model of a kernel's page cache over a disk, as failing disks
// below ext4 and XFS showed it. The real file is the cache; the content of the disk
// is kept here. A sync that fails
//
//   - leaves the pages clean and readable, so that the next sync finds nothing
//     to do and succeeds;
//   - leaves the extents unwritten for good: the same bytes written again do
//     not reach the disk either, although the next sync succeeds;
//   - is reported once to every descriptor that was open, never to a new one.
//
// When the cache is emptied, or the power is cut, such bytes are NULs. Marks and
// locks are the real file's: a mark outlives the process, and a lock does not.
type cacheDisk struct {
	root *os.Root
	mu   sync.Mutex
	// op, if not nil, is called before each operation, which fails with its
	// error.
	op      func(name string) error
	mutate  func(file) file // a naive variant of all files
	files   []*cached
	opened  []*os.File // everything that was opened, to be closed by kill
	durable *cached    // the file that has the name after a power cut
	syncs   int
	last    *cacheFile // the one opened last
}

// cached is one file, whatever its name.
type cached struct {
	id       fs.FileInfo
	disk     []byte
	dirty    []extent
	broken   []extent // of failed syncs
	failures int
}

// scratch returns a folder, in memory where that is possible.
func scratch(t testing.TB) *os.Root {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "filelog") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		dir = t.TempDir()
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := errors.Join(root.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return root
}

func newCacheDisk(t *testing.T) *cacheDisk {
	t.Helper()
	return &cacheDisk{root: scratch(t)}
}

func (d *cacheDisk) seam() *seam {
	return &seam{step: d.step, wrap: func(inner file) file {
		id, err := inner.Stat()
		if err != nil {
			panic(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if disk, ok := inner.(*diskFile); ok {
			d.opened = append(d.opened, disk.File)
		}
		i := slices.IndexFunc(d.files, func(c *cached) bool { return os.SameFile(c.id, id) })
		if i < 0 || id.Size() == 0 { // a new file, maybe with the number of a removed one
			d.files = append(d.files, &cached{id: id})
			i = len(d.files) - 1
		}
		c := d.files[i]
		d.last = &cacheFile{inner, d, c, c.failures}
		var f file = d.last
		if d.mutate != nil {
			f = d.mutate(f)
		}
		return f
	}}
}

func (d *cacheDisk) do(name string) error {
	d.mu.Lock()
	op := d.op
	d.mu.Unlock()
	if op == nil {
		return nil
	}
	return op(name)
}

func (d *cacheDisk) step(name string) error {
	if err := d.do(name); err != nil {
		return err
	}
	if name == "sync folder" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.durable = d.named()
	}
	return nil
}

func (d *cacheDisk) setOp(op func(string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.op = op
}

// named returns the file that has the name now.
func (d *cacheDisk) named() *cached {
	id, err := d.root.Lstat(workName)
	if err != nil {
		return nil
	}
	for _, c := range slices.Backward(d.files) {
		if os.SameFile(c.id, id) {
			return c
		}
	}
	return nil
}

// copies returns how many files were made after the first one.
func (d *cacheDisk) copies() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.files) - 1
}

// kill ends the process that has opened everything so far: its locks end, and
// its later calls have no effect.
func (d *cacheDisk) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.opened {
		_ = f.Close() // some are closed
	}
	d.opened, d.op = nil, nil
}

// create makes the log.
func (d *cacheDisk) create(t *testing.T, policy SyncPolicy) *Log {
	t.Helper()
	l, err := Create(d.root, workName, []byte(workFirst), &Options{Sync: policy, seam: d.seam()})
	require.NoError(t, err)
	d.durable = d.named()
	return l
}

func (d *cacheDisk) open(t *testing.T, policy SyncPolicy) *Log {
	t.Helper()
	l, err := Open(d.root, workName, &Options{Sync: policy, seam: d.seam()})
	require.NoError(t, err)
	return l
}

// replace gives the name to another file.
func (d *cacheDisk) replace(t *testing.T, content string) {
	t.Helper()
	require.NoError(t, d.root.WriteFile("other", []byte(content), 0o600))
	require.NoError(t, d.root.Rename("other", workName))
}

// inCache is what readers see of the file now.
func (d *cacheDisk) inCache(t *testing.T) string {
	t.Helper()
	b, err := d.root.ReadFile(workName)
	require.NoError(t, err)
	return string(b)
}

// lost returns the lines that a power cut could take now: lines that the disk
// lacks in the file of the name, or in the file that may get the name back.
func (d *cacheDisk) lost(lines ...string) (lost []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range lines {
		for _, c := range []*cached{d.named(), d.durable} {
			if c == nil || strings.Count(string(c.disk), line) != 1 {
				lost = append(lost, line)
				break
			}
		}
	}
	return lost
}

// marked reports whether the file bears the mark.
func (d *cacheDisk) marked(t *testing.T) bool {
	t.Helper()
	info, err := d.root.Lstat(workName)
	require.NoError(t, err)
	return marked(d.root, workName, info)
}

// evict empties the cache: readers see the content of the disk where pages are clean.
func (d *cacheDisk) evict(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.named()
	was, err := d.root.ReadFile(workName)
	require.NoError(t, err)
	b := make([]byte, len(was))
	copy(b, c.disk)
	for _, e := range c.dirty {
		copy(b[e.start:e.end], was[e.start:])
	}
	f, err := d.root.OpenFile(workName, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, errors.Join(err, f.Close()))
}

type cacheFile struct {
	file
	d     *cacheDisk
	c     *cached
	knows int // of how many failures
}

func (f *cacheFile) Write(p []byte) (int, error) {
	if err := f.d.do("write"); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	n, err := f.file.Write(p)
	f.wrote(info.Size(), n)
	return n, err
}

func (f *cacheFile) wrote(off int64, n int) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.c.dirty = append(f.c.dirty, extent{off, off + int64(n)})
}

func (f *cacheFile) Sync() error {
	fault := f.d.do("sync")
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if n := int(info.Size()) - len(f.c.disk); n > 0 {
		f.c.disk = append(f.c.disk, make([]byte, n)...)
	}
	dirty := f.c.dirty
	f.c.dirty = nil
	if fault != nil {
		f.c.failures++
		f.c.broken = append(f.c.broken, dirty...)
	}
	for _, e := range dirty {
		b := make([]byte, e.end-e.start)
		if _, err := f.ReadAt(b, e.start); err != nil {
			return err
		}
		for i, at := 0, e.start; at < e.end; i, at = i+1, at+1 {
			if !slices.ContainsFunc(f.c.broken, func(e extent) bool { return e.start <= at && at < e.end }) {
				f.c.disk[at] = b[i]
			}
		}
	}
	if f.knows < f.c.failures {
		f.knows = f.c.failures
		return errFault
	}
	return nil
}

func (f *cacheFile) Mark(on bool) error {
	name := "unmark"
	if on {
		name = "mark"
	}
	if err := f.d.do(name); err != nil {
		return err
	}
	return f.file.Mark(on)
}
