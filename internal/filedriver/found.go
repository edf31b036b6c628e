package filedriver

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/convolog/convolog/session/driver"
)

// found is a transcript in the folder of an agent.
type found struct {
	file string
	id   string // a hashed file name if the header cannot be read
	size int64
	// For an archive, file is its name in the agent's folder, and size is not
	// known.
	archived bool
}

// stat finds the transcript of a session, or else its archive.
func (a *agent) stat(id string) (f found, err error) {
	f = found{file: fileName(id), id: id}
	for range 2 { // the archive may have just been restored
		info, err := a.sess.Lstat(f.file)
		if err == nil {
			f.size = info.Size()
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, a.d.wrap("find session "+id, a.path(f), err, "check that this user may read it")
		}
		has, err := a.hasArchive(id)
		if err != nil {
			return f, err
		}
		if has {
			return found{file: archiveName(id), id: id, archived: true}, nil
		}
	}
	return f, a.d.wrap("find session "+id, a.path(f), fs.ErrNotExist, "list the sessions to see which there are")
}

// stat is agent.stat, but a session being deleted counts as missing even if
// files of it exist.
func (x *index) stat(id string) (found, error) {
	if x.deletes[id] {
		return found{}, x.a.d.notFound(driver.Ref{Agent: x.a.name, ID: id})
	}
	return x.a.stat(id)
}

// live is stat for a session that must not be archived.
func (a *agent) live(id string) (found, error) { return a.unarchived(a.stat(id)) }

func (a *agent) unarchived(f found, err error) (found, error) {
	if err == nil && f.archived {
		err = a.archivedError(f.id)
	}
	return f, err
}

// hasArchive reports whether an archive of a session exists. It does not count
// next to a transcript.
func (a *agent) hasArchive(id string) (bool, error) {
	info, err := a.root.Lstat(archiveName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, a.d.wrap("find session "+id, filepath.Join(a.dir, archiveName(id)), err, "check that this user may read it")
	}
	return info.Mode().IsRegular(), nil
}

func (a *agent) archivedError(id string) error {
	return a.d.wrap("write session "+id, filepath.Join(a.dir, archiveName(id)), driver.ErrArchived, "nothing was written; restore it first")
}

// path is the name that errors show.
func (a *agent) path(f found) string {
	if f.archived {
		return filepath.Join(a.dir, f.file)
	}
	return filepath.Join(a.dir, "sessions", f.file)
}

func (a *agent) spoilt(op string, f found, err error, fix string) error {
	return a.d.rewrap(op, a.path(f), err, "nothing was written; "+fix)
}
