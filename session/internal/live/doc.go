// Package live holds the sessions that a process has in memory: a [State] for each, which
// all handles of the session share, and a queue of its appends. Concurrent appends join
// in queue.go; write.go writes them together. The package is unaware of stores, filters
// and observers.
package live

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
)

// Options of a [Table].
type Options struct {
	replay.Options
	Driver   driver.Driver // of all sessions
	ReadOnly bool          // refuses every append
	Idle     int           // how many unused states stay in memory
	Logger   *slog.Logger  // for rows that could not be put
}

// ErrNotFound is the error of a scope. It hides sessions of other owners.
var ErrNotFound = fmt.Errorf("there is no such session: list the sessions to see which there are: %w", fs.ErrNotExist)

// Shown returns err, but in the scope of an owner ErrNotFound for a missing session or one
// of another owner. An empty scope shows all sessions.
func Shown(scope, owner string, err error) error {
	if scope != "" && (err == nil && owner != scope || errors.Is(err, fs.ErrNotExist)) {
		return ErrNotFound
	}
	return err
}

// IsGone reports whether an error means that a session no longer exists as it was read.
func IsGone(err error) bool {
	return (errors.Is(err, driver.ErrReplaced) || errors.Is(err, fs.ErrNotExist)) && !errors.Is(err, ErrNotFound)
}
