package transcript

import "iter"

// Batch is the entries of one append call.
type Batch struct {
	Entries []Entry
	// Complete is false when lines are missing: the append was cut and never
	// acknowledged.
	Complete bool
}

// Batcher puts entries together into the batches they were written in. The
// zero value is ready to use; it is for one goroutine.
type Batcher struct {
	open  []Entry // the first lines of a batch of want lines
	want  int
	ended [2]Batch // what the last call returned
}

// Add takes the next entry of the transcript and returns the batches that it
// ends: none while a batch is unfinished, and two when the entry shows that
// the batch before it will not be continued. The slice is valid until the next
// call of Add or Break; the entries of its batches may be kept.
func (b *Batcher) Add(e Entry) []Batch {
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

// Take takes the next record of a scan: an entry, whole or damaged, as Add does,
// and damage without an entry as Break does.
func (b *Batcher) Take(r Record) []Batch {
	if r.HasEntry() {
		return b.Add(r.Entry)
	}
	return b.Break()
}

// Break says that damage follows, or that nobody will write the rest of the
// last batch: it returns that batch as incomplete, if there is one. The slice
// is valid until the next call of Add or Break.
func (b *Batcher) Break() []Batch {
	ended := b.ended[:0]
	if b.want > 0 {
		ended = append(ended, Batch{Entries: b.open})
		b.open, b.want = nil, 0
	}
	return ended
}

// Open reports whether lines of an unfinished batch are held back.
func (b *Batcher) Open() bool { return b.want > 0 }

// Batches puts the records of a scan together into batches, for a reader that
// has the whole transcript: what is unfinished at the end counts as
// incomplete. Damage without an entry ends a batch and is otherwise left out.
// The sequence ends after the first pair with an error.
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
