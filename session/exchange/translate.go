package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A translator makes native entries of a source's entries.
type translator struct {
	ids  map[string]string // of entries: from the source's to ours
	used map[string]bool   // IDs of the session
	note func(what string) // called with what cannot be carried over
	time time.Time         // of the entry before
	zone *time.Location    // of times without one

	owner string // of the session, and so of its commits
}

// translate returns the entries of a batch with the IDs given, or with their own where
// these are valid and not in use, or else with new ones.
func (w *translator) translate(b transcript.Batch, ids []string) ([]transcript.Entry, error) {
	made := make([]transcript.Entry, len(b.Entries))
	for i, e := range b.Entries {
		body, err := w.body(e.Body)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", e.ID, err)
		}
		if e.Time.IsZero() {
			w.note("time")
		} else if moment, zoneless := dialect.InZone(e.Time, w.zone); zoneless {
			w.note("zone")
			w.time = moment
		} else {
			w.time = e.Time
		}
		made[i] = transcript.Entry{Time: w.time, Body: body, App: e.App}
		switch {
		case i < len(ids):
			made[i].ID = ids[i]
		case driver.CheckRef(session.Ref{Agent: "-", ID: e.ID}) != nil || w.used[e.ID]:
			made[i].ID = newID()
		default:
			made[i].ID = e.ID
		}
		w.used[made[i].ID] = true
		if e.ID != "" {
			w.ids[e.ID] = made[i].ID
		}
	}
	return made, nil
}

// body returns a body that names native entries.
func (w *translator) body(body transcript.Body) (transcript.Body, error) {
	switch b := body.(type) {
	case transcript.MessageLine:
		b.Of, b.Made.After, b.Made.Thought = w.id(b.Of), w.id(b.Made.After), w.id(b.Made.Thought)
		return b, nil
	case transcript.Compaction:
		b.FirstKept, b.CoversTo, b.Read = w.id(b.FirstKept), w.id(b.CoversTo), w.all(b.Read)
		return b, nil
	case transcript.Clip:
		b.Clips = slices.Clone(b.Clips)
		for i := range b.Clips {
			b.Clips[i].Entry = w.id(b.Clips[i].Entry)
		}
		return b, nil
	case transcript.Hide:
		b.Entries = w.all(b.Entries)
		return b, nil
	case transcript.Rewind:
		b.To = w.id(b.To)
		return b, nil
	case transcript.Commit:
		b.Owner = w.owner // and not who the file says, into whose memories it would go
		b.FirstEntry, b.LastEntry = w.id(b.FirstEntry), w.id(b.LastEntry)
		b.Runs = slices.Clone(b.Runs)
		for i, r := range b.Runs {
			b.Runs[i] = transcript.Run{First: w.id(r.First), Last: w.id(r.Last)}
		}
		b.Open = w.all(b.Open)
		return b, nil
	case transcript.Extracted:
		b.Commit = w.id(b.Commit)
		return b, nil
	case transcript.Unknown:
		if b.Critical {
			return nil, fmt.Errorf("type %q: %w", b.Kind, session.ErrNewerFormat)
		}
		w.note("unknown")
		return transcript.Custom{Name: b.Kind}, nil
	case transcript.Header, transcript.Current: // the store decides which session is current
		return transcript.Custom{Name: transcript.Entry{Body: b}.Type()}, nil
	}
	return body, nil
}

// id returns the native ID of an entry, or the foreign one if the source does
// not have the entry.
func (w *translator) id(foreign string) string {
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

func (w *translator) all(foreign []string) []string {
	ids := slices.Clone(foreign)
	for i, id := range ids {
		ids[i] = w.id(id)
	}
	return ids
}

// lines gives the entries of a batch their lines. A cut batch stays one line
// short, however many lines it lacks, so that no later line is taken for one of
// its own.
func (w *translator) lines(made []transcript.Entry, key, hash string, b transcript.Batch) []transcript.Entry {
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

// line gives an entry a readable line: without the original if both together
// are too long, and else as an empty custom entry.
func (w *translator) line(e transcript.Entry, source []byte) transcript.Entry {
	if len(source) > maxSource {
		w.note("source")
		if readable(e) {
			return e // its line is made when it is written
		}
		source = nil
	}
	if source != nil {
		if kept := e.WithSource(source); readable(kept) {
			return kept
		}
		w.note("source")
	}
	bare := e.WithLine(e.Line())
	if !readable(bare) {
		w.note("record")
		e.Body = transcript.Custom{Name: e.Type()}
		bare = e.WithLine(e.Line())
	}
	return bare
}

// maxSource is the size in bytes of the longest original line that is kept: it doubles
// the size of the native one.
const maxSource = 16 << 20

// readable reports whether readers take the line of an entry, with a checksum too.
func readable(e transcript.Entry) bool {
	const checksum = len(`,"crc":"01234567"`)
	line := e.Line()
	if len(line)+checksum > transcript.DefaultMaxLine {
		return false
	}
	_, err := transcript.ParseEntry(line)
	return err == nil
}
