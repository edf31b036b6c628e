package filedriver

import (
	"strings"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// end closes the notes without watches. The caller holds ws.mu.
func (ws *watches) end() {
	if ws.notes != nil && len(ws.all) == 0 {
		ws.notes.close()
		ws.notes = nil
	}
}

// fail ends the watches for which hit reports true.
func (ws *watches) fail(err error, hit func(*watch) bool) {
	for w := range ws.all {
		if hit(w) {
			delete(ws.all, w)
			w.changed(driver.Ref{}, err)
		}
	}
}

// tell calls the watches of a file in an agent's folder. The caller holds
// ws.mu.
func (ws *watches) tell(folder, file string) {
	enc, ok := strings.CutSuffix(file, extension)
	if !ok {
		return
	}
	var ref driver.Ref // the meaning of a hashed name is unknown
	if agent, ok := filename.Decode(folder); ok {
		if id, ok := filename.Decode(enc); ok {
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

// tellAll calls all watches: anything may have changed. The caller holds ws.mu.
func (ws *watches) tellAll() {
	for w := range ws.all {
		w.changed(driver.Ref{}, nil)
	}
}
