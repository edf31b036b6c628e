package memory

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/filelog"
)

// Folder returns a [Storage] of files below dir, which the first write creates.
// Files have the mode 0600, folders 0700. The Storage keeps nothing open and needs
// no Close. Symbolic links below dir are refused, and so are files of more than 256
// MiB. The folder must be on a local disk: locks of network file systems
// are not reliable.
func Folder(dir string) Storage { return folder(dir) }

type folder string

// maxFile is the most bytes of a readable file: more than a store ever writes.
const maxFile = 256 << 20

const tempMark = ".tmp-"

func (f folder) List(ctx context.Context, below string) (files []File, err error) {
	err = f.with(ctx, "list", below, false, func(root *os.Root) error {
		return fs.WalkDir(root.FS(), below, func(name string, d fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || !d.Type().IsRegular() || strings.Contains(d.Name(), tempMark) {
				return ignore(err, fs.ErrNotExist)
			}
			info, err := d.Info()
			if err == nil {
				files = append(files, File{name, fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano())})
			}
			return ignore(err, fs.ErrNotExist)
		})
	})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, ignore(err, fs.ErrNotExist)
}

func (f folder) Read(ctx context.Context, name string) (data []byte, err error) {
	err = f.with(ctx, "read", name, false, func(root *os.Root) error {
		file, info, err := filelog.OpenFile(root, name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // only read
		if info.Size() > maxFile {
			return fmt.Errorf("%d bytes, more than %d; move the file away", info.Size(), maxFile)
		}
		data, err = io.ReadAll(io.LimitReader(file, maxFile))
		return err
	})
	return data, err
}

func (f folder) Create(ctx context.Context, name string, data []byte) error {
	return f.put(ctx, "create", name, func(root *os.Root) error {
		if len(data) == 0 || data[len(data)-1] != '\n' {
			data = append(slices.Clip(data), '\n')
		}
		log, err := filelog.Create(root, name, data, nil)
		if err == nil {
			err = log.Close()
		}
		return err
	})
}

func (f folder) Write(ctx context.Context, name string, data []byte) error {
	return f.put(ctx, "write", name, func(root *os.Root) error {
		return filelog.WriteFileAtomic(root, name, data, 0o600, true)
	})
}

// put makes the folders of a file and then the file. Another process may remove
// an empty folder in between.
func (f folder) put(ctx context.Context, op, name string, do func(root *os.Root) error) error {
	return f.with(ctx, op, name, true, func(root *os.Root) error {
		const tries = 10
		var err error
		for range tries {
			if err = filelog.MakeFolders(root, path.Dir(name)); err == nil {
				err = do(root)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		return err
	})
}

func (f folder) Remove(ctx context.Context, name string) error {
	err := f.with(ctx, "remove", name, false, func(root *os.Root) error {
		err := root.RemoveAll(name)
		if err == nil {
			err = ignore(filelog.RemoveTemps(root, name), fs.ErrNotExist)
		}
		for dir := path.Dir(name); err == nil && dir != "."; dir = path.Dir(dir) {
			if err = ignore(filelog.SyncDir(root, dir), fs.ErrNotExist); err != nil || root.Remove(dir) != nil {
				return err // not empty
			}
		}
		if err == nil {
			err = filelog.SyncDir(root, ".")
		}
		return err
	})
	return ignore(err, fs.ErrNotExist) // the folder does not exist
}

// Lock locks a byte of a file named after the first element of the folder.
func (f folder) Lock(ctx context.Context, name string) (unlock func(), err error) {
	err = f.with(ctx, "lock", name, true, func(root *os.Root) error {
		first, rest, _ := strings.Cut(name, "/")
		held, err := os.OpenRoot(root.Name())
		if err != nil {
			return err
		}
		lock, err := filelog.OpenLockFile(held, first+".lock")
		if err != nil {
			_ = held.Close()
			return err
		}
		unlock = func() {
			_ = lock.Close() // this releases the lock
			_ = held.Close()
		}
		sum := sha256.Sum256([]byte(rest))
		err = lock.Lock(ctx, int64(binary.BigEndian.Uint64(sum[:])>>2))
		if errors.Is(err, errors.ErrUnsupported) {
			err = lock.Lock(ctx, 0) // one lock for all
		}
		if err == nil {
			err = removeTemps(root, name)
		}
		if err != nil {
			unlock()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return unlock, nil
}

// with calls do with the open folder. Unless mk is set, a missing folder is an
// error.
func (f folder) with(ctx context.Context, op, name string, mk bool, do func(root *os.Root) error) error {
	err := ctx.Err()
	if err == nil && !fs.ValidPath(name) {
		err = fs.ErrInvalid
	}
	if err == nil && mk {
		err = os.MkdirAll(string(f), 0o700)
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(string(f))
	}
	if err == nil {
		if err = filelog.NoLinks(root, name); err == nil {
			err = do(root)
		}
		_ = root.Close() // only for lookups
	}
	if err != nil {
		return fmt.Errorf("memory: %s %s in %s: %w", op, name, string(f), err)
	}
	return nil
}

// removeTemps removes leftovers of killed writers below a folder.
func removeTemps(root *os.Root, below string) error {
	err := fs.WalkDir(root.FS(), below, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignore(err, fs.ErrNotExist)
		}
		if base, _, ok := strings.Cut(d.Name(), tempMark); ok {
			return filelog.RemoveTemps(root, path.Join(path.Dir(name), base))
		}
		return nil
	})
	return ignore(err, fs.ErrNotExist)
}

// ignore returns err unless it is harmless.
func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}
