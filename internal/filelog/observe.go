package filelog

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

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

// tellSync reports a sync, unless s is zero: another call has led it.
func (l *Log) tellSync(ctx context.Context, s Synced) {
	if l.opts.Observe != nil && s != (Synced{}) {
		l.opts.Observe(ctx, s)
	}
}

// since is the time passed since began, at least 1 ns.
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
