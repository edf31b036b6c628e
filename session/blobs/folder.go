// Package blobs keeps the bytes of images, documents and the like beside the
// transcripts of a store: see Options.Blobs of package session.
//
//	store, err := session.Open(dir, &session.Options{Blobs: blobs.New(dir)})
//
// A [Folder] keeps them in files, a [Memory] for tests.
package blobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// A Folder keeps blobs in files: agents/<agent>/blobs/<session>/<hash> below a
// folder, each with the mode 0600. It is safe for several goroutines and processes.
// It keeps no file open and need not be closed.
type Folder struct{ dir string }

// New returns the Folder below dir, which must be the folder of the store, so that a
// deletion that a kill interrupts is finished for the blobs of the session too. New
// does not touch the disk.
func New(dir string) *Folder { return &Folder{dir} }

// Put keeps data under its hash. A nil error means that it is on stable storage.
func (f *Folder) Put(ctx context.Context, ref driver.Ref, hash string, data []byte) error {
	return f.with(ctx, ref, "keep", hash, func(root *os.Root, folder string) error {
		if err := makeFolders(root, folder); err != nil {
			return err
		}
		if err := removeTemps(root, folder); err != nil {
			return err
		}
		name := path.Join(folder, hash)
		info, err := root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
			return filelog.SyncDir(root, folder) // a kill may have come before that
		}
		return filelog.WriteFileAtomic(root, name, data, true)
	})
}

// Get returns the data with that hash. If it is not there the error matches
// [fs.ErrNotExist].
func (f *Folder) Get(ctx context.Context, ref driver.Ref, hash string) (data []byte, err error) {
	err = f.with(ctx, ref, "read", hash, func(root *os.Root, folder string) error {
		info, err := root.Lstat(path.Join(folder, hash))
		if err == nil && !info.Mode().IsRegular() { // a FIFO would make open wait
			err = fs.ErrInvalid
		}
		if err == nil {
			data, err = root.ReadFile(path.Join(folder, hash))
		}
		return err
	})
	return data, err
}

// List returns the hashes of the blobs of a session, in no order; none if it has
// none.
func (f *Folder) List(ctx context.Context, ref driver.Ref) (hashes []string, err error) {
	err = f.with(ctx, ref, "list", "", func(root *os.Root, folder string) error {
		names, err := namesIn(root, folder)
		for _, name := range names {
			if isHash(name) {
				hashes = append(hashes, name)
			}
		}
		return err
	})
	return hashes, err
}

// Delete removes blobs of a session; without hashes it removes none. A blob that is
// not there is no error. A nil error means that it is gone for good.
func (f *Folder) Delete(ctx context.Context, ref driver.Ref, hashes ...string) error {
	if len(hashes) == 0 {
		return nil
	}
	return f.with(ctx, ref, "delete", hashes[0], func(root *os.Root, folder string) error {
		for _, hash := range hashes {
			if err := checkHash(hash); err != nil {
				return err
			}
			if err := root.Remove(path.Join(folder, hash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := removeTemps(root, folder); err != nil {
			return err
		}
		err := filelog.SyncDir(root, folder)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		_ = root.Remove(folder) // if it is empty
		return err
	})
}

// with calls do with the folder of the store, and the name of that of a session in
// it. The error names the session.
func (f *Folder) with(ctx context.Context, ref driver.Ref, op, hash string, do func(root *os.Root, folder string) error) error {
	err := cmp.Or(ctx.Err(), driver.CheckRef(ref), checkHash(hash))
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(f.dir); err == nil {
			err = do(root, path.Join("agents", filename.Encode(ref.Agent), "blobs", filename.Encode(ref.ID)))
			_ = root.Close() // it was only looked up in
		}
	}
	if err != nil {
		return fmt.Errorf("blobs: %s %.12s of %s/%s: %w", op, hash, ref.Agent, ref.ID, err)
	}
	return nil
}

// makeFolders makes a folder, and puts the names of new ones on stable storage.
func makeFolders(root *os.Root, folder string) error {
	if info, err := root.Lstat(folder); err == nil && info.IsDir() {
		return nil
	}
	made := ""
	for part := range strings.SplitSeq(folder, "/") {
		parent := cmp.Or(made, ".")
		made = path.Join(made, part)
		switch err := root.Mkdir(made, 0o700); {
		case err == nil:
			if err := filelog.SyncDir(root, parent); err != nil {
				return err
			}
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	return nil
}

// removeTemps removes what killed processes have left of files that they wrote.
func removeTemps(root *os.Root, folder string) error {
	names, err := namesIn(root, folder)
	for _, name := range names {
		if hash, _, ok := strings.Cut(name, ".tmp-"); ok {
			err = cmp.Or(err, filelog.RemoveTemps(root, path.Join(folder, hash)))
		}
	}
	return err
}

func namesIn(root *os.Root, folder string) (names []string, err error) {
	d, err := root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		names, err = d.Readdirnames(-1)
		err = cmp.Or(err, d.Close())
	}
	return names, err
}

// checkHash refuses what is no hash, and could name another file. An empty one is
// none at all.
func checkHash(hash string) error {
	if hash != "" && !isHash(hash) {
		return fmt.Errorf("%q is no SHA-256 in hexadecimal digits", hash)
	}
	return nil
}

func isHash(name string) bool { return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" }
