package session

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// scan yields the records of one transcript, as [driver.Driver.Scan] does.
type scan = func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error]

// reader turns the lines of one transcript into the fold of its history and the
// row of its index. It decodes every line once and in order. begin starts it,
// with the lines that the history needs; readLines and own continue it.
//
// The row is exact once every line has been counted. A reader that began after
// the first line takes the older lines from the row in the index. Where that row
// is too old, fill reads the lines between.
type reader struct {
	opts       *Options
	fold       *rebuild.Fold // nil until begin
	batcher    transcript.Batcher
	from       driver.Cursor // where the history begins; 0 if all lines were read
	next       driver.Cursor // after the last record that was read
	row        driver.Row    // without Size, Turns and TokenEstimate: see describe
	counted    driver.Cursor // the index counted the lines before it
	version    int           // of the format, from the header
	copiedLeft int           // how many of the next lines were copied from another session
	moved      driver.Cursor // just after the start of the last compaction or rewind

	// statuses holds the statuses of calls that have a tool_status line; it may be
	// nil.
	statuses map[string]string

	stored  rebuild.Tally // tokens of the history for the store's counter
	trigger rebuild.Tally // and for the counter of Options.Compact, if set

	keys    keys
	keyedAt driver.Cursor // where the last line with an idempotency key begins

	damage []transcript.Damage
	cut    map[string]int // entries of incomplete batches, by idempotency key
	news   []Event        // damage and repairs that the observer has not seen
}

func newReader(opts *Options) reader {
	return reader{
		opts: opts, cut: map[string]int{},
		stored: rebuild.Tally{Counter: opts.Counter}, trigger: rebuild.Tally{Counter: opts.Compact.Counter},
	}
}

// errRewound means that a rewind or a compaction refers to a line before the
// lines in memory. The reader must begin anew.
var errRewound = errors.New("the history refers to older lines: read the session again")

// begin reads the lines that the history needs, or all of them if whole is set.
// known is the row in the index; its Size is 0 if it holds only the ID and the
// key. Every line is read at most twice.
func (r *reader) begin(scan scan, known driver.Row, whole bool) error {
	w := walk{id: known.ID}
	if !whole {
		if err := w.run(scan); err != nil {
			return err
		}
	}
	r.row = driver.Row{ID: known.ID, Agent: known.Agent, Key: known.Key, Gen: known.Gen}
	if w.from > 0 {
		header, err := firstEntry(scan)
		if err != nil {
			return err
		}
		h, ok := header.Body.(transcript.Header)
		switch {
		case !ok || header.ID != known.ID || h.Version > transcript.Version, h.Base.Session != "" && w.bare:
			w = walk{} // something is odd, or the header of a fork holds its state: read every line
		case known.Size > 0 && known.Rev == h.Rev:
			r.version, r.row, r.counted = h.Version, known, driver.Cursor(known.Size)
			r.row.Owner = h.Owner
		default:
			if err := r.note(header); err != nil {
				return err
			}
		}
	}
	r.from = w.from
	r.fold = rebuild.New(&rebuild.Options{Summary: r.opts.Summary, Tail: w.from > 0})
	var err error
	for _, rec := range slices.Backward(w.records) {
		if err == nil {
			err = r.take(rec)
		}
	}
	if err == nil && len(w.records) == 0 {
		return r.readLines(scan)
	}
	if err == nil {
		err = r.add(r.batcher.Break())
	}
	return err
}

// firstEntry returns the first entry of a transcript, the zero value if damage
// comes first.
func firstEntry(scan scan) (transcript.Entry, error) {
	for rec, err := range scan(0, driver.Forward) {
		return rec.Entry, err
	}
	return transcript.Entry{}, nil
}

// readLines reads on from where the reader is, up to the end: the last batch is then
// all that will be there of it. The error may be errRewound.
func (r *reader) readLines(scan scan) error {
	for rec, err := range scan(r.next, driver.Forward) {
		if err == nil && r.refersBack(rec.Entry) {
			err = errRewound
		}
		if err == nil {
			err = r.take(rec)
		}
		if err != nil {
			return err
		}
	}
	return r.add(r.batcher.Break())
}

