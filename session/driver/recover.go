package driver

import "context"

// Recoverer is a [Driver] that can make a session usable again after a sync of
// it failed.
type Recoverer interface {
	// Recover makes the session accept appends again. When the error is nil,
	// everything that was acknowledged is on stable storage, and so are the
	// stored parts of failed appends. On a session without a failed sync it is
	// [Driver.Flush] of this process's appends. After an error the session is
	// as it was. If another process has archived, replaced or deleted the
	// session since the sync failed, the first Recover or Flush returns the
	// failure, and the next one is about the new state.
	Recover(ctx context.Context, ref Ref) error
}
