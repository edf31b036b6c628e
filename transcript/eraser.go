package transcript

import "context"

// Subject says what is to be erased outside of transcripts.
type Subject struct {
	// Owner is the person whose data it is; empty is nobody.
	Owner string
	// Match reports what else goes, or with an Owner which of the data of that
	// person. It is given each text as an entry. Nil with an Owner is all of it.
	Match func(Entry) bool
}

// Place is one place that data is in, without the data.
type Place struct {
	// Kind is the type of an entry, or one of: transcript, all of a session, its
	// row included; archive and blob, files of a session; summary, carried, clip,
	// abstract, reasoning, source and damage, parts of a session that may say
	// again what an entry has said; channel, entries of a channel log.
	Kind    string `json:"kind"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Name    string `json:"name,omitempty"` // of a file or a channel
	Count   int    `json:"count,omitempty"`
}

// Eraser is a store of data besides sessions from which people are erased with
// them: see session.Store.PlanErase.
type Eraser interface {
	// PlanErase returns the places that data of the subject is in, and changes
	// nothing.
	PlanErase(ctx context.Context, s Subject) ([]Place, error)
	// Erase removes the data of the subject, and returns the places that it was
	// in. When the error is nil, none of it is left. It may be called again after
	// an error or a kill.
	Erase(ctx context.Context, s Subject) ([]Place, error)
}
