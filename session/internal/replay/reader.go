package replay

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A Reader turns the lines of one transcript into the fold of its history and the
// row of its index. It decodes every line once and in order. Begin starts it,
// with the lines that the history needs; ReadOn and Own continue it. A Reader is for one
// goroutine at a time.
//
// The row is exact once every line has been counted. A reader that began after
// the first line takes the older lines from the row in the index. Where that row
// is too old, Row reads the lines between.
type Reader struct {
	Fold   *rebuild.Fold       // set by Begin, nil before
	Next   driver.Cursor       // after the last record that was read: moved on by every call that reads, and Own
	Damage []transcript.Damage // in the lines that were read, all of it: added by take

	opts    *Options
	batcher transcript.Batcher // holds the lines of a batch whose end was not read: taken by take, ended by Begin and ReadOn
	from    driver.Cursor      // where the history begins; 0 if all lines were read; set by Begin
	summary
	counted driver.Cursor // the row covers the lines before it: set by Begin and fill
	last    lastLine      // set by take and Own

	statuses map[string]string // the last one of each call until it is made again: see noteStatuses; may be nil

	stored  rebuild.Tally // tokens of the history for the store's counter: counted on by Row, Size and measure
	trigger rebuild.Tally // the same for Options.Trigger, if set

	keys    keys          // added by noteKeys and AddKey
	keyedAt driver.Cursor // where the last line with an idempotency key begins: set by take and Own

	cut  map[string]int // entries of incomplete batches, by idempotency key, until a later batch has the key: see add
	news []News         // added by take and add, taken by TakeNews
}

// A lastLine is the line before another one, and the latest time of all lines before that.
type lastLine struct {
	id     string
	time   time.Time
	newest time.Time
}

// next takes a line. Repeated means that it is the last one again, and late that it is
// older than one before it; either may be a repetition.
func (l *lastLine) next(e transcript.Entry) (repeated, late bool) {
	if _, header := e.Body.(transcript.Header); header { // of a fork it is newer than the copies
		return false, false
	}
	repeated, late = e.ID != "" && e.ID == l.id && e.Time.Equal(l.time), e.Time.Before(l.newest) && !e.Time.IsZero()
	if l.id, l.time = e.ID, e.Time; e.Time.After(l.newest) {
		l.newest = e.Time
	}
	return repeated, late
}

// News is damage that was found, or the number of entries of a cut batch that a later one
// supersedes.
type News struct {
	Damage     transcript.Damage
	Superseded int
}

// New returns a Reader that has read nothing.
func New(opts *Options) Reader {
	return Reader{
		opts: opts, cut: map[string]int{},
		stored: rebuild.Tally{Counter: opts.Counter}, trigger: rebuild.Tally{Counter: opts.Trigger},
	}
}

// ErrRewound means that a rewind or a compaction refers to a line before the
// lines in memory, or that a line continues a batch that counts as ended. The reader
// must begin anew.
var ErrRewound = errors.New("the history refers to older lines: read the session again")

// Begin reads the lines that the history needs, or all of them if whole is set. Known is
// the row in the index; its Size is 0 if it holds only the ID and the key. Every line is
// read at most twice. After an error the Reader is unusable.
func (r *Reader) Begin(scan Scan, known driver.Row, whole bool) error {
	err := r.begin(scan, known, whole)
	if err == nil && r.counted > r.Next { // the row covers lines that the transcript lacks
		*r = New(r.opts)
		err = r.begin(scan, driver.Row{ID: known.ID, Agent: known.Agent, Key: known.Key, Gen: known.Gen}, whole)
	}
	return err
}

func (r *Reader) begin(scan Scan, known driver.Row, whole bool) error {
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
			_ = r.note(header) // of this session
		}
	}
	r.from = w.from
	r.Fold = rebuild.New(&rebuild.Options{Summary: r.opts.Summary, Tail: w.from > 0})
	var err error
	for _, rec := range slices.Backward(w.records) {
		if err == nil {
			err = r.take(rec)
		}
	}
	if err == nil && len(w.records) == 0 {
		return r.ReadOn(scan)
	}
	if err == nil {
		err = r.add(r.batcher.Break())
	}
	return err
}

// firstEntry returns the first entry of a transcript, the zero value if damage
// comes first.
func firstEntry(scan Scan) (transcript.Entry, error) {
	for rec, err := range scan(0, driver.Forward) {
		return rec.Entry, err
	}
	return transcript.Entry{}, nil
}

