package transcript

import "context"

// Subject selects the data that an [Eraser] erases. The zero value selects
// nothing.
type Subject struct {
	// Owner is the person whose data it is; empty selects no person.
	Owner string
	// Match reports whether a text, passed as an entry, must go. With an Owner
	// it selects from the data of that person, and nil selects all of it.
	Match func(Entry) bool
}

// Place names a place that holds data, without the data.
type Place struct {
	// Kind is the type of an entry, or one of: transcript, all of a session, its
	// row included; archive and blob, files of a session; summary, carried, clip,
	// abstract, reasoning, source and damage, parts of a session that may repeat
	// an entry; channel, entries of a channel log; memory and diff, files of a
	// store of memories.
	Kind    string `json:"kind"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Name    string `json:"name,omitempty"` // of a file or a channel
	Count   int    `json:"count,omitempty"`
}

// Eraser is a store of other data than sessions, which takes part when a person is
// erased: see package session/erase.
type Eraser interface {
	// PlanErase returns the places that hold data of the subject, and changes
	// nothing.
	PlanErase(ctx context.Context, s Subject) ([]Place, error)
	// Erase removes the data of the subject, and returns the places that held it;
	// after an error, the erased places. When the error is nil, none of the data is
	// left. It may be called again after an error or a kill.
	Erase(ctx context.Context, s Subject) ([]Place, error)
}
