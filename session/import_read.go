package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// importKeys is how the idempotency keys of imported batches begin.
const importKeys = "import:"

// rewindKeys is how those of rewinds begin that an import has made.
const rewindKeys = importKeys + "rewind:"

// importID returns the ID of the session that a source becomes, which is the
// same each time: a UUID of version 8, the kind for such use. A source without
// an ID is told by its first record. More tells it from others of the same ID.
func importID(s dialect.Session, first transcript.Entry, more string) string {
	h := sha256.New()
	part := func(text string) { _, _ = fmt.Fprintf(h, "%d:%s", len(text), text) } // a hash takes it all
	part(string(s.Dialect))
	part(s.ID)
	if s.ID == "" {
		part(string(first.Line()))
	}
	if s.PutAway { // beside one that has the ID and goes on
		part(path.Base(s.Path))
	}
	part(more)
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}

func isImportID(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.Version() == 8
}

// firstEntry returns the first entry of the source.
func (im *importing) firstEntry() (transcript.Entry, error) {
	for rec, err := range im.Source.Records() {
		if err != nil || rec.Damage == nil {
			return rec.Entry, err
		}
	}
	return transcript.Entry{}, nil
}

// imported is what a session has of its source.
type imported struct {
	batches map[string]importedBatch // by slot
	cuts    map[string]int           // by idempotency key, of how many batches only a part is there
	order   []string                 // the slots of those that make the history, in order
	all     int                      // batches that were imported, rewinds not counted
	rewinds int                      // rewinds that an import has made
	own     int                      // messages, compactions and rewinds that no import has made
	end     driver.Cursor
}

type importedBatch struct {
	hash string
	ids  []string
	said bool // it makes the history, and has not been rewound
}

// cutMark is in the slots of batches that were cut.
const cutMark = "/cut"

// slot names a batch among those of a session: by its key, and if it is one of
// several with that key that were cut, by how many of them came before it.
func slot(key string, complete bool, cuts map[string]int) string {
	if complete {
		return key
	}
	cuts[key]++
	return key + cutMark + strconv.Itoa(cuts[key])
}

// readImported reads a session.
func readImported(ctx context.Context, s *Session) (imported, error) {
	in := imported{batches: map[string]importedBatch{}, cuts: map[string]int{}}
	records := func(yield func(transcript.Record, error) bool) {
		for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Forward) {
			if err == nil {
				in.end = max(in.end, driver.Cursor(rec.End))
			}
			if !yield(rec, err) {
				return
			}
		}
	}
	for b, err := range transcript.Batches(records) {
		if err != nil {
			return in, err
		}
		in.add(b)
	}
	return in, nil
}

func (in *imported) add(b transcript.Batch) {
	first := b.Entries[0]
	said := makesHistory(b)
	switch key := first.Idem; {
	case !strings.HasPrefix(key, importKeys):
		for _, e := range b.Entries {
			if transcript.IsHead(e.Type()) {
				in.own++
			}
		}
	case strings.HasPrefix(key, rewindKeys):
		in.rewinds++
		if r, ok := first.Body.(transcript.Rewind); ok {
			in.rewind(r.To)
		}
	default:
		at := importedBatch{hash: first.IdemHash, said: said}
		for _, e := range b.Entries {
			at.ids = append(at.ids, e.ID)
		}
		name := slot(key, b.Complete, in.cuts)
		if said {
			in.order = append(in.order, name)
		}
		in.batches[name] = at
		in.all++
	}
}

// rewind takes note that what comes behind the entry to is not live.
func (in *imported) rewind(to string) {
	for i := len(in.order); i > 0; i-- {
		b := in.batches[in.order[i-1]]
		if b.ids[len(b.ids)-1] == to {
			return
		}
		b.said = false
		in.batches[in.order[i-1]] = b
		in.order = in.order[:i-1]
	}
}

// makesHistory reports whether a batch has lines that a history is made of.
func makesHistory(b transcript.Batch) bool {
	for _, e := range b.Entries {
		switch e.Body.(type) {
		case transcript.Fragment, transcript.Compaction, transcript.Clip, transcript.Rewind:
			return true
		}
	}
	return false
}

// foreignBatch is a record of the source as native entries.
type foreignBatch struct {
	key     string
	slot    string
	hash    string
	entries []transcript.Entry // nil if the session has it
	said    bool
	stored  bool // the session has it
}

