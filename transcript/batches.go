package transcript

import "iter"

// Batches puts the records of a scan together into batches, for a reader that
// has the whole transcript: what is unfinished at the end counts as
// incomplete. Damage ends a batch and is otherwise left out. The sequence ends
// after the first pair with an error.
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
			batches := batcher.Break
			if rec.Damage == nil {
				batches = func() []Batch { return batcher.Add(rec.Entry) }
			}
			if !give(batches()) {
				return
			}
		}
		give(batcher.Break())
	}
}
