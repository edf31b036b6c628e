//go:build linux && (amd64 || arm64)

package storetest

import (
	"context"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Workload is a short series of related calls.
type Workload struct {
	Name string
	Run  func(w *Worker) error
}

// A Worker runs a workload, step by step, on a store in a folder.
type Worker struct {
	Dir   string
	sync  session.SyncPolicy
	Open  Opener
	Store *session.Store
	Other *session.Store // a second store on the same folder
	IDs   []string       // the IDs of the last append
	Clock time.Time

	// begin is called before each step, and end after it with its error.
	begin func(name string)
	end   func(name string, err error) error
	// Try, if not nil, makes the call instead of begin and end.
	Try func(name string, do func(ctx context.Context) error) error
}

// An Opener opens a store in a folder.
type Opener = func(dir string, opts *session.Options) (*session.Store, error)

// Options returns the options of the store. Its clock advances by a second at each reading.
func (w *Worker) Options() *session.Options {
	return &session.Options{Sync: w.sync, Now: func() time.Time {
		w.Clock = w.Clock.Add(time.Second)
		return w.Clock
	}}
}

// Start opens the store.
func (w *Worker) Start() error {
	return w.Step("open", func(context.Context) error {
		st, err := w.Open(w.Dir, w.Options())
		if err == nil {
			w.Store = st
		}
		return err
	})
}

// Begun opens the store and loads the session of [CLI]. Most workloads begin with it.
func (w *Worker) Begun() (s *session.Session, err error) {
	if err := w.Start(); err != nil {
		return nil, err
	}
	return w.Load(CLI)
}

// Stop closes the store.
func (w *Worker) Stop() error {
	return w.Step("close", func(context.Context) error {
		st := w.Store
		w.Store = nil
		return st.Close()
	})
}

// Step makes one call.
func (w *Worker) Step(name string, do func(ctx context.Context) error) error {
	if w.Try != nil {
		return w.Try(name, do)
	}
	w.begin(name)
	return w.end(name, do(Background))
}

// Load loads a session.
func (w *Worker) Load(key session.Key) (s *session.Session, err error) {
	err = w.Step("load", func(ctx context.Context) error {
		s, err = w.Store.Load(ctx, key)
		return err
	})
	return s, err
}

// Create creates a session.
func (w *Worker) Create(key session.Key, opts *session.CreateOptions) (s *session.Session, err error) {
	err = w.Step("create", func(ctx context.Context) error {
		s, err = w.Store.Create(ctx, key, opts)
		return err
	})
	return s, err
}

// Add appends items.
func (w *Worker) Add(s *session.Session, items ...transcript.Item) error {
	return w.Step("append", func(ctx context.Context) error {
		ids, err := s.Append(ctx, items...)
		w.IDs = ids
		return err
	})
}
