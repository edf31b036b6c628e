package filedriver

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Anyone who can write to the folder of a store can put another one in its place; who
// can read the folders below reads the conversations.
const (
	othersWrite fs.FileMode = 0o022
	others      fs.FileMode = 0o077
)

// shut takes permissions from the other users of a folder. If that cannot be
// done, because it is somebody else's, it is an error that others may write to
// it, and a warning that they may read it. Files need no such care: they are
// made with mode 0600, and nobody reaches one through a folder that is closed,
// whatever its own mode.
func (d *Driver) shut(root *os.Root, name string, info fs.FileInfo, bits fs.FileMode) error {
	mode := info.Mode()
	if d.opts.ReadOnly || runtime.GOOS == "windows" || mode&bits == 0 {
		return nil // on Windows a folder has the permissions of the one it is in
	}
	err := root.Chmod(name, mode&^bits)
	path := filepath.Join(root.Name(), name)
	if err == nil {
		return nil
	}
	if mode&othersWrite == 0 {
		d.log.Warn("other users may read the sessions: chmod 700 this folder", "folder", path, "err", err)
		return nil
	}
	return d.wrap("open store", path, err, "other users may write to this folder: chmod go-w it as its owner, or use a folder of your own")
}

// shutStore does the same for the folder of the store, in which others may be
// welcome to read. In one that has the sticky bit, as /tmp has, nobody can move
// what is another's.
func (d *Driver) shutStore() error {
	info, err := d.root.Stat(".")
	if err == nil && info.Mode()&fs.ModeSticky == 0 {
		return d.shut(d.root, ".", info, othersWrite)
	}
	return d.wrap("open store", d.dir, err, "check that this user may read it")
}
