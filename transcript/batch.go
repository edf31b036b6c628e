package transcript

import "iter"

// Batch is the entries of one append call.
type Batch struct {
	Entries []Entry
	// Complete is false if lines are missing: the append was cut off and never
	// acknowledged.
	Complete bool
}

// Batcher groups entries into the batches they were written in. The zero value
// is ready to use. A Batcher is for one goroutine.
type Batcher struct {
	open  []Entry // the first lines of a batch of want lines
	want  int
	ended [2]Batch // results of the last call
}

// Add takes the next entry of the transcript and returns the batches that end
// with it: none inside a batch, and two when the entry shows that the batch
// before it was cut off. A line that stands twice in a row inside a batch counts
// once. The slice is valid until the next call of a method;
// the entries of its batches may be retained.
func (b *Batcher) Add(e Entry) []Batch {
	if n := len(b.open); n > 0 && e.ID != "" && e.ID == b.open[n-1].ID && e.Time.Equal(b.open[n-1].Time) {
		return nil // the same line again
	}
	if b.want > 0 && e.Part == len(b.open)+1 && e.Batch == 0 {
		if b.open = append(b.open, e); len(b.open) < b.want {
			return nil
		}
		done := Batch{Entries: b.open, Complete: true}
		b.open, b.want = nil, 0
		return append(b.ended[:0], done)
	}
	ended := b.Break()
	if e.Batch > 1 {
		b.open, b.want = []Entry{e}, e.Batch
		return ended
	}
	return append(ended, Batch{Entries: []Entry{e}, Complete: e.Part <= 1})
}

// Take takes the next record of a scan. An entry is added, even one with a
// wrong checksum; damage without an entry breaks the current batch.
func (b *Batcher) Take(r Record) []Batch {
	if r.HasEntry() {
		return b.Add(r.Entry)
	}
	return b.Break()
}

// Break ends the current batch: damage follows, or no writer will complete it.
// It returns that batch as incomplete, or nothing if no batch is open. The
// slice is valid until the next call of a method.
func (b *Batcher) Break() []Batch {
	ended := b.ended[:0]
	if b.want > 0 {
		ended = append(ended, Batch{Entries: b.open})
		b.open, b.want = nil, 0
	}
	return ended
}

// Open reports whether b holds the first lines of an unfinished batch.
func (b *Batcher) Open() bool { return b.want > 0 }

// Batches groups the records of a scan into batches, for a reader that has the
// whole transcript: an unfinished batch at the end is incomplete. Damage
// without an entry ends a batch and is skipped. The sequence ends after the
// first pair with an error.
func Batches(records iter.Seq2[Record, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		var batcher Batcher
		give := func(batches []Batch) bool {
			for _, b := range batches {
				if !yield(b, nil) {
					return false
				}
			}
			return true
		}
		for rec, err := range records {
			if err != nil {
				yield(Batch{}, err)
				return
			}
			if !give(batcher.Take(rec)) {
				return
			}
		}
		give(batcher.Break())
	}
}
