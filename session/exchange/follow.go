package exchange

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// The prefixes of the idempotency keys of imported batches, and of the rewinds
// that an import has made. docs/FORMAT.md fixes both.
const (
	importKeys = "import:"
	rewindKeys = importKeys + "rewind:"
)

// A follower holds the part of a source that a session contains.
type follower struct {
	batches map[string]*followed // by slot
	cuts    map[string]int       // by idempotency key: how many batches are there in part only
	order   []string             // the slots of the live batches that make the history, in order
	rewinds int                  // rewinds that an import has made
	own     int                  // messages, compactions and rewinds that no import has made
	end     int64                // the place after the last record
	updated time.Time            // of the newest entry
}

// A followed is an imported batch.
type followed struct {
	hash string
	ids  []string
	live bool // it makes the history and has not been rewound
}

func (f *follower) empty() bool { return len(f.batches) == 0 && f.own == 0 }

// cutMark is in the slots of cut batches.
const cutMark = "/cut"

// slot names a batch of a session: by its key, and a cut one also by the number
// of cut ones of that key up to it.
func slot(key string, complete bool, cuts map[string]int) string {
	if complete {
		return key
	}
	cuts[key]++
	return key + cutMark + strconv.Itoa(cuts[key])
}

func readFollower(ctx context.Context, s *session.Session) (follower, error) {
	f := follower{batches: map[string]*followed{}, cuts: map[string]int{}}
	if s == nil {
		return f, nil
	}
	records := watched(s.Scan(ctx, session.ScanOptions{}), func(rec transcript.Record) {
		f.end = max(f.end, rec.End)
		if rec.HasEntry() && rec.Entry.Time.After(f.updated) {
			f.updated = rec.Entry.Time
		}
	})
	for b, err := range transcript.Batches(records) {
		if err != nil {
			return f, err
		}
		f.add(b)
	}
	return f, nil
}

func (f *follower) add(b transcript.Batch) {
	first := b.Entries[0]
	switch key := first.Idem; {
	case !strings.HasPrefix(key, importKeys):
		for _, e := range b.Entries {
			if transcript.IsHead(e.Type()) {
				f.own++
			}
		}
	case strings.HasPrefix(key, rewindKeys):
		f.rewinds++
		if r, ok := first.Body.(transcript.Rewind); ok {
			f.rewind(r.To)
		}
	default:
		one := &followed{hash: first.IdemHash, live: makesHistory(b)}
		for _, e := range b.Entries {
			one.ids = append(one.ids, e.ID)
		}
		name := slot(key, b.Complete, f.cuts)
		if one.live {
			f.order = append(f.order, name)
		}
		f.batches[name] = one
	}
}

// rewind ends the life of the batches after the entry to.
func (f *follower) rewind(to string) {
	for n, name := range slices.Backward(f.order) {
		b := f.batches[name]
		if b.last() == to {
			return
		}
		b.live = false
		f.order = f.order[:n]
	}
}

func (f *followed) last() string { return f.ids[len(f.ids)-1] }

// makesHistory reports whether a batch has lines that a history is made of.
func makesHistory(b transcript.Batch) bool {
	for _, e := range b.Entries {
		switch e.Body.(type) {
		case transcript.MessageLine, transcript.Compaction, transcript.Clip, transcript.Hide, transcript.Interrupt, transcript.Rewind:
			return true
		}
	}
	return false
}

// A foreignBatch is a record of the source as native entries.
type foreignBatch struct {
	slot    string
	hash    string
	entries []transcript.Entry // nil if the session has them
	size    int                // bytes of the original lines
	history bool               // see makesHistory
}

