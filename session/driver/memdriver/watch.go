package memdriver

import (
	"sync"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Watcher = (*memory)(nil)

// A watch is one call of Watch.
type watch struct {
	d       *memory
	ref     driver.Ref // zero for all sessions
	changed func(driver.Ref, error)
}

// Watch implements [driver.Watcher]. It calls changed in the call that changes a
// session.
func (d *memory) Watch(ref driver.Ref, changed func(driver.Ref, error)) (stop func(), err error) {
	d.storage.mu.Lock()
	defer d.storage.mu.Unlock()
	if d.closed() {
		return nil, fail("Watch", ref, driver.ErrClosed)
	}
	if ref != (driver.Ref{}) {
		if err := driver.CheckRef(ref); err != nil {
			return nil, fail("Watch", ref, err)
		}
	}
	w := &watch{d, ref, changed}
	d.storage.watches[w] = true
	return sync.OnceFunc(func() {
		d.storage.mu.Lock()
		defer d.storage.mu.Unlock()
		delete(d.storage.watches, w)
	}), nil
}

// tell tells the watches about a session. The storage is locked.
func (st *storage) tell(ref driver.Ref) {
	for w := range st.watches {
		if w.ref == ref || w.ref == (driver.Ref{}) {
			w.changed(ref, nil)
		}
	}
}

// endWatches ends the watches of a driver that is being closed. The storage is
// locked.
func (st *storage) endWatches(d *memory) {
	for w := range st.watches {
		if w.d == d {
			delete(st.watches, w)
			w.changed(driver.Ref{}, driver.ErrClosed)
		}
	}
}
