package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// importWriter makes native entries of those of a source.
type importWriter struct {
	ids   map[string]string // of the entries: from the source's to ours
	newID func() string
	note  func(what string) // is told what cannot be carried over
	time  time.Time         // of the entry before
}

// translate returns the entries of a batch with native IDs: those given, or new
// ones. Where the source names an entry that is not there, its name stays.
func (w *importWriter) translate(b transcript.Batch, ids []string) ([]transcript.Entry, error) {
	if len(ids) != len(b.Entries) {
		ids = make([]string, len(b.Entries))
		for i := range ids {
			ids[i] = w.newID()
		}
	}
	made := make([]transcript.Entry, len(b.Entries))
	for i, e := range b.Entries {
		body, err := w.body(e.Body)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", e.ID, err)
		}
		if e.Time.IsZero() {
			w.note("time")
		} else {
			w.time = e.Time
		}
		made[i] = transcript.Entry{ID: ids[i], Time: w.time, Body: body}
		if e.ID != "" {
			w.ids[e.ID] = ids[i]
		}
	}
	return made, nil
}

// body returns a body that names native entries.
func (w *importWriter) body(body transcript.Body) (transcript.Body, error) {
	switch b := body.(type) {
	case transcript.Fragment:
		b.Of = w.id(b.Of)
		return b, nil
	case transcript.Compaction:
		b.FirstKept, b.CoversTo = w.id(b.FirstKept), w.id(b.CoversTo)
		return b, nil
	case transcript.Clip:
		b.Clips = slices.Clone(b.Clips)
		for i := range b.Clips {
			b.Clips[i].Entry = w.id(b.Clips[i].Entry)
		}
		return b, nil
	case transcript.Rewind:
		b.To = w.id(b.To)
		return b, nil
	case transcript.Commit:
		b.FirstEntry, b.LastEntry = w.id(b.FirstEntry), w.id(b.LastEntry)
		return b, nil
	case transcript.Unknown:
		if b.Critical {
			return nil, fmt.Errorf("type %q: %w", b.Kind, rebuild.ErrNewerFormat)
		}
		return transcript.Custom{Name: b.Kind}, nil
	case transcript.Header, transcript.Current: // what is current is decided here
		return transcript.Custom{Name: body.Type()}, nil
	}
	return body, nil
}

func (w *importWriter) id(foreign string) string {
	if foreign == "" {
		return ""
	}
	id, ok := w.ids[foreign]
	if !ok {
		w.note("reference")
		return foreign
	}
	return id
}

// lines gives the entries of a batch their lines. One that was cut is one line
// short, however many it lacks: damage may have parted it from lines that must
// not be taken for its own.
func (w *importWriter) lines(made []transcript.Entry, key, hash string, b transcript.Batch) []transcript.Entry {
	for i := range made {
		e := &made[i]
		switch {
		case i > 0:
			e.Part = i + 1
		case !b.Complete:
			e.Batch = len(made) + 1
		case len(made) > 1:
			e.Batch = len(made)
		}
		if i == 0 {
			e.Idem, e.IdemHash = key, hash
		}
		// A line that several entries were made of is kept once.
		source := b.Entries[i].Line()
		if i > 0 && bytes.Equal(source, b.Entries[0].Line()) {
			source = nil
		}
		*e = w.line(*e, source)
	}
	return made
}

// line gives an entry a line that readers take: without the original, if it
// would be too long with it, and else as a custom entry that says nothing.
func (w *importWriter) line(e transcript.Entry, source []byte) transcript.Entry {
	if source != nil {
		if kept := e.WithSource(source); readable(kept) {
			return kept
		}
		w.note("source")
	}
	if !readable(e) {
		w.note("record")
		e.Body = transcript.Custom{Name: e.Type()}
	}
	return e.WithLine(e.Line())
}

func readable(e transcript.Entry) bool {
	line := e.Line()
	_, err := transcript.ParseEntry(line)
	return err == nil && len(line) <= transcript.DefaultMaxLine
}

// Chunks of lines are written with one append, and synced together.
const (
	importChunkLines = 512
	importChunkBytes = 1 << 20
)

// write appends what the source has more.
func (im *importing) write(ctx context.Context) error {
	s := &Session{store: im.store, ref: im.Session}
	var lines []driver.Line
	size, batches := 0, 0
	add := func(e transcript.Entry) {
		lines = append(lines, driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()})
		size += len(e.Line()) + 1
	}
	flush := func() error {
		if len(lines) == 0 {
			return nil
		}
		err := im.appendLines(ctx, s, lines)
		if err == nil {
			im.Appended += batches
		}
		lines, size, batches = nil, 0, 0
		return err
	}
	if im.plan.rewind != "" {
		e := transcript.Entry{ID: im.store.ids.next(), Time: im.store.opts.Now(), Body: transcript.Rewind{To: im.plan.rewind}}
		e.Idem, e.IdemHash = rewindKeys+strconv.Itoa(im.there.rewinds), hashBatch([]transcript.Entry{e})
		add(e)
	}
	for b, err := range im.batches(func(string) {}) {
		if err != nil {
			return errors.Join(err, flush())
		}
		if b.stored {
			continue
		}
		batches++
		for _, e := range b.entries {
			add(e)
		}
		if len(lines) >= importChunkLines || size >= importChunkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return im.settle(ctx, s)
}

// appendLines appends batches if nobody has appended since the session was
// read.
func (im *importing) appendLines(ctx context.Context, s *Session, lines []driver.Line) error {
	began := time.Now()
	res, err := im.store.drv.Append(ctx, im.Session, lines, driver.Cond{Base: im.there.end, Conflicts: importTypes})
	took := time.Since(began)
	event := Event{Kind: EventAppend, Took: took, Err: err}
	if err == nil {
		im.there.end = res.End
		event.Entries, event.Bytes = len(lines), int(res.End-res.Start)
	}
	im.store.tell(ctx, im.Session, event)
	return err
}

// importTypes are the types of lines that an import may write, and those that
// change what its lines mean.
var importTypes = []string{
	transcript.TypeUser, transcript.TypeAssistant, transcript.TypeToolUse, transcript.TypeToolResult,
	transcript.TypeCompaction, transcript.TypeClip, transcript.TypeRewind, transcript.TypeMeta, transcript.TypeCalibration,
	transcript.TypeToolStatus, transcript.TypeUsed, transcript.TypeCommit, transcript.TypeCustom,
}

// settle reads what was written and brings the index up to date.
func (im *importing) settle(ctx context.Context, s *Session) error {
	t := im.store.table.acquire(im.Session)
	defer im.store.table.release(t)
	t.mu.Lock()
	err := t.sync(ctx)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return s.put(ctx, t)
}
