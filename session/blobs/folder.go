package blobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
)

// Folder returns the Store that keeps blobs in files of the mode 0600, below dir:
// agents/<agent>/blobs/<session>/<hash>. Dir must be the folder that the sessions are
// in, so that their deletion takes the blobs along, even if a kill interrupts it. Folder
// does not touch the disk, and the Store need not be closed. Several processes may use
// one folder. Folders that are symbolic links are refused.
//
// A Put makes the folder of a session that has a transcript or an archive, and fails if
// the session is gone. The first Put and the first Delete for an agent remove the
// folders of sessions that killed processes did not finish making.
func Folder(dir string) Store { return &folder{dir: dir} }

type folder struct {
	dir string

	mu   sync.Mutex // guards tidy
	tidy map[string]bool
}

func (f *folder) Put(ctx context.Context, ref session.Ref, hash string, data []byte) error {
	return f.with(ctx, ref, "keep", hash, func(root *os.Root, p place) error {
		f.clean(root, p.agent)
		for {
			if _, err := root.Lstat(p.folder); errors.Is(err, fs.ErrNotExist) {
				if !p.there(root) {
					return errNoSession
				}
				if err := filelog.MakeFolders(root, p.folder); err != nil {
					return err
				}
			}
			err := p.write(root, hash, data)
			if err == nil && !p.there(root) && !making(root, p.folder) && !p.there(root) {
				// A deletion removes the transcript before the folder.
				return cmp.Or(root.RemoveAll(p.folder), errNoSession)
			}
			if !errors.Is(err, fs.ErrNotExist) { // else the folder was removed
				return err
			}
		}
	})
}

var errNoSession = fmt.Errorf("there is no such session: %w", fs.ErrNotExist)

// write stores data in the folder of a session, unless it is already there.
func (p place) write(root *os.Root, hash string, data []byte) error {
	if err := filelog.RemoveTempsIn(root, p.folder, ""); err != nil {
		return err
	}
	name := path.Join(p.folder, hash)
	if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(data)) {
		return filelog.SyncDir(root, p.folder) // a kill may have come before that
	}
	return filelog.WriteFileAtomic(root, name, data, 0o600, true)
}

// Make implements [Maker]. A locked file accompanies the folder of the session until
// ctx ends: the lock of a killed process is free.
func (f *folder) Make(ctx context.Context, ref session.Ref) error {
	return f.with(ctx, ref, "make folder", "", func(root *os.Root, p place) error {
		if err := filelog.MakeFolders(root, path.Dir(p.folder)); err != nil {
			return err
		}
		own, err := os.OpenRoot(f.dir)
		if err != nil {
			return err
		}
		mark, err := filelog.NewDraft(own, p.folder)
		if err != nil {
			return errors.Join(err, own.Close())
		}
		context.AfterFunc(ctx, func() {
			mark.Discard()
			_ = own.Close() // it was only looked up in
		})
		return filelog.MakeFolders(root, p.folder)
	})
}

func (f *folder) Get(ctx context.Context, ref session.Ref, hash string) (data []byte, err error) {
	err = f.with(ctx, ref, "read", hash, func(root *os.Root, p place) error {
		info, err := root.Lstat(path.Join(p.folder, hash))
		if err == nil && !info.Mode().IsRegular() { // a FIFO would make open wait
			err = fs.ErrInvalid
		}
		if err == nil {
			data, err = root.ReadFile(path.Join(p.folder, hash))
		}
		return err
	})
	return data, err
}

func (f *folder) List(ctx context.Context, ref session.Ref) (hashes []string, err error) {
	err = f.with(ctx, ref, "list", "", func(root *os.Root, p place) error {
		names, err := namesIn(root, p.folder)
		for _, name := range names {
			if isHash(name) {
				hashes = append(hashes, name)
			}
		}
		return err
	})
	return hashes, err
}

func (f *folder) Delete(ctx context.Context, ref session.Ref, hashes ...string) error {
	if len(hashes) == 0 {
		return nil
	}
	return f.with(ctx, ref, "delete", hashes[0], func(root *os.Root, p place) error {
		f.clean(root, p.agent)
		for _, hash := range hashes {
			if err := checkHash(hash); err != nil {
				return err
			}
			if err := root.Remove(path.Join(p.folder, hash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		err := filelog.RemoveTempsIn(root, p.folder, "")
		if err == nil {
			err = filelog.SyncDir(root, p.folder)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		_ = root.Remove(p.folder) // if it is empty
		return err
	})
}

// with calls do with the folder of the store, and the place of a session in it. The
// error names the session.
func (f *folder) with(ctx context.Context, ref session.Ref, op, hash string, do func(root *os.Root, p place) error) error {
	err := cmp.Or(ctx.Err(), driver.CheckRef(ref), checkHash(hash))
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(f.dir); err == nil {
			p := placeOf(path.Join("agents", filename.Encode(ref.Agent)), filename.Encode(ref.ID))
			if err = filelog.NoLinks(root, p.folder); err == nil {
				err = do(root, p)
			}
			_ = root.Close() // it was only looked up in
		}
	}
	if err != nil {
		return fmt.Errorf("blobs: %s %.12s of %s/%s: %w", op, hash, ref.Agent, ref.ID, err)
	}
	return nil
}

// place is where a session is in the folder of a store.
type place struct {
	agent, folder, transcript, archive string
}

func placeOf(agent, name string) place {
	return place{agent, path.Join(agent, "blobs", name), path.Join(agent, "sessions", name+".jsonl"), path.Join(agent, "archive", name+".jsonl.gz")}
}

func (p place) there(root *os.Root) bool {
	for _, name := range []string{p.transcript, p.archive, p.transcript} { // one may become the other in between
		if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// clean removes the folders of sessions that killed processes were making, the first
// time that it is called for an agent. A folder that cannot be removed stays.
func (f *folder) clean(root *os.Root, agent string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tidy[agent] {
		return
	}
	if f.tidy == nil {
		f.tidy = map[string]bool{}
	}
	f.tidy[agent] = true
	names, _ := namesIn(root, path.Join(agent, "blobs"))
	for _, name := range names {
		session, _, marked := strings.Cut(name, tempMark)
		if !marked {
			continue
		}
		// In this order: a session that is made has its transcript before the lock ends.
		if p := placeOf(agent, session); !making(root, p.folder) && !p.there(root) {
			_ = root.RemoveAll(p.folder)
		}
	}
}

// making reports whether a living process is making a session, and removes the marks
// of others.
func making(root *os.Root, folder string) bool {
	if filelog.RemoveTemps(root, folder) != nil {
		return true // unknown
	}
	names, err := namesIn(root, path.Dir(folder))
	return err != nil || slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, path.Base(folder)+tempMark) })
}

// tempMark is in the names of temporary files, and in no name of a session.
const tempMark = ".tmp-"

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

// checkHash refuses anything but a hash, because it could name another file. An
// empty hash is refused as well.
func checkHash(hash string) error {
	if hash != "" && !isHash(hash) {
		return fmt.Errorf("%q is not a SHA-256 in hexadecimal digits", hash)
	}
	return nil
}

func isHash(name string) bool { return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" }
