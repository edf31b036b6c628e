package guard

import (
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Client is a model: what an application implements once, for its own model,
// to use whatever in this module asks one. [Do] does not need it: it takes a
// function, whose result may be of any type.
type Client interface {
	// Complete sends a request and returns the answer. An answer that was cut
	// is returned with the error, if there is anything of it.
	Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error)
}

// History is the conversation that a call is about. A session is one.
type History interface {
	// History returns what the model is to be shown.
	History(ctx context.Context) (rebuild.History, error)
	// Append commits entries.
	Append(ctx context.Context, items ...transcript.Item) ([]string, error)
}

// Calibrated is a [History] that keeps what [Do] learns about models, so that
// the next Do knows it, also after a restart: the entries of the type
// [transcript.Calibration] that Do appends. A session is one; what wraps a
// session has to pass the method on. With any other history Do appends none.
type Calibrated interface {
	History
	// Calibration returns what the entries so far say about a model, the zero
	// value if they say nothing.
	Calibration(ctx context.Context, model string) (transcript.Calibration, error)
}

// Compactor is a [History] whose older part can be replaced by a summary. A
// session is one; what wraps a session has to pass the method on.
type Compactor interface {
	History
	// CompactFor makes the history smaller, to at most n.Room tokens as n.Counter
	// counts them if that is possible. It reports whether the history has changed.
	// An error without a change means that it has not; with one it says what has
	// failed on the way. One that gains too little of n.Window need not be made if
	// the request is too long by estimate alone: an estimate is no proof.
	CompactFor(ctx context.Context, n Need) (changed bool, err error)
}
