package filedriver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// Events for followers: a transcript grows, gets or loses its name; a folder
// with more folders to watch is made.
const (
	inFiles   = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR
	inFolders = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
)

// notes are the system's reports about the folders of a driver, through one
// inotify descriptor. Folders are watched and not files, so that a copy that
// takes the name of a transcript needs no care. The lock of the watches guards
// the fields.
type notes struct {
	ws   *watches
	file *os.File
	fd   int              // of file
	by   map[int32]string // by watch descriptor: the agent's folder, empty if not a folder of transcripts
}

// changeTime returns the time of the last change of a folder. No program can set it.
func changeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return info.ModTime().UnixNano()
}

// openNotes starts the goroutine that reads the reports.
func openNotes(ws *watches) (*notes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("filedriver: watch: %w", os.NewSyscallError("inotify_init1", err))
	}
	n := &notes{ws: ws, fd: fd, file: os.NewFile(uintptr(fd), "inotify"), by: map[int32]string{}}
	ws.running.Add(1)
	go n.run()
	return n, nil
}

// close makes the goroutine end.
func (n *notes) close() { _ = n.file.Close() } // nothing was written

// run passes events to the watches until the descriptor is closed.
func (n *notes) run() {
	defer n.ws.running.Done()
	buf := make([]byte, 64<<10)
	for {
		size, err := n.file.Read(buf)
		n.ws.mu.Lock()
		if n.ws.notes != n {
			n.ws.mu.Unlock()
			return
		}
		if err != nil {
			n.ws.fail(fmt.Errorf("filedriver: watch: %w", err), func(*watch) bool { return true })
			n.ws.end()
			n.ws.mu.Unlock()
			return
		}
		n.take(buf[:size])
		n.ws.mu.Unlock()
	}
}

// take reads the reports in buf.
func (n *notes) take(buf []byte) {
	more := false
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask := binary.NativeEndian.Uint32(buf[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		name := string(bytes.TrimRight(buf[unix.SizeofInotifyEvent:end], "\x00"))
		buf = buf[end:]
		folder, known := n.by[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			n.ws.tellAll()
			more = true
		case mask&unix.IN_IGNORED != 0: // the folder was removed
			delete(n.by, wd)
			n.ws.tellAll()
		case known && folder != "":
			n.ws.tell(folder, name)
		case known:
			more = true
		}
	}
	if more {
		n.coverAll()
	}
}

// cover has the system watch the folders of a watch.
func (n *notes) cover(w *watch) error {
	if w.folder != "" {
		return n.watch(sessionsOf(w.folder), w.folder)
	}
	if err := n.watch(agentsName, ""); err != nil {
		return err
	}
	_, err := n.watchAgents()
	return err
}

const agentsName = "agents"

func sessionsOf(folder string) string { return path.Join(agentsName, folder, "sessions") }

// coverAll watches new folders, for watches of all sessions, and reports
// possible changes in them.
func (n *notes) coverAll() {
	added, err := n.watchAgents()
	if err != nil {
		n.ws.fail(err, func(w *watch) bool { return w.folder == "" })
		n.ws.end()
	}
	if added {
		n.ws.tellAll()
	}
}

// watchAgents watches every agent's folder, in which the folder of its
// transcripts may still be missing.
func (n *notes) watchAgents() (added bool, err error) {
	agents, err := n.ws.d.agentFolders()
	if err != nil {
		return false, err
	}
	had := len(n.by)
	for _, agent := range agents {
		folder := agent.Name()
		for _, dir := range [][2]string{{path.Join(agentsName, folder), ""}, {sessionsOf(folder), folder}} {
			err := n.watch(dir[0], dir[1])
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return false, err
			}
		}
	}
	return len(n.by) > had, nil
}

// watch has the system watch one folder, which holds the transcripts of an
// agent's folder unless that is empty. Like every folder it is opened below the
// store's; the system gets the open file.
func (n *notes) watch(name, folder string) error {
	mask := uint32(inFiles)
	if folder == "" {
		mask = inFolders
	}
	f, err := n.ws.d.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only looked at
	wd, err := unix.InotifyAddWatch(n.fd, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mask)
	if err != nil {
		return fmt.Errorf("filedriver: watch %s: %w", name, os.NewSyscallError("inotify_add_watch", err))
	}
	n.by[int32(wd)] = folder
	return nil
}
