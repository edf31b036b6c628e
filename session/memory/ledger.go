package memory

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A ledger is the sum of all lines about commits and uses. The zero value is for a
// session without such lines.
type ledger struct {
	entry string // of the last commit
	// Commit is the last commit, without texts and Runs. Its Stats include memories
	// extracted later, and its Open includes entry until that is extracted.
	transcript.Commit
	used map[string]bool        // since then, by kind and URI
	uses transcript.CommitStats // their counts
}

// accounts are the types of lines that a ledger sums up.
var accounts = words.NewLiterals(`"commit"`, `"used"`, `"extracted"`)

// readLedger reads the lines of a session that are before to. It reads backwards to the
// last commit, or the whole transcript.
func readLedger(ctx context.Context, s *session.Session, to int64) (l ledger, err error) {
	var recs []transcript.Record
	for rec, err := range accounted(ctx, s, session.ScanOptions{To: to}, accounts) {
		if err != nil {
			return l, err
		}
		recs = append(recs, rec)
		if rec.Entry.Type() == "commit" {
			break
		}
	}
	for _, rec := range slices.Backward(recs) {
		l.add(rec.Entry)
	}
	return l, nil
}

// accounted yields the lines about commits and uses that contain one of the literals, the
// last one first, without a fork's copies and lines of cut appends.
func accounted(ctx context.Context, s *session.Session, o session.ScanOptions, literals words.Literals) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		var found []transcript.Record // in a batch whose first line is still to come
		o.Backward, o.Own = true, true
		o.Keep = func(lines []byte) bool { return len(found) > 0 || literals.In(lines) }
		for rec, err := range s.Scan(ctx, o) {
			if err != nil {
				yield(rec, err)
				return
			}
			switch rec.Entry.Body.(type) {
			case nil: // damage
				found = nil
			case transcript.Commit, transcript.Used, transcript.Extracted:
				found = append(found, rec)
			}
			if len(found) == 0 || rec.Entry.Part > 1 {
				continue
			}
			whole := rec.Entry.Batch <= 1
			if !whole {
				whole, err = isWhole(ctx, s, rec.Offset)
			}
			for _, r := range found {
				if (whole || err != nil) && !yield(r, err) {
					return
				}
			}
			found = nil
		}
	}
}

// isWhole reports whether the batch at a place was written whole.
func isWhole(ctx context.Context, s *session.Session, from int64) (bool, error) {
	for b, err := range transcript.Batches(s.Scan(ctx, session.ScanOptions{From: from})) {
		return b.Complete, err
	}
	return false, nil
}

// add adds the next line.
func (l *ledger) add(e transcript.Entry) {
	switch b := e.Body.(type) {
	case transcript.Commit:
		l.used, l.uses = nil, transcript.CommitStats{}
		b.Abstract, b.Overview, b.Runs = "", "", nil
		b.Open = append(slices.Clone(b.Open), e.ID)
		l.entry, l.Commit = e.ID, b
	case transcript.Extracted:
		l.Open = slices.DeleteFunc(slices.Clone(l.Open), func(id string) bool { return id == b.Commit })
		if b.Err != "" {
			l.Open = append(l.Open, b.Commit)
		}
		for _, n := range b.Counts {
			l.Stats.Memories += n.Added + n.Merged
		}
	case transcript.Used:
		for _, uri := range b.Contexts {
			l.uses.Contexts += l.first("context " + uri)
		}
		if b.Skill != nil {
			l.uses.Skills += l.first("skill " + b.Skill.URI)
		}
	}
}

// first returns 1 if something is used for the first time since the last commit.
func (l *ledger) first(use string) int {
	if l.used[use] {
		return 0
	}
	used := maps.Clone(l.used) // copies of l share it
	if used == nil {
		used = map[string]bool{}
	}
	used[use] = true
	l.used = used
	return 1
}

// stats returns the sums over all commits and the time since the last one.
func (l *ledger) stats() transcript.CommitStats {
	sum := l.Stats
	sum.Contexts += l.uses.Contexts
	sum.Skills += l.uses.Skills
	return sum
}
