package filelog

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	tempPrefix = ".tmp-"
	tempRandom = 8 // bytes, in hexadecimal
)

// Create makes the log that name refers to within root, with the lines in
// first as its beginning, and opens it. It never overwrites: a name in use, by
// whatever, matches [fs.ErrExist]. The file's mode is 0600; its folder must
// exist.
//
// The lines are written to a temporary file in the same folder, synced, and
// only then given their name, and the folder is synced, unless the policy is
// [SyncNever]. So a kill at any moment leaves a whole log or none, and at most
// a temporary file, which [IsTemp] tells from others and which may be ignored
// or removed. A [*NotDurableError] says that the log has its name but that the
// folder could not be synced: it may be gone after a power cut. After any
// other error there is no log, unless opening it was what failed.
func Create(root *os.Root, name string, first []byte, opts *Options) (*Log, error) {
	const op = "create"
	if opts == nil {
		opts = new(Options)
	}
	fail := func(err error, fix string) error {
		return &Error{Op: op, Path: fullPath(root, name), Fix: fix, Err: cause(err)}
	}
	if opts.ReadOnly {
		return nil, fail(ErrReadOnly, "nothing was written")
	}
	if len(first) == 0 || first[len(first)-1] != '\n' {
		return nil, fail(errNotLines, "nothing was written")
	}
	if _, err := root.Lstat(name); err == nil { // publish checks it again
		return nil, fail(fs.ErrExist, fixExists)
	}
	p := placing{root: root, name: name, sync: opts.Sync != SyncNever, seam: opts.seam}
	if err := p.place(op, first, publish); err != nil {
		return nil, err
	}
	l, err := Open(root, name, opts)
	if err == nil && p.sync {
		l.sure = int64(len(first))
	}
	return l, err
}

// WriteFileAtomic gives the file that name refers to within root the content
// data, replacing what the name referred to: at every moment, and after a
// crash, the name refers to the old content or to the new, whole. If sync is
// set, the new content is on stable storage when the error is nil. The file's
// mode is 0600.
//
// A [*NotDurableError] says that the new content is in place but that the
// folder could not be synced. After any other error the old content is
// untouched.
func WriteFileAtomic(root *os.Root, name string, data []byte, sync bool) error {
	p := placing{root: root, name: name, sync: sync}
	return p.place("write", data, replace)
}

// IsTemp says whether name, with or without folders before it, has the form of
// the temporary files that [Create] and [WriteFileAtomic] make and that a kill
// may leave behind: ".tmp-" and 16 hexadecimal digits.
func IsTemp(name string) bool {
	digits, ok := strings.CutPrefix(filepath.Base(name), tempPrefix)
	return ok && len(digits) == 2*tempRandom && strings.Trim(digits, "0123456789abcdef") == ""
}

// SyncDir puts the names in a folder, not what they refer to, on stable
// storage. Dir "." is root itself. Where the system cannot do that it does
// nothing.
func SyncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err == nil {
		err = cmp.Or(syncDir(d), d.Close())
	}
	if err != nil {
		return &Error{Op: "sync folder", Path: fullPath(root, dir), Err: cause(err)}
	}
	return nil
}

// A placing puts a new file under a name in one step.
type placing struct {
	root *os.Root
	name string
	sync bool
	seam *seam
}

// place writes data to a temporary file and has move give it its name.
func (p *placing) place(op string, data []byte, move func(root *os.Root, from, to string) error) error {
	path, dir := fullPath(p.root, p.name), filepath.Dir(p.name)
	temp, err := p.writeTemp(data)
	if err == nil {
		err = p.seam.before("move")
		if err == nil {
			err = move(p.root, temp, p.name)
		}
	}
	if err != nil {
		if temp != "" {
			_ = p.root.Remove(temp) // what stays has a name to be ignored
		}
		fix := fixNothingWritten
		if errors.Is(err, fs.ErrExist) {
			fix = fixExists
		}
		return &Error{Op: op, Path: path, Fix: fix, Err: cause(err)}
	}
	if !p.sync {
		return nil
	}
	if err = p.seam.before("sync folder"); err == nil {
		err = SyncDir(p.root, dir)
	}
	if err != nil {
		return &NotDurableError{Path: path, End: int64(len(data)), Err: cause(err)}
	}
	return nil
}

// writeTemp writes data to a temporary file next to the name and returns what
// it is called, also if it fails after creating it.
func (p *placing) writeTemp(data []byte) (temp string, err error) {
	f, temp, err := p.openTemp()
	if err != nil {
		return "", err
	}
	disk, err := newDiskFile(p.root, temp, f, nil)
	if err != nil {
		return temp, err
	}
	w := p.seam.file(disk)
	n, err := w.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil && p.sync {
		err = w.Sync()
	}
	return temp, cmp.Or(err, w.Close())
}

func (p *placing) openTemp() (*os.File, string, error) {
	for {
		var random [tempRandom]byte
		rand.Read(random[:])
		temp := filepath.Join(filepath.Dir(p.name), tempPrefix+hex.EncodeToString(random[:]))
		f, err := p.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, temp, err
		}
	}
}

// replace gives a file another name, over what had that name.
func replace(root *os.Root, from, to string) error { return root.Rename(from, to) }

// link gives a file another name, unless that name is in use.
func link(root *os.Root, from, to string) error {
	if err := root.Link(from, to); err != nil {
		return err
	}
	_ = root.Remove(from) // a second name for the log; to be ignored
	return nil
}
