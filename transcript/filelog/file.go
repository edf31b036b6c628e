package filelog

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	Close() error
}

// A seam lets tests get between this package and the operating system. The nil
// seam is what everybody else has.
type seam struct {
	wrap func(file) file
	step func(name string) error // before each operation on a folder
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
	*os.File
	*fileLock

	root *os.Root
	name string
	id   fs.FileInfo   // of the open file
	look *folderLookup // nil: look the name up through root
}

// newDiskFile makes a diskFile of f, which it closes if it fails. Folder is
// [Options.Folder].
func newDiskFile(root *os.Root, name string, f *os.File, folder *os.File) (*diskFile, error) {
	id, err := f.Stat()
	if err == nil {
		d := &diskFile{File: f, root: root, name: name, id: id}
		if d.fileLock, err = newFileLock(f, appendByte); err == nil {
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
func (d *diskFile) Sync() error { return datasync(d.File) }

// DropCache makes the kernel forget what it has of the file from off on.
func (d *diskFile) DropCache(off int64) error { return dropCache(d.File, off) }

// Truncate cuts the file to size bytes.
func (d *diskFile) Truncate(size int64) error {
	return truncate(d.root, d.name, d.File, size)
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
