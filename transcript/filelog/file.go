package filelog

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
)

// A file is what a Log needs of an open file. Tests wrap it to inject faults;
// nothing else implements it but diskFile.
type file interface {
	io.ReaderAt
	io.Writer   // appends
	io.WriterAt // on a file that was not opened for appending

	// Lookup returns the size of the file if its name still refers to it. If it
	// does not the error matches ErrReplaced or fs.ErrNotExist.
	Lookup() (size int64, err error)
	// Stat describes the open file.
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync puts the file's data and size on stable storage.
	Sync() error
	// DropCache makes later reads from off on come from the disk. All there is
	// must have been synced.
	DropCache(off int64) error
	// Lock takes the append lock if it is free. One goroutine at a time.
	Lock(shared bool) (bool, error)
	Unlock() error
	// Renew opens the file once more, calls between, goes on with the new
	// descriptor and closes the old one, and the lock with it. If it fails
	// nothing has changed, and between was not called.
	Renew(between func()) error
	Close() error
}

// A seam lets tests get between this package and the operating system. The nil
// seam is what everybody else has.
type seam struct {
	wrap func(file) file
	step func(name string) error // before each operation on a folder, and where a test must come between
}

func (s *seam) file(f file) file {
	if s == nil || s.wrap == nil {
		return f
	}
	return s.wrap(f)
}

func (s *seam) before(name string) error {
	if s == nil || s.step == nil {
		return nil
	}
	return s.step(name)
}

// A diskFile is a real file.
type diskFile struct {
	descriptor atomic.Pointer[descriptor]

	root *os.Root
	name string
	flag int           // what Renew opens it with
	id   fs.FileInfo   // of the open file
	look *folderLookup // nil: look the name up through root
}

// A descriptor is an open file and its append lock.
type descriptor struct {
	*os.File
	*fileLock
}

// newDiskFile makes a diskFile of f, which it closes if it fails. Folder is
// [Options.Folder].
func newDiskFile(root *os.Root, name string, f *os.File, folder *os.File) (*diskFile, error) {
	id, err := f.Stat()
	if err == nil {
		d := &diskFile{root: root, name: name, id: id}
		var lock *fileLock
		if lock, err = newFileLock(f, appendByte); err == nil {
			d.descriptor.Store(&descriptor{f, lock})
			if folder != nil && filepath.Base(name) == name {
				d.look = newFolderLookup(folder, name, id)
			}
			return d, nil
		}
	}
	return nil, cmp.Or(err, f.Close())
}

// Lookup returns the size of the file if its name still refers to it. It looks
// at the name alone: the link count of a file that has one is not zero, and its
// size is that of the open file.
func (d *diskFile) Lookup() (int64, error) {
	if d.look != nil {
		return d.look.size()
	}
	info, err := d.root.Lstat(d.name)
	if err == nil && !os.SameFile(d.id, info) {
		err = ErrReplaced
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync puts the data and the size on stable storage.
func (d *diskFile) Sync() error { return datasync(d.descriptor.Load().File) }

// DropCache makes the kernel forget what it has of the file from off on.
func (d *diskFile) DropCache(off int64) error { return dropCache(d.descriptor.Load().File, off) }

// Truncate cuts the file to size bytes.
func (d *diskFile) Truncate(size int64) error {
	return truncate(d.root, d.name, d.descriptor.Load().File, size)
}

// What follows are the methods of the descriptor.

func (d *diskFile) ReadAt(p []byte, off int64) (int, error) {
	return d.descriptor.Load().ReadAt(p, off)
}
func (d *diskFile) Write(p []byte) (int, error) { return d.descriptor.Load().Write(p) }
func (d *diskFile) WriteAt(p []byte, off int64) (int, error) {
	return d.descriptor.Load().WriteAt(p, off)
}
func (d *diskFile) Stat() (fs.FileInfo, error)     { return d.descriptor.Load().Stat() }
func (d *diskFile) Lock(shared bool) (bool, error) { return d.descriptor.Load().Lock(shared) }
func (d *diskFile) Unlock() error                  { return d.descriptor.Load().Unlock() }
func (d *diskFile) Close() error                   { return d.descriptor.Load().Close() }

// Renew opens the file once more.
func (d *diskFile) Renew(between func()) error {
	f, id, err := openRegular(d.root, d.name, d.flag)
	if err != nil {
		return err
	}
	lock, err := newFileLock(f, appendByte)
	if err == nil && !os.SameFile(d.id, id) {
		err = ErrReplaced
	}
	if err != nil {
		return cmp.Or(err, f.Close())
	}
	between()
	// Calls that still use the old one end before it is closed.
	_ = d.descriptor.Swap(&descriptor{f, lock}).Close() // it was synced, as far as that is owed
	return nil
}

// openRegular opens the regular file that name refers to, and nothing else: a
// Root follows symbolic links within itself, and opening a FIFO may block.
func openRegular(root *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("not a regular file: %v", named.Mode())
	}
	f, err := root.OpenFile(name, flag|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = ErrReplaced
	}
	if err != nil {
		return nil, nil, cmp.Or(err, f.Close())
	}
	return f, opened, nil
}

// fullPath is the name errors show.
func fullPath(root *os.Root, name string) string {
	return filepath.Join(root.Name(), name)
}
