package filedriver

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

func (d *Driver) agentFolders() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(d.root.FS(), "agents")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.wrap("list agents", filepath.Join(d.dir, "agents"), err, "check that it is a folder that this user may read")
	}
	return entries, nil
}

// hasSessions reports whether there is a transcript or an archive in an agent's
// folder.
func (d *Driver) hasSessions(agent fs.DirEntry) (bool, error) {
	_, ours := filename.Decode(agent.Name())
	if !ours && !filename.IsHashed(agent.Name()) || !agent.IsDir() && agent.Type()&fs.ModeSymlink == 0 {
		return false, nil // it belongs to another process
	}
	for _, k := range kinds {
		if has, err := d.hasFiles("agents/"+agent.Name()+"/"+k.folder, k.ext); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

func (d *Driver) hasFiles(folder, ext string) (bool, error) {
	for _, err := range names(d.root, folder, ext) {
		return err == nil, d.wrap("list sessions", filepath.Join(d.dir, folder), err, "check that it is a folder that this user may read, or move it away")
	}
	return false, nil
}

// folder checks that name, below the store's folder, is a folder and not a link, and
// closes it to other users. If create is set it makes it first; see
// [agent.syncFolders].
func (d *Driver) folder(name string, create bool) error {
	path := filepath.Join(d.dir, name)
	if create {
		err := d.root.Mkdir(name, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return d.wrap("make folder", path, err, "make its parent writable for this user, or open the store with ReadOnly")
		}
	}
	info, err := d.root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a folder")
	}
	if err != nil {
		return d.wrap("open folder", path, err, "check that it is a folder that this user may use, or move it away")
	}
	return d.shut(name, info, others)
}

// transcriptFolder is folder for an agent's transcripts. If all sessions are archived
// it is empty, and programs that copy only files omit it. Then it is made again next to
// the archives, so that they are found.
func (d *Driver) transcriptFolder(agent string) error {
	name := agent + "/sessions"
	err := d.folder(name, false)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	archives, otherErr := d.hasFiles(agent+"/"+kinds[1].folder, kinds[1].ext)
	switch {
	case otherErr != nil:
		return otherErr
	case !archives:
		return err
	case d.opts.ReadOnly:
		return d.wrap("open folder", filepath.Join(d.dir, name), errors.New("it is missing, although there are archives"), "make an empty folder of this name, or open the store without ReadOnly")
	}
	return d.folder(name, true)
}

// syncFolders puts the names of an agent's folders on stable storage, before any
// content in them is promised. Each process syncs them once, even if another made
// them: that process may have been killed before its syncs.
func (a *agent) syncFolders() error {
	if a.synced {
		return nil
	}
	for _, dir := range []string{".", "agents", "agents/" + filepath.Base(a.dir)} {
		if err := filelog.SyncDir(a.d.root, dir); err != nil {
			return err
		}
	}
	a.synced = true
	return nil
}

// Anyone who can write to the folder of a store can put another one in its
// place; anyone who can read the folders below reads the conversations.
const (
	othersWrite fs.FileMode = 0o022
	others      fs.FileMode = 0o077
)

// shut takes permissions on a folder from other users. If that fails because
// another user owns it, shut returns an error if others may write to it, and
// warns if they may read it. Files need no such care: they are made with mode
// 0600, and a closed folder protects its files in any mode.
func (d *Driver) shut(name string, info fs.FileInfo, bits fs.FileMode) error {
	mode := info.Mode()
	if d.opts.ReadOnly || runtime.GOOS == "windows" || mode&bits == 0 {
		return nil // on Windows a folder inherits the permissions of its parent
	}
	err := d.root.Chmod(name, mode&^bits)
	path := filepath.Join(d.dir, name)
	if err != nil && mode&othersWrite == 0 {
		d.log.Warn("other users may read the sessions: chmod 700 this folder", "folder", path, "err", err)
		return nil
	}
	return d.wrap("open store", path, err, "other users may write to this folder: chmod go-w it as its owner, or use a folder of your own")
}

// shutStore does so for the folder of the store, which others may be allowed to
// read. With the sticky bit, as on /tmp, no user can move another's files.
func (d *Driver) shutStore() error {
	info, err := d.root.Stat(".")
	if err == nil && info.Mode()&fs.ModeSticky == 0 {
		return d.shut(".", info, othersWrite)
	}
	return d.wrap("open store", d.dir, err, "check that this user may read it")
}

// refuseForeign fails if the folder is another program's: if it holds an index
// of sessions where this package writes none. A store there would show its
// sessions without names and mix new ones with them.
func (d *Driver) refuseForeign() error {
	agents, err := d.agentFolders()
	if err != nil {
		return err
	}
	places := []string{"sessions.json", "sessions/sessions.json"}
	for _, a := range agents {
		places = append(places, "agents/"+a.Name()+"/sessions.json", "agents/"+a.Name()+"/sessions/sessions.json")
	}
	for _, name := range places {
		if info, err := d.root.Lstat(name); err == nil && info.Mode().IsRegular() {
			return d.wrap("open store", filepath.Join(d.dir, name), driver.ErrForeign,
				"nothing was changed; open a folder of your own and import the sessions into it, see package session/exchange")
		}
	}
	return nil
}

// sweep removes unfinished transcripts and archives of killed processes in the folder
// of an agent. It needs no line of the index about them.
func (d *Driver) sweep(folder string) error {
	var errs []error
	for _, k := range kinds {
		name := "agents/" + folder + "/" + k.folder
		info, err := d.root.Lstat(name)
		if err == nil && info.IsDir() {
			err = filelog.RemoveTempsIn(d.root, name, k.ext)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, d.wrap("remove temporary files", filepath.Join(d.dir, name), err, "remove them by hand"))
		}
	}
	return errors.Join(errs...)
}

// sweepAll is sweep for all agents.
func (d *Driver) sweepAll() error {
	folders, err := d.agentFolders()
	for _, folder := range folders {
		if folder.IsDir() {
			err = cmp.Or(err, d.sweep(folder.Name()))
		}
	}
	return err
}
