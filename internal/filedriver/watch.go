package filedriver

import (
	"strings"
	"sync"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Watcher = (*Driver)(nil)

// Watch implements [driver.Watcher] on Linux, by inotify. One descriptor and one
// goroutine serve all watches of a driver, and end with the last one. Where the
// system refuses or lacks them, the error names the reason.
func (d *Driver) Watch(ref driver.Ref, changed func(driver.Ref, error)) (stop func(), err error) {
	folder := ""
	if ref != (driver.Ref{}) {
		if err := driver.CheckRef(ref); err != nil {
			return nil, err
		}
		folder = EncodeName(ref.Agent)
	}
	return d.watches.add(&watch{ref: ref, folder: folder, file: fileName(ref.ID), changed: changed})
}

// A watch is one call of Watch.
type watch struct {
	ref          driver.Ref // zero for all sessions
	folder, file string     // of the agent and of the transcript; folder is empty for all sessions
	changed      func(driver.Ref, error)
}

// watches are the watches of a driver. It calls their functions with mu held,
// so that none is called after its watch has ended.
type watches struct {
	d       *Driver
	running sync.WaitGroup // the goroutines of notes

	mu    sync.Mutex // guards the fields below
	all   map[*watch]bool
	notes *notes // reports of the system; nil without watches
}

func (ws *watches) add(w *watch) (stop func(), err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.d.closing.Err() != nil {
		return nil, driver.ErrClosed
	}
	if ws.notes == nil {
		if ws.notes, err = openNotes(ws); err != nil {
			return nil, err
		}
	}
	ws.all[w] = true
	if err := ws.notes.cover(w); err != nil {
		delete(ws.all, w)
		ws.end()
		return nil, err
	}
	return func() { ws.remove(w) }, nil
}

func (ws *watches) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
	ws.end()
}

// end closes the notes without watches. The caller holds ws.mu.
func (ws *watches) end() {
	if ws.notes != nil && len(ws.all) == 0 {
		ws.notes.close()
		ws.notes = nil
	}
}

// fail ends watches of which hit reports true.
func (ws *watches) fail(err error, hit func(*watch) bool) {
	for w := range ws.all {
		if hit(w) {
			delete(ws.all, w)
			w.changed(driver.Ref{}, err)
		}
	}
}

// close ends all watches of a driver that is closing and waits for the goroutine.
func (ws *watches) close() {
	ws.mu.Lock()
	ws.fail(driver.ErrClosed, func(*watch) bool { return true })
	ws.end()
	ws.mu.Unlock()
	ws.running.Wait()
}

// tell tells those that watch a file of an agent's folder. The caller holds
// ws.mu.
func (ws *watches) tell(folder, file string) {
	enc, ok := strings.CutSuffix(file, extension)
	if !ok {
		return
	}
	var ref driver.Ref // the meaning of a hashed name is unknown
	if agent, ok := DecodeName(folder); ok {
		if id, ok := DecodeName(enc); ok {
			ref = driver.Ref{Agent: agent, ID: id}
		}
	}
	for w := range ws.all {
		switch {
		case w.folder == "":
			w.changed(ref, nil)
		case w.folder == folder && w.file == file:
			w.changed(w.ref, nil)
		}
	}
}

// tellAll tells everyone that anything may have changed. The caller holds ws.mu.
func (ws *watches) tellAll() {
	for w := range ws.all {
		w.changed(driver.Ref{}, nil)
	}
}
