package filelog

import (
	"os"

	"github.com/convolog/convolog/session/driver"
)

// A Draft is a file that has a temporary name until [Draft.Install] gives it its
// own. It is for content that need not fit into memory, that is read back before it
// counts, or that takes too long to write under the caller's locks. A kill leaves
// at most a temporary file, for [RemoveTemps]. A Draft is for one goroutine.
type Draft struct {
	t    *tempFile
	name string
	path string // for errors
	size int64  // at the last sync
	done bool   // installed or discarded
}

// NewDraft makes an empty file that is to have the name that name refers to within
// root. Its mode is 0600. The caller must end it with Install or Discard.
func NewDraft(root *os.Root, name string) (*Draft, error) {
	d := &Draft{name: name, path: fullPath(root, name)}
	var err error
	if d.t, err = openTemp(root, name, new(Options)); err != nil {
		return nil, d.fail(err)
	}
	return d, nil
}

func (d *Draft) fail(err error) error { return newError("write", d.path, err) }

// Write implements [io.Writer].
func (d *Draft) Write(p []byte) (int, error) {
	n, err := d.t.Write(p)
	if err != nil {
		err = d.fail(err)
	}
	return n, err
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
	d.size = info.Size()
	return d.size, nil
}

// Named reports whether the file still has its temporary name; [RemoveDrafts] may
// have taken it.
func (d *Draft) Named() bool { return d.t.named() }

// Install gives the file its name, replacing an earlier file. When the error is nil, no
// power cut takes the name back. A [*driver.NotDurableError] means that the file got
// its name but that the folder could not be synced. After any other error the name is
// unchanged. An error that matches [fs.ErrNotExist] may mean that [RemoveDrafts] was
// faster. The Draft has ended in any case.
func (d *Draft) Install() error {
	if err := d.t.root.Rename(d.t.temp, d.name); err != nil {
		d.Discard()
		return d.fail(err)
	}
	d.done = true
	defer d.t.end()
	if err := syncFolder(d.t.root, d.name, nil); err != nil {
		return &driver.NotDurableError{Path: d.path, End: d.size, Err: cause(err)}
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
