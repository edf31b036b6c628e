package filelog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const (
	// appendLock is the byte of the append lock: far past any data, so that a lock that
	// blocks reads, as on Windows, blocks none.
	appendLock int64 = 1 << 62

	suspectSuffix = ".suspect" // of the mark's name on Windows
)

// A file is the part of an open file that a Log needs. Tests wrap it to inject
// faults; diskFile is the only other implementation.
type file interface {
	io.ReaderAt
	io.Writer // appends

	// Lookup looks up the name of the file. It fails with ErrReplaced if the name
	// no longer refers to the file.
	Lookup() (look, error)
	// Stat describes the open file.
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync puts the file's data and size on stable storage.
	Sync() error
	// Mark sets or clears the mark that a sync of the file has failed.
	Mark(on bool) error
	// Lock takes the append lock if it is free. One goroutine at a time uses it.
	Lock(shared bool) (bool, error)
	Unlock() error
	Close() error
}

// A seam lets tests get between this package and the operating system.
// Everywhere else it is nil.
type seam struct {
	wrap func(file) file
	step func(name string) error // before each operation on a folder, and where a test must intervene
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

// An opened is an open file and its identity.
type opened struct {
	file
	id fs.FileInfo
}

// openNamed opens the regular file that name refers to.
func openNamed(root *os.Root, name string, opts *Options) (*opened, error) {
	flag := os.O_RDWR | os.O_APPEND
	if opts.ReadOnly {
		flag = os.O_RDONLY
	}
	f, _, err := openRegular(root, name, flag)
	if err != nil {
		return nil, err
	}
	return newOpened(root, name, f, opts)
}

// newOpened wraps f, which it closes if it fails. Lookup looks up name.
func newOpened(root *os.Root, name string, f *os.File, opts *Options) (*opened, error) {
	id, err := f.Stat()
	if err != nil {
		return nil, cmp.Or(err, f.Close())
	}
	d := &diskFile{File: f, root: root, name: name, id: id}
	if filepath.Base(name) == name {
		d.folder, d.inFolder = opts.Folder, append([]byte(name), 0)
	}
	return &opened{opts.seam.file(d), id}, nil
}

// A diskFile is a real file.
type diskFile struct {
	*os.File
	root *os.Root
	name string
	id   fs.FileInfo // of the open file

	// The folder of the name, nil if lookups must go through root, and the name in
	// it with a NUL at its end.
	folder   *os.File
	inFolder []byte
}

// Lookup looks at the name alone: while it refers to the open file, its size is
// the open file's.
func (d *diskFile) Lookup() (look, error) {
	if d.folder != nil {
		now, err := lookupIn(d.folder, d.inFolder, d.id)
		if !errors.Is(err, errors.ErrUnsupported) {
			return now, err
		}
	}
	info, err := d.root.Lstat(d.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(d.id, info) {
		err = ErrReplaced
	}
	if err != nil {
		return look{}, err
	}
	return look{info.Size(), marked(d.root, d.name, info)}, nil
}

// Sync puts the data and the size on stable storage.
func (d *diskFile) Sync() error { return datasync(d.File) }

// Mark sets or clears the mark, which is the sticky bit of the file. The bit has no
// other meaning on a file, stays with it, needs no space, and shows in every lookup.
// Windows lacks the bit: an empty file next to it is the mark there, at the cost of
// another lookup. FreeBSD refuses the bit to users other than root: only the process
// with the failure is then aware of it.
func (d *diskFile) Mark(on bool) error {
	if runtime.GOOS == "windows" {
		if !on {
			return d.root.Remove(d.name + suspectSuffix)
		}
		f, err := d.root.OpenFile(d.name+suspectSuffix, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
	info, err := d.Stat()
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if on {
		mode |= fs.ModeSticky
	}
	return d.Chmod(mode)
}

// marked reports whether the file of that name bears the mark.
func marked(root *os.Root, name string, info fs.FileInfo) bool {
	if runtime.GOOS == "windows" {
		_, err := root.Lstat(name + suspectSuffix)
		return err == nil
	}
	return info.Mode()&fs.ModeSticky != 0
}

// Truncate cuts the file to size bytes. On Windows a handle that appends may not
// cut, so Truncate opens another.
func (d *diskFile) Truncate(size int64) error {
	if runtime.GOOS != "windows" {
		return d.File.Truncate(size)
	}
	f, id, err := openRegular(d.root, d.name, os.O_RDWR)
	if err != nil {
		return err
	}
	if !os.SameFile(d.id, id) {
		return cmp.Or(ErrReplaced, f.Close())
	}
	return cmp.Or(f.Truncate(size), f.Close())
}

// Lock takes the append lock if it is free.
func (d *diskFile) Lock(shared bool) (bool, error) { return tryLock(d.File, appendLock, shared) }

// Unlock gives the append lock back.
func (d *diskFile) Unlock() error { return unlock(d.File, appendLock) }

// OpenFile opens the regular file that name refers to within root for reading, and
// describes it. It refuses files as [Open] does. It is for reading a file once:
// the open file stays the same when a copy takes the name.
func OpenFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, info, err := openRegular(root, name, os.O_RDONLY)
	if err != nil {
		return nil, nil, openError(root, name, err)
	}
	return f, info, nil
}

// TrySize is [Log.TrySize] for a file that [OpenFile] has opened, whatever its name is now.
func TrySize(f *os.File) (size int64, ok bool, err error) {
	if ok, err = tryLock(f, appendLock, true); !ok || err != nil {
		return 0, false, err
	}
	defer func() { _ = unlock(f, appendLock) }() // cannot fail: to unlock a held byte needs no memory
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	return info.Size(), true, nil
}

// NoLinks returns an error if name, or a folder on the way to it, is a symbolic link
// within root. A Root follows links that stay within it: a planted link would lead from
// the files of one session, or of one person, to others.
func NoLinks(root *os.Root, name string) error {
	for i := range len(name) + 1 {
		if i < len(name) && !os.IsPathSeparator(name[i]) {
			continue
		}
		info, err := root.Lstat(name[:i])
		if err != nil {
			return nil // the caller finds the same
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link: remove it, or put its target in its place", fullPath(root, name[:i]))
		}
	}
	return nil
}

// openRegular opens the regular file that name refers to, and nothing else, not even
// over a link; opening a FIFO may block. If another file takes the name in between,
// openRegular opens that one.
func openRegular(root *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	const tries = 100 // the name of a log changes less often
	if err := NoLinks(root, name); err != nil {
		return nil, nil, err
	}
	for range tries {
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
		if err == nil && os.SameFile(named, opened) {
			return f, opened, nil
		}
		if err = cmp.Or(err, f.Close()); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ErrReplaced
}
