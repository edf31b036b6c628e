package filelog

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// LongWait is the shortest wait for a lock that is reported.
const LongWait = time.Millisecond

// An Event is a [Wait], a [Synced] or a [Tail], for [Options.Observe].
type Event any

// A Wait is a wait for a lock that is over.
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

// A Synced is a sync of a file that is over. One sync may be for many calls. The
// copy that cures a failed sync counts as one.
type Synced struct {
	Took  time.Duration // including waits for other syncs of this process
	Bytes int64         // from the first to the last byte that the Log had written since the sync before; of a copy, its size
	Err   error         // nil if they are on stable storage
	// Background is set for syncs by [driver.SyncInterval] instead of a call.
	Background bool
}

func (l *Log) tell(ctx context.Context, waited time.Duration, err error, w written) {
	if l.opts.Observe == nil {
		return
	}
	if waited >= LongWait {
		l.opts.Observe(ctx, Wait{"append", waited, err})
	}
	l.tellSync(ctx, w.cured)
	if w.tail > 0 {
		l.opts.Observe(ctx, l.readTail(w.tail)) // its bytes are final
	}
}

// tellSync reports a sync, unless it is the zero value: another call has led it.
func (l *Log) tellSync(ctx context.Context, s Synced) {
	if l.opts.Observe != nil && s != (Synced{}) {
		l.opts.Observe(ctx, s)
	}
}

// since is the time that has passed since began, at least 1 ns.
func since(began time.Time) time.Duration { return max(time.Since(began), 1) }

const (
	tailChunk = 64 << 10
	maxTail   = 256 << 20 // examined bytes of a tail
)

// readTail finds the start of the line whose bytes end at end, and judges it.
func (l *Log) readTail(end int64) Tail {
	var (
		chunk [tailChunk]byte
		start = end
	)
	for start > 0 {
		from := max(0, start-tailChunk)
		part := chunk[:start-from]
		if n, err := l.file().ReadAt(part, from); n < len(part) {
			return Tail{Offset: start, Size: end - start, Err: err}
		}
		i := bytes.LastIndexByte(part, '\n') + 1
		start = from + int64(i)
		if i > 0 {
			break
		}
	}
	t := Tail{Offset: start, Size: end - start}
	if t.Size > maxTail {
		return t
	}
	line := make([]byte, t.Size)
	if n, err := l.file().ReadAt(line, start); n < len(line) {
		t.Err = err
		return t
	}
	t.Complete = bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("{")) && json.Valid(line)
	return t
}
