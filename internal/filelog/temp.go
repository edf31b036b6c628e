package filelog

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	tempMark               = ".tmp-"
	tempRandom             = 8 // bytes, in hexadecimal
	tempMode   fs.FileMode = 0o600
)

// RemoveTemps removes the temporary files that dead writers have left for the
// file that name refers to within root: those with its name, ".tmp-" and 16
// hexadecimal digits. It spares files whose writer is at work: that one holds
// their append lock.
func RemoveTemps(root *os.Root, name string) error {
	return removeTempsOf(root, name, removeTemp)
}

// RemoveDrafts is [RemoveTemps], but also removes the files of writers at work: their
// [Draft.Install] then fails. It is for words that must not stay: even a writer
// killed later leaves no file.
func RemoveDrafts(root *os.Root, name string) error {
	return removeTempsOf(root, name, (*os.Root).Remove)
}

func removeTempsOf(root *os.Root, name string, remove func(root *os.Root, temp string) error) error {
	base := filepath.Base(name)
	_, err := removeTemps(root, name, filepath.Dir(name), func(of string) bool { return of == base }, remove)
	return err
}

// RemoveTempsIn is [RemoveTemps] for all names in a folder that end with ext, even
// if no such file exists. When the error is nil no power cut brings removed files
// back.
func RemoveTempsIn(root *os.Root, dir, ext string) error {
	found, err := removeTemps(root, dir, dir, func(of string) bool { return len(of) > len(ext) && strings.HasSuffix(of, ext) }, removeTemp)
	if err != nil || !found {
		return err
	}
	return SyncDir(root, dir)
}

// removeTemps calls remove with the temporary files in a folder that belong to
// names that fit, and reports whether it found any. Name is for the error.
func removeTemps(root *os.Root, name, dir string, fits func(of string) bool, remove func(root *os.Root, temp string) error) (found bool, err error) {
	var entries []string
	d, err := root.Open(dir)
	if err == nil {
		entries, err = d.Readdirnames(-1)
		err = cmp.Or(err, d.Close())
	}
	for _, n := range entries {
		at := strings.LastIndex(n, tempMark)
		if at < 0 || !fits(n[:at]) {
			continue
		}
		if digits := n[at+len(tempMark):]; len(digits) == 2*tempRandom && strings.Trim(digits, "0123456789abcdef") == "" {
			found = true
			// Its writer may have just removed or renamed it.
			if e := remove(root, filepath.Join(dir, n)); !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, ErrReplaced) {
				err = cmp.Or(err, e)
			}
		}
	}
	if err != nil {
		err = &Error{
			Op: "remove temporary files of", Path: fullPath(root, name), Err: cause(err),
			Fix: "no log was changed, try again once the cause is gone or remove them by hand",
		}
	}
	return found, err
}

// removeTemp removes a temporary file whose lock is free.
func removeTemp(root *os.Root, temp string) error {
	f, _, err := openRegular(root, temp, os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	free, err := tryLock(f, appendLock, false)
	if free {
		err = root.Remove(temp)
	}
	return err
}

// SyncDir puts the names in a folder, not the files, on stable storage. Dir "."
// is root itself. Windows lacks such a call: SyncDir does nothing there.
func SyncDir(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := root.Open(dir)
	if err == nil {
		err = cmp.Or(d.Sync(), d.Close())
	}
	if err != nil {
		return &Error{
			Op: "sync folder", Path: fullPath(root, dir), Err: cause(err),
			Fix: "a power cut may undo the last renames and removals in it, try again once the cause is gone",
		}
	}
	return nil
}

// syncFolder puts the name of a file on stable storage.
func syncFolder(root *os.Root, name string, s *seam) error {
	if err := s.before("sync folder"); err != nil {
		return err
	}
	return SyncDir(root, filepath.Dir(name))
}

// MakeFolders makes a folder and its missing parents, and puts their names on stable
// storage.
func MakeFolders(root *os.Root, dir string) error {
	if err := NoLinks(root, dir); err != nil {
		return err
	}
	if info, err := root.Lstat(dir); dir == "." || err == nil && info.IsDir() {
		return nil
	}
	parent := path.Dir(dir)
	if err := MakeFolders(root, parent); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil // by another process
	} else if err != nil {
		return err
	}
	return SyncDir(root, parent)
}

// A tempFile is a temporary file whose append lock this process holds.
type tempFile struct {
	*opened
	root *os.Root
	temp string // its name
}

// openTemp creates a temporary file for name, empty. Until it is renamed, Lookup
// fails on it.
func openTemp(root *os.Root, name string, opts *Options) (*tempFile, error) {
	if err := NoLinks(root, filepath.Dir(name)); err != nil {
		return nil, err
	}
	for {
		var random [tempRandom]byte
		rand.Read(random[:])
		temp := name + tempMark + hex.EncodeToString(random[:])
		f, err := root.OpenFile(temp, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, tempMode)
		if err != nil {
			return nil, err
		}
		o, err := newOpened(root, name, f, opts)
		if err != nil {
			_ = root.Remove(temp)
			return nil, err
		}
		t := &tempFile{o, root, temp}
		locked, err := t.Lock(false)
		if locked {
			if t.named() { // RemoveTemps may have removed it before it was locked
				return t, nil
			}
		}
		t.discard()
		if err != nil {
			return nil, err
		}
	}
}

// named reports whether the temporary name still belongs to the file.
func (t *tempFile) named() bool {
	info, err := t.root.Lstat(t.temp)
	return err == nil && os.SameFile(info, t.id)
}

// discard removes the file, which its name lets others ignore, and closes it.
func (t *tempFile) discard() {
	_ = t.root.Remove(t.temp)
	_ = t.Close()
}

// install makes a file, has fill write to it, syncs it if sync is set, and has
// move give it its name. The returned file is locked; its name may not survive a
// power cut before [syncFolder]. After an error there is no file.
func install(root *os.Root, name string, opts *Options, fill func(*tempFile) error, sync bool, move func(root *os.Root, from, to string) error) (*tempFile, error) {
	t, err := openTemp(root, name, opts)
	if err != nil {
		return nil, err
	}
	err = fill(t)
	if err == nil && sync {
		err = t.Sync()
	}
	if err == nil {
		err = opts.seam.before("move")
	}
	if err == nil {
		err = move(root, t.temp, name)
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}
