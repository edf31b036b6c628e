package filelog

import (
	"time"
)

// LongWait is the shortest wait for a lock that is reported.
const LongWait = time.Millisecond

// An Event is a [Wait], a [Synced] or a [Tail], for [Options.Observe].
type Event any

// A Wait is a finished wait for a lock.
type Wait struct {
	Lock string // "append", or by other packages "turn"
	Took time.Duration
	Err  error // why it ended without the lock; nil if the lock was taken
}

// A Tail is an unterminated end of a file, left by a writer that died or by
// a power cut, that the next writer has ended with a '\n'. Its bytes stay in
// the file; the '\n' follows them.
type Tail struct {
	Offset   int64 // of its first byte
	Size     int64 // in bytes, the '\n' not counted
	Complete bool  // one JSON object, which lost only its '\n'; otherwise torn
	Err      error // why it could not be read back; Complete is false then
}

// A Synced is a finished sync of a file. One sync may serve many calls. The copy
// that cures a failed sync counts as one.
type Synced struct {
	Took  time.Duration // including waits for other syncs of this process
	Bytes int64         // from the first to the last byte that the Log wrote since its last sync; for a copy, its size
	Err   error         // nil if they are on stable storage
	// Background is set for syncs that [SyncInterval] started.
	Background bool
}
