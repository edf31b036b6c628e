package driver

import "context"

// Adopter is a [Driver] that can take over the sessions of another storage with the
// gens that they have there, so that the same sessions are current in both. A store
// needs it for headers with a gen, and for lines that make a session current.
type Adopter interface {
	// Adopt makes a session with the agent, ID, owner, key and gen of row, whose only
	// line is header. If a session of the key already uses the ID, Adopt raises its gen
	// to row.Gen and writes no line. The next gen of the key is above it.
	//
	// An ID in use under another key, and a gen above 0 that another session of the key
	// uses, give an error that matches [io/fs.ErrExist]. If the session exists and is
	// archived, the error matches [ErrArchived].
	Adopt(ctx context.Context, row Row, header Line) error
}