// batches yields the records of the source as native batches, without the
// header that the session has. What was imported has the IDs that it has in
// the session.
func (im *importing) batches(note func(what string)) iter.Seq2[foreignBatch, error] {
	return func(yield func(foreignBatch, error) bool) {
		w := &importWriter{ids: map[string]string{}, newID: im.store.ids.next, note: note, time: im.Source.Created}
		if w.time.IsZero() {
			w.time = im.store.opts.Now()
		}
		seen, cuts := map[string]int{}, map[string]int{} // how often a line was seen, and a key cut
		start := true
		for b, err := range transcript.Batches(im.Source.Records()) {
			if err != nil {
				yield(foreignBatch{}, err)
				return
			}
			if start {
				start = false
				if _, ok := b.Entries[0].Body.(transcript.Header); ok && b.Entries[0].Batch == 0 {
					w.ids[b.Entries[0].ID] = im.Session.ID
					continue
				}
			}
			key := batchKey(b, seen)
			name := slot(key, b.Complete, cuts)
			was, stored := im.there.batches[name]
			if stored = stored && len(was.ids) == len(b.Entries); !stored {
				was.ids = nil
			}
			made, err := w.translate(b, was.ids)
			if err != nil {
				yield(foreignBatch{}, err)
				return
			}
			f := foreignBatch{key: key, slot: name, hash: hashBatch(made), said: makesHistory(b), stored: stored}
			if !stored {
				f.entries = w.lines(made, key, f.hash, b)
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// batchKey returns the idempotency key of a batch: the hash of what it was made
// of, and how many such there were before. A batch that was cut and the one
// that took its place have one key, as they had.
func batchKey(b transcript.Batch, seen map[string]int) string {
	h := sha256.New()
	if idem := b.Entries[0].Idem; idem != "" {
		h.Write([]byte("idem:" + idem))
	} else {
		h.Write(b.Entries[0].Line())
	}
	sum := hex.EncodeToString(h.Sum(nil)[:16])
	n := seen[sum]
	if b.Complete || b.Entries[0].Idem == "" {
		seen[sum]++
	}
	return importKeys + sum + ":" + strconv.Itoa(n)
}

// importPlan is what the source has more.
type importPlan struct {
	rewind string // where to rewind first, empty for nowhere
	fresh  int    // records that the session has not
	said   bool   // some of them make the history
}

func (p importPlan) more() bool { return p.rewind != "" || p.fresh > 0 }

// compare finds out what the source has more, and whether that can be
// appended. It counts what cannot be carried over.
func (im *importing) compare() error {
	im.plan, im.Records = importPlan{}, 0
	lost := dialect.Losses{}
	diverged := func(why string) error {
		return fmt.Errorf("%s/%s has %d of its records: record %d %s: %w",
			im.Session.Agent, im.Session.ID, im.there.all, im.Records, why, ErrDiverged)
	}
	known := 0 // how many of there.order were found
	// next says whether a batch is the next one of the session. Before it there
	// may be the part of one that was written before the import was killed.
	next := func(b foreignBatch) bool {
		for ; known < len(im.there.order) && im.there.order[known] != b.slot; known++ {
			key, _, cut := strings.Cut(im.there.order[known], cutMark)
			if _, again := im.there.batches[key]; !cut || !again && key != b.key {
				return false
			}
		}
		return known < len(im.there.order)
	}
	left := false
	last := im.Session.ID // of the batch before
	for b, err := range im.batches(func(what string) { lost[what]++ }) {
		if err != nil {
			return err
		}
		im.Records++
		was := im.there.batches[b.slot]
		switch {
		case !b.stored:
			if b.said {
				next(b)
			}
			im.plan.fresh++
			im.plan.said = im.plan.said || b.said
		case b.said && !was.said:
			return diverged("was not part of the conversation when it was imported")
		case b.said && was.hash != b.hash:
			return diverged("means something else by now")
		case b.said && (left || im.plan.said || !next(b)):
			return diverged("has others in front of it by now")
		case b.said:
			known++
			last = was.ids[len(was.ids)-1]
		case was.said: // a branch that was left
			if !next(b) {
				return diverged("has others in front of it by now")
			}
			known++
			if !left {
				left, im.plan.rewind = true, last
			}
		}
	}
	if next(foreignBatch{}); known < len(im.there.order) {
		im.Records++
		return diverged("and the following are not those that were imported")
	}
	if im.there.own > 0 && (im.plan.said || im.plan.rewind != "") {
		return fmt.Errorf("%s/%s has been continued with %d lines of its own, and the source with %d records: %w",
			im.Session.Agent, im.Session.ID, im.there.own, im.plan.fresh, ErrDiverged)
	}
	maps.Copy(im.Lost, lost)
	return nil
}
