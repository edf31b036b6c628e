package filelog

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"
)

// A cacheDisk is a model of a kernel's page cache over a disk: the real file is
// the cache, and what is on the disk is kept here. As on ext4 and XFS, a sync
// that fails marks everything clean, although it has not reached the disk.
type cacheDisk struct {
	root *os.Root
	mu   sync.Mutex
	// op, if not nil, is called before each operation, which fails with its
	// error.
	op    func(name string) error
	files []*cached
	syncs int
}

// cached is one file, whatever its name.
type cached struct {
	id     fs.FileInfo
	disk   []byte
	dirty  []extent
	frozen bool // what is written from now on is lost on its way to the disk
}

func newCacheDisk(t *testing.T) *cacheDisk {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &cacheDisk{root: root}
}

func (d *cacheDisk) seam() *seam {
	return &seam{step: d.do, wrap: func(inner file) file {
		id, err := inner.Stat()
		if err != nil {
			panic(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, c := range d.files {
			if os.SameFile(c.id, id) {
				return &cacheFile{inner, d, c}
			}
		}
		c := &cached{id: id}
		d.files = append(d.files, c)
		return &cacheFile{inner, d, c}
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

func (d *cacheDisk) setOp(op func(string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.op = op
}

// freeze makes the disk ignore what is written to the files there are.
func (d *cacheDisk) freeze() {
	for _, c := range d.files {
		c.frozen = true
	}
}

// create makes the log.
func (d *cacheDisk) create(t *testing.T, policy SyncPolicy) *Log {
	t.Helper()
	l, err := Create(d.root, workName, []byte(workFirst), &Options{Sync: policy, seam: d.seam()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (d *cacheDisk) open(t *testing.T, policy SyncPolicy) *Log {
	t.Helper()
	l, err := Open(d.root, workName, &Options{Sync: policy, seam: d.seam()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// inCache is what readers see of the file now.
func (d *cacheDisk) inCache(t *testing.T) string {
	t.Helper()
	b, err := d.root.ReadFile(workName)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// onDisk is what a power cut would leave of the file, NULs for what is missing.
func (d *cacheDisk) onDisk(t *testing.T) string {
	t.Helper()
	id, err := d.root.Lstat(workName)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.files {
		if os.SameFile(c.id, id) {
			b := make([]byte, id.Size())
			copy(b, c.disk)
			return string(b)
		}
	}
	t.Fatal("nobody has the file open")
	return ""
}

// evict empties the cache of what is clean between from and to.
func (d *cacheDisk) evict(t *testing.T, from, to int64) {
	t.Helper()
	l := d.open(t, SyncNever)
	c, ok := l.file.(*cacheFile)
	if !ok {
		t.Fatal("not a file of the model")
	}
	if err := c.evict(from, to); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

type cacheFile struct {
	file
	d *cacheDisk
	c *cached
}

func (f *cacheFile) Write(p []byte) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if err := f.d.do("write"); err != nil {
		return 0, err
	}
	n, err := f.file.Write(p)
	f.wrote(info.Size(), n)
	return n, err
}

func (f *cacheFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.d.do("write at"); err != nil {
		return 0, err
	}
	n, err := f.file.WriteAt(p, off)
	f.wrote(off, n)
	return n, err
}

func (f *cacheFile) wrote(off int64, n int) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.c.dirty = append(f.c.dirty, extent{off, off + int64(n)})
}

func (f *cacheFile) Sync() error {
	f.d.mu.Lock()
	f.d.syncs++
	dirty := f.c.dirty
	f.c.dirty = nil
	f.d.mu.Unlock()
	if err := f.d.do("sync"); err != nil {
		return err
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.c.frozen {
		return nil
	}
	for _, e := range dirty {
		if n := int(e.end) - len(f.c.disk); n > 0 {
			f.c.disk = append(f.c.disk, make([]byte, n)...)
		}
		if _, err := f.ReadAt(f.c.disk[e.start:e.end], e.start); err != nil {
			return err
		}
	}
	return nil
}

func (f *cacheFile) Unlock() error {
	if err := f.d.do("unlock"); err != nil {
		return err
	}
	return f.file.Unlock()
}

func (f *cacheFile) Renew(between func()) error {
	if err := f.d.do("renew"); err != nil {
		return err
	}
	return f.file.Renew(between)
}

func (f *cacheFile) DropCache(off int64) error {
	if err := f.d.do("drop cache"); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return f.evict(off, info.Size())
}

func (f *cacheFile) evict(from, to int64) error {
	b := make([]byte, to-from)
	if int64(len(f.c.disk)) > from {
		copy(b, f.c.disk[from:])
	}
	for _, e := range f.c.dirty { // stays
		if lo, hi := max(e.start, from), min(e.end, to); lo < hi {
			if _, err := f.ReadAt(b[lo-from:hi-from], lo); err != nil {
				return err
			}
		}
	}
	disk, err := f.d.root.OpenFile(fileOf(f.d.root, f.c.id), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = disk.WriteAt(b, from)
	return errors.Join(err, disk.Close())
}

// fileOf is the name that a file has by now, empty if it has none.
func fileOf(root *os.Root, id fs.FileInfo) string {
	names, _ := fs.ReadDir(root.FS(), ".")
	for _, n := range names {
		if info, err := n.Info(); err == nil && os.SameFile(info, id) {
			return n.Name()
		}
	}
	return ""
}
