package filedriver

import (
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

var _ driver.Watcher = (*Driver)(nil)

// Watch implements [driver.Watcher] on Linux, by inotify. One descriptor and one
// goroutine serve all watches of a driver, and end with the last watch. If the
// system refuses or lacks watches, the error names the reason.
func (d *Driver) Watch(ref driver.Ref, changed func(driver.Ref, error)) (stop func(), err error) {
	folder := ""
	if ref != (driver.Ref{}) {
		if err := driver.CheckRef(ref); err != nil {
			return nil, err
		}
		folder = filename.Encode(ref.Agent)
	}
	return d.watches.add(&watch{ref: ref, folder: folder, file: fileName(ref.ID), changed: changed})
}

func (ws *watches) add(w *watch) (stop func(), err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.d.closing.Err() != nil {
		return nil, driver.ErrClosed
	}
	if ws.notes == nil {
		notes, err := openNotes(ws)
		if err != nil {
			return nil, err
		}
		ws.notes = notes
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

// close ends all watches of a driver that is closing and waits for the goroutine.
func (ws *watches) close() {
	ws.mu.Lock()
	ws.fail(driver.ErrClosed, func(*watch) bool { return true })
	ws.end()
	ws.mu.Unlock()
	ws.running.Wait()
}
