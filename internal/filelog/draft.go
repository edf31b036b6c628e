package filelog

import (
	"io/fs"
	"os"

	"github.com/convolog/convolog/session/driver"
)

// A Draft is a file with a temporary name until [Draft.Install] gives it the final
// one. It is for content that need not fit into memory, that the caller reads back
// first, or that takes too long to write under a lock. A kill leaves at most a
// temporary file, for [RemoveTemps]. A Draft is for one goroutine.
type Draft struct {
	t    *tempFile
	name string
	done bool // installed or discarded: set by install and Discard
}

// NewDraft makes an empty file that is to have the name that name refers to within
// root. Its mode is 0600. The caller must end it with Install or Discard.
func NewDraft(root *os.Root, name string) (*Draft, error) {
	t, err := openTemp(root, name, new(Options))
	if err != nil {
		return nil, newError("write", fullPath(root, name), err)
	}
	return &Draft{t: t, name: name}, nil
}

// WriteFileAtomic gives the file that name refers to within root the content
// data, replacing the old file: at every moment, and after a crash, the name refers to
// the whole old or the whole new content. If sync is set, the new content is on stable
// storage when the error is nil. The file gets the mode before its name, if the file
// system supports it. Leftover temporary files are for [RemoveTemps].
//
// A [*driver.NotDurableError] means that the new content is in place but that
// the folder could not be synced. After any other error the old content is
// untouched.
func WriteFileAtomic(root *os.Root, name string, data []byte, mode fs.FileMode, sync bool) error {
	d, err := NewDraft(root, name)
	if err != nil {
		return err
	}
	defer d.Discard()
	if _, err = d.Write(data); err == nil && sync {
		_, err = d.Sync()
	}
	if err != nil {
		return err
	}
	if mode != tempMode {
		_ = root.Chmod(d.t.temp, mode) // not every file system has every bit
	}
	return d.install(sync)
}

func (d *Draft) fail(err error) error {
	if err == nil {
		return nil
	}
	return newError("write", fullPath(d.t.root, d.name), err)
}

// Write implements [io.Writer].
func (d *Draft) Write(p []byte) (int, error) {
	n, err := d.t.Write(p)
	return n, d.fail(err)
}

// ReadAt implements [io.ReaderAt].
func (d *Draft) ReadAt(p []byte, off int64) (int, error) { return d.t.ReadAt(p, off) }

// Sync puts the content on stable storage and returns its size.
func (d *Draft) Sync() (size int64, err error) {
	if err := d.t.Sync(); err != nil {
		return 0, d.fail(err)
	}
	info, err := d.t.Stat()
	if err != nil {
		return 0, d.fail(err)
	}
	return info.Size(), nil
}

// Named reports whether the file still has its temporary name; [RemoveDrafts] may
// have taken it.
func (d *Draft) Named() bool { return d.t.named() }

// Install gives the file its name, replacing an earlier file. When the error is nil, no
// power cut takes the name back. A [*driver.NotDurableError] means that the file got
// its name but that the folder could not be synced. After any other error the name is
// unchanged. An error that matches [fs.ErrNotExist] may mean that [RemoveDrafts] was
// faster. The Draft has ended in any case.
func (d *Draft) Install() error { return d.install(true) }

// install is Install, but syncs the folder only if sync is set.
func (d *Draft) install(sync bool) error {
	if err := d.t.root.Rename(d.t.temp, d.name); err != nil {
		d.Discard()
		return d.fail(err)
	}
	d.done = true
	defer func() {
		_ = d.t.Unlock() // closing the file does it too
		_ = d.t.Close()
	}()
	if !sync {
		return nil
	}
	if err := syncFolder(d.t.root, d.name, nil); err != nil {
		now, _ := d.t.Lookup() // for the error alone
		return &driver.NotDurableError{Path: fullPath(d.t.root, d.name), End: now.size, Err: cause(err)}
	}
	return nil
}

// Discard removes the file unless it was installed. It may be called several times.
func (d *Draft) Discard() {
	if !d.done {
		d.done = true
		d.t.discard()
	}
}
