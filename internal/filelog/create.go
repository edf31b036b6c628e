package filelog

import (
	"os"

	"github.com/convolog/convolog/session/driver"
)

// Create makes the log that name refers to within root, with the lines in
// first as its beginning, and opens it. It never overwrites: if the name is in
// use, the error matches [fs.ErrExist]. The file's mode is 0600; its folder
// must exist.
//
// The lines go to a temporary file in the same folder, which is synced and then
// renamed, and the folder is synced, unless the policy is [SyncNever]. So a
// kill at any moment leaves a whole log or none, and at most a temporary file, which
// [RemoveTemps] removes. After an error there is no log, and no line was added to one. If
// the sync of the folder has failed, a power cut may bring the log back.
func Create(root *os.Root, name string, first []byte, opts *Options) (*Log, error) {
	const op = "create"
	if opts == nil {
		opts = new(Options)
	}
	path := fullPath(root, name)
	if opts.ReadOnly {
		return nil, newError(op, path, driver.ErrReadOnly)
	}
	if len(first) == 0 || first[len(first)-1] != '\n' {
		return nil, newError(op, path, errNotLines)
	}
	write := func(t *tempFile) error {
		_, err := t.Write(first)
		return err
	}
	sync := opts.Sync != SyncNever
	t, err := install(root, name, opts, write, sync, publish)
	if err == nil && sync {
		if err = syncFolder(root, name, opts.seam); err != nil {
			_ = root.Remove(name) // its lock has kept others from appending
			_ = t.Close()
		}
	}
	if err != nil {
		return nil, newError(op, path, err)
	}
	l := newLog(root, name, t.opened, opts)
	l.appending <- struct{}{}
	l.unlock()
	return l, nil
}
