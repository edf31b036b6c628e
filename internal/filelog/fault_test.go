package filelog

import (
	"io/fs"
	"slices"
	"sync/atomic"
	"syscall"
)

// A faultDisk is a file between a Log and the disk. It makes operation number
// failAt fail, and if sticky all later ones, and keeps track of the bytes a
// power cut would take.
type faultDisk struct {
	failAt int
	sticky bool
	short  int                    // bytes that a failing write still writes
	only   string                 // the one kind of operation that fails; "" for all
	mutate func(inner file) file  // a naive variant, put on top of the faults
	ops    int                    // operations seen so far
	syncs  atomic.Int32           // of them, syncs
	failed bool                   // an operation has failed
	dirty  []extent               // written, not synced
	lost   []extent               // of a failed sync: clean to the kernel, not on disk
	step   func(op string) error  // called for each operation, if not nil
	wrote  func(f file, p []byte) // called before each write, if not nil
}

var errFault = syscall.ENOSPC

func (d *faultDisk) op(name string) error {
	if d.step != nil {
		if err := d.step(name); err != nil {
			return err
		}
	}
	if d.only != "" && d.only != name {
		return nil
	}
	d.ops++
	if d.ops == d.failAt || d.sticky && d.failAt > 0 && d.ops > d.failAt {
		d.failed = true
		return errFault
	}
	return nil
}

func (d *faultDisk) seam() *seam {
	return &seam{
		step: d.op,
		wrap: func(inner file) file {
			var f file = &faultFile{inner, d}
			if d.mutate != nil {
				f = d.mutate(f)
			}
			return f
		},
	}
}

// powerCut returns content as the disk holds it: bytes that never reached it
// are NULs, as in a file system that stored the size.
func (d *faultDisk) powerCut(content []byte) []byte {
	content = slices.Clone(content)
	for _, e := range slices.Concat(d.dirty, d.lost) {
		for i := e.start; i < min(e.end, int64(len(content))); i++ {
			content[i] = 0
		}
	}
	return content
}

type faultFile struct {
	file
	d *faultDisk
}

func (f *faultFile) Lookup() (look, error) {
	if err := f.d.op("lookup"); err != nil {
		return look{}, err
	}
	return f.file.Lookup()
}

func (f *faultFile) Stat() (fs.FileInfo, error) {
	if err := f.d.op("stat"); err != nil {
		return nil, err
	}
	return f.file.Stat()
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.d.op("read"); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, off)
}

func (f *faultFile) Write(p []byte) (int, error) {
	if f.d.wrote != nil {
		f.d.wrote(f.file, p)
	}
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	fault := f.d.op("write")
	if fault != nil {
		p = p[:min(max(f.d.short, 0), len(p))]
	}
	n, err := f.file.Write(p)
	f.d.dirty = append(f.d.dirty, extent{info.Size(), info.Size() + int64(n)})
	if fault != nil {
		return n, fault
	}
	return n, err
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.d.op("truncate"); err != nil {
		return err
	}
	for i := range f.d.dirty {
		f.d.dirty[i].end = max(f.d.dirty[i].start, min(f.d.dirty[i].end, size))
	}
	return f.file.Truncate(size)
}

func (f *faultFile) Sync() error {
	f.d.syncs.Add(1)
	if err := f.d.op("sync"); err != nil {
		f.d.lost = append(f.d.lost, f.d.dirty...)
		f.d.dirty = nil
		return err
	}
	f.d.dirty = nil
	return nil
}

func (f *faultFile) Lock(shared bool) (bool, error) {
	if err := f.d.op("lock"); err != nil {
		return false, err
	}
	return f.file.Lock(shared)
}

func (f *faultFile) Close() error {
	fault := f.d.op("close")
	if err := f.file.Close(); err != nil {
		return err
	}
	return fault
}