// refersBack reports whether e makes lines part of the history, or of its turns, that
// were not read.
func (r *reader) refersBack(e transcript.Entry) bool {
	if r.from == 0 {
		return false
	}
	switch b := e.Body.(type) {
	case transcript.Rewind:
		return true
	case transcript.Compaction:
		return b.TurnsBefore == 0 || !r.fold.Live(cmp.Or(b.FirstKept, b.CoversTo))
	}
	return false
}

// own folds the batches of one append of this process without reading them back, if they
// directly follow the last line read. Otherwise own does nothing: the next read finds
// them in the transcript.
func (r *reader) own(res driver.Result, entries []transcript.Entry) error {
	if r.fold == nil || res.Start != r.next || slices.ContainsFunc(entries, r.refersBack) {
		return nil
	}
	for _, e := range entries {
		if err := r.count(e, res.Start); err != nil {
			return err
		}
	}
	r.next, r.keyedAt = res.End, res.Start
	for len(entries) > 0 {
		n := max(entries[0].Batch, 1)
		if err := r.add([]transcript.Batch{{Entries: entries[:n:n], Complete: true}}); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// take takes the next record. A record may have both an entry and damage: a line
// that does not match its checksum and can be parsed.
func (r *reader) take(rec transcript.Record) error {
	r.next = max(r.next, driver.Cursor(rec.End))
	if rec.Damage != nil {
		r.damage = append(r.damage, *rec.Damage)
		r.news = append(r.news, Event{Kind: EventDamage, Damage: *rec.Damage})
	}
	if rec.HasEntry() {
		if err := r.count(rec.Entry, driver.Cursor(rec.Offset)); err != nil {
			return err
		}
		if rec.Entry.Idem != "" {
			r.keyedAt = driver.Cursor(rec.Offset)
		}
	}
	return r.add(r.batcher.Take(rec))
}

// count brings the row up to date with an entry that begins at a cursor, unless
// the row has it already or lacks lines before it.
func (r *reader) count(e transcript.Entry, at driver.Cursor) error {
	switch e.Body.(type) {
	case transcript.Compaction, transcript.Rewind:
		r.moved = at + 1
	}
	if at < r.counted || !r.filled() {
		return nil
	}
	return r.note(e)
}

// filled reports whether the row has every line up to next.
func (r *reader) filled() bool { return r.counted >= r.from }

// fill reads the lines that the row lacks, if there are any.
func (r *reader) fill(scan scan) error {
	if r.filled() {
		return nil
	}
	row, copies := r.row, r.copiedLeft // entries of this process count once
	for rec, err := range scan(r.counted, driver.Forward) {
		if err == nil && driver.Cursor(rec.Offset) >= r.next {
			break
		}
		if err == nil && rec.Entry.Body != nil {
			err = r.note(rec.Entry)
		}
		if err != nil {
			r.row, r.copiedLeft = row, copies
			return err
		}
	}
	r.counted = r.next
	return nil
}

// add gives batches to the fold, and notes the cut ones and those that
// supersede them.
func (r *reader) add(batches []transcript.Batch) error {
	for _, b := range batches {
		if key := b.Entries[0].Idem; key != "" {
			if n := r.cut[key]; n > 0 {
				r.news = append(r.news, Event{Kind: EventRepair, Superseded: n})
				delete(r.cut, key)
			}
			if !b.Complete {
				r.cut[key] = len(b.Entries)
			}
		}
		if b.Complete {
			r.noteKeys(b)
		}
		if err := r.fold.Add(b); err != nil {
			return err
		}
		r.noteStatuses(b)
	}
	return nil
}

// noteKeys takes the idempotency keys of a whole batch.
func (r *reader) noteKeys(b transcript.Batch) {
	if b.Entries[0].Idem != "" {
		r.keys.add(b.Entries[0], r.keyedAt)
	}
	for _, e := range b.Entries {
		r.keys.restore(e)
	}
}

// noteStatuses takes the statuses of calls from a batch. IDs of calls occur again.
func (r *reader) noteStatuses(b transcript.Batch) {
	for i := range b.Entries {
		switch body := b.Entries[i].Body.(type) {
		case transcript.ToolStatus:
			if r.statuses == nil {
				r.statuses = map[string]string{}
			}
			r.statuses[body.CallID] = body.Status
		case transcript.MessageLine:
			for _, block := range body.Content {
				if call, ok := block.(transcript.ToolCallBlock); ok && len(r.statuses) > 0 {
					delete(r.statuses, call.ID)
				}
			}
		}
	}
}

// walk looks for the oldest line that the history needs, backwards from the end
// of a transcript, and keeps the records on its way, so that they need not be
// read again. It follows the live lines: from a rewind it goes to the entry that
// the rewind names. The last live compaction names the first entry it keeps, and
// there the walk ends. If the walk does not find that entry, or cannot rely on its
// batch, it reaches the first line of the transcript: the records are then
// complete, and from is 0.
type walk struct {
	id      string              // of the session, which names the beginning
	records []transcript.Record // the last one first
	from    driver.Cursor       // where the history begins

	liveLines
	first string // kept by the last live compaction
	lost  bool   // all lines are needed
	bare  bool   // that compaction holds no state: a fork has copied it
}

func (w *walk) run(scan scan) error {
	batch := 0 // where in records the batch begins, with its last line
	for rec, err := range scan(0, driver.Backward) {
		if err != nil {
			return err
		}
		rec.Entry = rec.Entry.WithLine(nil) // the fold does not need it
		w.records = append(w.records, rec)
		if w.lost || rec.Entry.Body == nil || rec.Entry.Part > 1 {
			continue
		}
		if w.passes(batch) {
			return nil
		}
		batch = len(w.records)
	}
	w.from = 0
	return nil
}

// passes takes the batch that begins with the last of the records, and the lines
// after the batch. It reports whether the walk has ended.
func (w *walk) passes(start int) bool {
	batch := w.records[start:]
	holds := holding(batch)
	if !w.isLive(holds) {
		return false
	}
	if w.first != "" && holds(w.first) {
		w.lost = !isComplete(batch) || !keeps(batch, w.first)
		w.from = driver.Cursor(batch[len(batch)-1].Offset)
		return !w.lost
	}
	for _, rec := range batch { // the last one first
		switch b := rec.Entry.Body.(type) {
		case transcript.Rewind:
			w.follow(b)
			w.lost = w.lost || !isComplete(batch) || b.To == w.id
			return false
		case transcript.Compaction:
			if w.first == "" && !w.lost {
				w.first, w.bare = cmp.Or(b.FirstKept, b.CoversTo), b.Standing == nil
				w.lost = w.first == "" || b.TurnsBefore == 0 || !isComplete(batch)
			}
		}
	}
	return false
}

// liveLines follows rewinds through a transcript, from the last batch to the first.
// The zero value begins after the last one.
type liveLines struct {
	seeking bool   // the batches that come are not live
	target  string // up to the one that holds this entry
}

// isLive reports whether the next batch is in force, up to a rewind in it. The
// caller must pass every batch.
func (l *liveLines) isLive(holds func(id string) bool) bool {
	if l.seeking && l.target != "" && holds(l.target) {
		l.seeking = false
	}
	return !l.seeking
}

// follow continues from a live rewind: the lines before it, also in its own
// batch, are not live up to the batch of its target.
func (l *liveLines) follow(r transcript.Rewind) { l.seeking, l.target = true, r.To }

// holding returns the function that reports whether records have an entry.
func holding(records []transcript.Record) func(id string) bool {
	return func(id string) bool {
		return id != "" && slices.ContainsFunc(records, func(r transcript.Record) bool { return r.HasEntry() && r.Entry.ID == id })
	}
}

// keeps reports whether a history can continue with a batch that holds the first entry
// a compaction keeps: the entry must be a line of a message, and no line of the batch
// may take it back.
func keeps(batch []transcript.Record, id string) (ok bool) {
	for _, rec := range batch {
		switch rec.Entry.Body.(type) {
		case transcript.MessageLine:
			ok = ok || rec.Entry.ID == id
		case transcript.Rewind:
			return false
		}
	}
	return ok
}

// isComplete reports whether records, the last one first, are one whole batch
// and nothing else.
func isComplete(records []transcript.Record) bool {
	for i, rec := range slices.Backward(records) {
		part := len(records) - i
		if rec.Entry.Body == nil || part > 1 && rec.Entry.Part != part {
			return false
		}
	}
	return max(records[len(records)-1].Entry.Batch, 1) == len(records)
}