// ReadOn reads from Next to the end, where the last batch counts as ended. The error may
// be [ErrRewound].
func (r *Reader) ReadOn(scan Scan) error {
	ended := r.Next > 0
	for rec, err := range scan(r.Next, driver.Forward) {
		if err == nil && (r.refersBack(rec.Entry) || ended && rec.Entry.Part > 1) {
			err = ErrRewound
		}
		ended = false
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
func (r *Reader) refersBack(e transcript.Entry) bool {
	if r.from == 0 {
		return false
	}
	switch b := e.Body.(type) {
	case transcript.Rewind:
		return true
	case transcript.Compaction:
		// CoversTo decides if FirstKept is not a message.
		return b.TurnsBefore == 0 || !r.Fold.Live(cmp.Or(b.FirstKept, b.CoversTo)) || !r.Fold.Live(cmp.Or(b.CoversTo, b.FirstKept))
	}
	return false
}

// Own folds the batches of one append of this process without reading them back, if they
// directly follow the last line read. Otherwise Own does nothing: the next read finds
// them in the transcript.
func (r *Reader) Own(res driver.Result, entries []transcript.Entry) error {
	if r.Fold == nil || res.Start != r.Next || slices.ContainsFunc(entries, r.refersBack) {
		return nil
	}
	for _, e := range entries {
		if err := r.count(e, res.Start); err != nil {
			return err
		}
	}
	for _, e := range entries {
		_, _ = r.last.next(e)
	}
	r.Next, r.keyedAt = res.End, res.Start
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
func (r *Reader) take(rec transcript.Record) error {
	r.Next = max(r.Next, driver.Cursor(rec.End))
	if rec.Damage != nil {
		r.Damage = append(r.Damage, *rec.Damage)
		r.news = append(r.news, News{Damage: *rec.Damage})
	}
	if rec.HasEntry() {
		was := r.last
		if repeated, _ := r.last.next(rec.Entry); repeated && r.batcher.Open() || r.Fold.Repeats(rec.Entry) {
			r.last = was
			d := transcript.Damage{Kind: transcript.DamageRepeated, Offset: rec.Offset, Size: rec.End - rec.Offset}
			r.Damage = append(r.Damage, d)
			r.news = append(r.news, News{Damage: d})
			return nil
		}
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
func (r *Reader) count(e transcript.Entry, at driver.Cursor) error {
	if at < r.counted || !r.Filled() {
		return nil
	}
	return r.note(e)
}

// Empty reports whether the lines that were read hold no entry.
func (r *Reader) Empty() bool { return r.version == 0 && r.row.LastID == "" }

var errNoHeader = errors.New("its header is missing, so it can be read and not appended to: nothing was written; restore its first line")

// Writable returns the reason why this program must not append to the lines, if there is
// one.
func (r *Reader) Writable() error {
	switch {
	case r.version == 0 && r.row.Key == "":
		return errNoHeader
	case r.version > transcript.Version:
		return fmt.Errorf("format version %d, this program knows %d: nothing was written; use a newer program: %w",
			r.version, transcript.Version, rebuild.ErrNewerFormat)
	}
	return nil
}

// Whole reports whether every line was read, not only those that the history needs.
func (r *Reader) Whole() bool { return r.from == 0 }

// Status returns the last status of a call that has one.
func (r *Reader) Status(callID string) string { return r.statuses[callID] }

// TakeNews returns the news since the last call.
func (r *Reader) TakeNews() []News {
	news := r.news
	r.news = nil
	return news
}

// fill reads the lines that the row lacks, if there are any.
func (r *Reader) fill(scan Scan) error {
	if r.Filled() {
		return nil
	}
	before := r.summary // entries of this process count once
	err := r.recount(scan, nil)
	if errors.Is(err, errLate) {
		r.summary, r.counted = summary{row: driver.Row{ID: before.row.ID, Agent: before.row.Agent, Key: before.row.Key, Gen: before.row.Gen}}, 0
		err = r.recount(scan, map[string]bool{})
	}
	if err != nil {
		r.summary = before
		return err
	}
	r.counted = r.Next
	return nil
}

// errLate means that a line is not newer than the one before it.
var errLate = errors.New("a line is late")

// recount counts the lines that the row lacks, repeated ones once. Whole collects the
// entries of whole batches; if it is nil, recount stops with errLate at a line that may be
// a repetition.
func (r *Reader) recount(scan Scan, whole map[string]bool) error {
	last := lastLine{newest: r.row.UpdatedAt.Add(1)} // the row may have counted a line of that time
	var batcher transcript.Batcher
	for rec, err := range scan(r.counted, driver.Forward) {
		if err == nil && driver.Cursor(rec.Offset) >= r.Next {
			break
		}
		if err == nil && rec.HasEntry() {
			was := last
			repeated, late := last.next(rec.Entry)
			switch {
			case repeated && batcher.Open() || whole[rec.Entry.ID]:
				last = was
				continue
			case (repeated || late) && whole == nil:
				return errLate
			}
			err = r.note(rec.Entry)
		}
		if err != nil {
			return err
		}
		for _, b := range batcher.Take(rec) {
			for _, e := range b.Entries {
				if whole != nil && b.Complete {
					whole[e.ID] = true
				}
			}
		}
	}
	return nil
}

// add gives batches to the fold, and notes the cut ones and those that
// supersede them.
func (r *Reader) add(batches []transcript.Batch) error {
	for _, b := range batches {
		if key := b.Entries[0].Idem; key != "" {
			if n := r.cut[key]; n > 0 {
				r.news = append(r.news, News{Superseded: n})
				delete(r.cut, key)
			}
			if !b.Complete {
				r.cut[key] = len(b.Entries)
			}
		}
		if b.Complete {
			r.noteKeys(b)
		}
		if err := r.Fold.Add(b); err != nil {
			return err
		}
		r.noteStatuses(b)
	}
	return nil
}

// noteKeys takes the idempotency keys of a whole batch.
func (r *Reader) noteKeys(b transcript.Batch) {
	if b.Entries[0].Idem != "" {
		r.keys.add(b.Entries[0], r.keyedAt)
	}
	for _, e := range b.Entries {
		r.keys.restore(e)
	}
}

// noteStatuses takes the statuses of calls from a batch. Calls may share an ID.
func (r *Reader) noteStatuses(b transcript.Batch) {
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

// HasKey reports whether a batch with an idempotency key was read, or is held.
func (r *Reader) HasKey(key string) bool { return r.keys.has(key) }

// AddKey notes that a batch with a key begins at or after a cursor.
func (r *Reader) AddKey(key string, at driver.Cursor) { r.keys.put(key, at) }

// PlaceOf returns a cursor at or before the batch of a key, and the key if it is only held.
func (r *Reader) PlaceOf(key string) (at driver.Cursor, held *transcript.Entry) {
	at, known := r.keys.places[maphash.String(keySeed, key)]
	if !known {
		held = r.keys.find(key)
	}
	return at, held
}

// Row makes the row of a session from its transcript. Known covers the lines before
// known.Size: Row reads only those of them that the history needs.
func Row(known driver.Row, scan Scan, opts *Options) (driver.Row, error) {
	r, err := readOf(known, scan, opts)
	if err != nil {
		return known, err
	}
	row, err := r.Row(scan)
	if err != nil {
		return known, err
	}
	return row, nil
}

// readOf reads the lines that the history of a session needs, up to the end of a scan.
func readOf(known driver.Row, scan Scan, opts *Options) (*Reader, error) {
	r := New(opts)
	err := r.begin(scan, known, false)
	if err == nil {
		err = r.add(r.batcher.Break())
	}
	return &r, err
}

// NewRow makes the row of a session that is not in the store yet from its entries, the
// header first.
func NewRow(agent string, entries []transcript.Entry, opts *Options) (driver.Row, error) {
	r := New(opts)
	r.row = driver.Row{ID: entries[0].ID, Agent: agent}
	r.Fold = rebuild.New(&rebuild.Options{Summary: opts.Summary})
	for i, e := range entries {
		if err := r.take(transcript.Record{Offset: int64(i), End: int64(i) + 1, Entry: e}); err != nil {
			return r.row, err
		}
	}
	if err := r.add(r.batcher.Break()); err != nil {
		return r.row, err
	}
	return r.Row(nil)
}

// Row returns the row of the lines up to Next. It reads the lines that the row lacks, and
// counts the tokens added since the last time.
func (r *Reader) Row(scan Scan) (driver.Row, error) {
	if err := r.fill(scan); err != nil {
		return driver.Row{}, err
	}
	row := r.row
	row.Size, row.Turns, row.TokenEstimate = int64(r.Next), r.Fold.Turns(), r.stored.Count(r.Fold)
	row.Waits = string(r.Fold.Pending().Waits())
	row.Values, row.Unlisted = listed(r.Fold.Standing().Values)
	return row, nil
}

// Filled reports whether the row has every line up to Next.
func (r *Reader) Filled() bool { return r.counted >= r.from }

// Owner returns the owner in the header.
func (r *Reader) Owner() string { return r.row.Owner }

// Rev returns the rev in the header.
func (r *Reader) Rev() int { return r.row.Rev }