// batches yields the records of the source as native batches, without the
// header that the session has. Entries that the session has keep the IDs that
// they have there. Note is called with what cannot be carried over.
func (im *importing) batches(note func(what string)) iter.Seq2[foreignBatch, error] {
	return func(yield func(foreignBatch, error) bool) {
		w := &translator{
			ids: map[string]string{}, used: map[string]bool{im.Session.ID: true}, note: note,
			time: im.Source.Created, zone: im.opts.Zone, owner: im.owner,
		}
		if w.time.IsZero() {
			w.time = im.opts.Now()
		}
		for _, b := range im.there.batches {
			for _, id := range b.ids {
				w.used[id] = true
			}
		}
		seen, cuts := map[string]int{}, map[string]int{} // equal lines, and cut batches of a key
		start, whole := true, map[string]string{}        // whole are hashes of native batches by first entry
		records := watched(im.records, func(rec transcript.Record) {
			if rec.Damage != nil {
				note("damage")
			}
		})
		for b, err := range transcript.Batches(records) {
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
			if id := b.Entries[0].ID; im.Source.Dialect == dialect.Native {
				hash := transcript.IdemHash(b.Entries)
				if was := whole[id]; was != "" {
					note(map[bool]string{true: "repeated", false: "different"}[was == hash])
					continue
				}
				if b.Complete {
					whole[id] = hash
				}
			}
			key := batchKey(b, seen)
			f := foreignBatch{slot: slot(key, b.Complete, cuts), history: makesHistory(b)}
			var ids []string
			if was := im.there.batches[f.slot]; was != nil && len(was.ids) == len(b.Entries) {
				ids = was.ids
			}
			made, err := w.translate(b, ids)
			if err != nil {
				yield(foreignBatch{}, err)
				return
			}
			for _, e := range b.Entries {
				f.size += len(e.Line())
			}
			f.hash = transcript.IdemHash(made)
			if ids == nil {
				for range im.requests.once(im.Session, made) {
					note("usage")
				}
				f.entries = w.lines(made, key, f.hash, b)
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// batchKey returns the idempotency key of a batch: the hash of its source, and
// the number of equal ones before it. A cut batch and the one that superseded
// it share a key, as they did in the source.
func batchKey(b transcript.Batch, seen map[string]int) string {
	first := b.Entries[0]
	from := first.Line()
	if first.Idem != "" {
		from = []byte("idem:" + first.Idem)
	}
	hash := sha256.Sum256(from)
	sum := hex.EncodeToString(hash[:16])
	n := seen[sum]
	if b.Complete || first.Idem == "" {
		seen[sum]++
	}
	return importKeys + sum + ":" + strconv.Itoa(n)
}

// A plan lists the batches to append.
type plan struct {
	rewind  string // where to rewind first, empty for nowhere
	fresh   int    // records that the session has not
	known   int    // records that the session has
	history int    // fresh records that make the history
	mixed   bool   // a fresh record precedes a known one
	// changed is set with an error if the source was only cut since it was imported, or its
	// records mean something else: it is not an export of the session.
	changed bool
}

// foreign reports whether the fresh records are not those that a program adds to its file
// after an import.
func (p plan) foreign() bool { return p.fresh > 0 && (p.mixed || p.known == 0) }

// isPart reports whether a batch of the session is the part of a record of the
// source that a killed import has left.
func isPart(slot string, source map[string]bool) bool {
	key, _, cut := strings.Cut(slot, cutMark)
	_, whole := source[key]
	_, there := source[slot]
	return cut && whole && !there
}

// compare makes the plan, or returns an error that matches [ErrDiverged]. It
// counts what cannot be carried over.
func (im *importing) compare() error {
	im.plan, im.Records = plan{}, 0
	lost := dialect.Losses{}
	diverged := func(record int, why string) error {
		return fmt.Errorf("%s/%s has %d of its records: record %d %s: %w; another store can take the whole source",
			im.Session.Agent, im.Session.ID, len(im.there.batches), record, why, ErrDiverged)
	}
	source := map[string]bool{} // by slot: whether the batch makes the history of the source
	known := 0                  // how many batches of that history the session contains
	order := im.there.order
	var other error // the first record with another meaning
	for b, err := range im.batches(func(what string) { lost[what]++ }) {
		if err != nil {
			return err
		}
		im.Records++
		source[b.slot] = b.history
		if b.entries == nil {
			im.plan.known++
			im.plan.mixed = im.plan.fresh > 0
		}
		switch was := im.there.batches[b.slot]; {
		case b.entries != nil:
			if im.plan.fresh++; b.history {
				im.plan.history++
			}
		case !b.history:
		case !was.live:
			return diverged(im.Records, "was not part of the conversation when it was imported")
		default:
			for known < len(order) && order[known] != b.slot && isPart(order[known], source) {
				order = slices.Delete(slices.Clone(order), known, known+1)
			}
			if im.plan.history > 0 || known == len(order) || order[known] != b.slot {
				return cmp.Or(other, diverged(im.Records, "comes after a record that was changed or added since"))
			}
			if known++; was.hash != b.hash {
				other = cmp.Or(other, diverged(im.Records, "means something else by now"))
			}
		}
	}
	if im.plan.changed = im.plan.history == 0; other != nil {
		return other
	}
	// The other batches of the session must have left the history of the source.
	for _, slot := range order[known:] {
		if history, ok := source[slot]; ok && !history {
			im.plan.rewind = im.Session.ID
		} else if ok || !isPart(slot, source) {
			return diverged(known+1, "and the following are not those that were imported")
		}
	}
	if im.plan.rewind != "" && known > 0 {
		im.plan.rewind = im.there.batches[order[known-1]].last()
	}
	if im.there.own > 0 && (im.plan.history > 0 || im.plan.rewind != "") {
		return fmt.Errorf("%s/%s has been continued with %d lines of its own, and the source with %d records: %w; another store can take the whole source",
			im.Session.Agent, im.Session.ID, im.there.own, im.plan.fresh, ErrDiverged)
	}
	maps.Copy(im.Lost, lost)
	return nil
}
