package filedriver

import (
	"fmt"
	"io"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// seen is what conditional appends have learned of a transcript by reading it,
// so that the next one reads only what was added since. The append lock guards
// it, and nothing before a place where an append began ever changes.
type seen struct {
	copies uint64 // of the file, when it was read; see filelog.Log.Copies
	// The head of the lines before headEnd; nothing is known if that is 0.
	head    string
	headEnd int64
	// The whole batches with an idempotency key between two places. The first
	// append with a key looks for the first place, backwards from the end. Keys
	// are few and are forgotten when the log is closed.
	keys              map[string]keyed
	keysFrom, keysEnd int64
	rewound           int64              // where the last rewind between them ends
	batcher           transcript.Batcher // of the lines before keysEnd
	begin             int64              // where the last batch of them begins
}

// keyed is a batch that was appended under an idempotency key.
type keyed struct {
	hash       string
	ids        []string
	start, end int64
}

// stands reports whether the batch is still where it was read: another process's
// lines can become NULs after a sync of theirs has failed, so a remembered place
// proves nothing. Key, hash, IDs and lines must be there. A letter that has changed
// in another place is damage, which readers report, and not a missing batch: they
// keep the lines, and a second copy would be in the history beside them.
func (k keyed) stands(r io.ReaderAt, key string) bool {
	s := seen{keys: map[string]keyed{}, keysFrom: k.start, keysEnd: k.start}
	err := s.readKeys(r, k.end, k.start)
	now, ok := s.keys[key]
	return err == nil && ok && now.start == k.start && now.end == k.end && fits(now.hash, k.hash) && slices.Equal(now.ids, k.ids)
}

// check looks at the lines before end, under the append lock. Copies is how
// often the file has been copied so far. The result is that of an append of no
// lines, or the earlier one.
func (s *seen) check(r io.ReaderAt, copies uint64, end int64, cond driver.Cond) (res driver.Result, err error) {
	if s.copies != copies {
		*s = seen{copies: copies} // the copy may hold lines that could not be read
	}
	if cond.Idem != "" {
		if k, ok := s.keys[cond.Idem]; ok && !k.stands(r, cond.Idem) {
			*s = seen{copies: copies}
		}
		err := s.readKeys(r, end, int64(cond.Since))
		if err == nil && s.rewound > int64(cond.Base) {
			err = s.readKeys(r, end, 0) // the caller has not read what the rewind brings back
		}
		if err != nil {
			return res, err
		}
		if k, ok := s.keys[cond.Idem]; ok {
			if !fits(k.hash, cond.IdemHash) {
				return res, driver.ErrIdemMismatch
			}
			return driver.Result{
				Start: driver.Cursor(k.start), End: driver.Cursor(k.end), Repeated: true, IDs: slices.Clone(k.ids),
			}, nil
		}
	}
	if cond.Head != "" {
		if err := s.readHead(r, end); err != nil {
			return res, err
		}
		if s.head != cond.Head {
			return res, fmt.Errorf("head is %q, not %q: %w", s.head, cond.Head, driver.ErrConflict)
		}
	}
	if len(cond.Conflicts) > 0 {
		for rec, err := range transcript.Scan(r, end, &transcript.ScanOptions{From: int64(cond.Base)}) {
			if err != nil {
				return res, err
			}
			if rec.HasEntry() && slices.Contains(cond.Conflicts, rec.Entry.Type()) {
				return res, fmt.Errorf("a %s entry was added: %w", rec.Entry.Type(), driver.ErrConflict)
			}
		}
	}
	return driver.Result{Start: driver.Cursor(end), End: driver.Cursor(end)}, nil
}

// readHead finds the last head before end.
func (s *seen) readHead(r io.ReaderAt, end int64) error {
	if s.headEnd > end {
		s.headEnd = 0
	}
	if s.headEnd == 0 {
		s.head = driver.NoHead
	}
	for rec, err := range transcript.ScanBackward(r, end, &transcript.ScanOptions{From: s.headEnd}) {
		if err != nil {
			return err
		}
		if rec.HasEntry() && transcript.IsHead(rec.Entry.Type()) {
			s.head = rec.Entry.ID
			break
		}
	}
	s.headEnd = end
	return nil
}

// readKeys remembers the idempotency keys before end, back to where keysBegin
// says.
func (s *seen) readKeys(r io.ReaderAt, end, since int64) error {
	if s.keys == nil || s.keysEnd > end || s.keysFrom > since {
		from, err := keysBegin(r, end, since)
		if err != nil {
			return err
		}
		s.keys, s.keysFrom, s.keysEnd, s.rewound, s.batcher = map[string]keyed{}, from, from, 0, transcript.Batcher{}
	}
	for rec, err := range transcript.Scan(r, end, &transcript.ScanOptions{From: s.keysEnd}) {
		if err != nil {
			return err // what was read stays: records of one line come together
		}
		s.note(rec)
		s.keysEnd = rec.End
	}
	s.keysEnd = end
	return nil
}

// wrote takes the lines of an append of this process, so that the next one need not read
// them: one batch with a key. Other lines are read.
func (s *seen) wrote(start, end int64, lines []driver.Line, cond driver.Cond) {
	if cond.Idem == "" || len(lines) == 0 || s.keys == nil || s.keysEnd != start || s.batcher.Open() {
		return
	}
	k := keyed{hash: cond.IdemHash, start: start, end: end}
	for _, l := range lines {
		k.ids = append(k.ids, l.ID)
		if l.Type == transcript.TypeRewind {
			s.rewound = end
		}
	}
	s.keys[cond.Idem], s.keysEnd = k, end
}

// fewestLines is over how many lines keys are honoured at least.
const fewestLines = 1024

// keysBegin returns the first place of a batch with at least fewestLines lines
// and the place since behind it.
func keysBegin(r io.ReaderAt, end, since int64) (int64, error) {
	if since == 0 {
		return 0, nil
	}
	lines, part, from := 0, 0, end
	for rec, err := range transcript.ScanBackward(r, end, nil) {
		if err != nil {
			return 0, err
		}
		if lines >= fewestLines && part <= 1 && rec.End <= min(from, since) {
			return rec.End, nil
		}
		lines, part, from = lines+1, rec.Entry.Part, rec.Offset
	}
	return 0, nil
}

// note adds the next record.
func (s *seen) note(rec transcript.Record) {
	if rec.Entry.Part <= 1 {
		s.begin = rec.Offset
	}
	if _, ok := rec.Entry.Body.(transcript.Rewind); ok {
		s.rewound = rec.End
	}
	for _, b := range s.batcher.Take(rec) {
		first := b.Entries[0]
		if !b.Complete || first.Idem == "" || first.Part > 1 {
			continue
		}
		k := keyed{hash: first.IdemHash, start: s.begin, end: rec.End}
		for _, e := range b.Entries {
			k.ids = append(k.ids, e.ID)
		}
		s.keys[first.Idem] = k
	}
}

// fits reports whether the hash of a batch in the transcript is that of another
// one, as far as an erase has left it.
func fits(stored, hash string) bool { return stored == hash || stored == transcript.ErasedHash }
