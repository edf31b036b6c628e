package driver

import "context"

// Adopter is a [Driver] that can take over the sessions of another storage with the
// gens that they have there, so that the same sessions are current in both. A store
// needs it for headers with a gen, and for lines that make a session current.
type Adopter interface {
	// Adopt makes a session with the agent, ID, owner, key and gen of row, whose only
	// line is header. If the key has a session with that ID already, Adopt raises the
	// gen of the session to that of row and writes no line. The next gen of the key is
	// above it.
	//
	// An ID in use under another key, and a gen above 0 that another session of the key
	// has, give an error that matches [io/fs.ErrExist]. If the session is there and
	// archived, the error matches [ErrArchived].
	Adopt(ctx context.Context, row Row, header Line) error
}
