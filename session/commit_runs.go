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

// unfiled is what a session has in no archive. A line of a history is live only
// together with all lines before it, so a commit that has an entry also has what is
// live before that entry: what counts of a commit is its last entry.
type unfiled struct {
	runs     []transcript.Run // up to the last turn that is over
	messages int              // in the runs
	open     int              // messages after them
	live     []transcript.Run // the runs and what is after them
	from     driver.Cursor    // a place in front of the runs
}

// findUnfiled reads what was appended since the last commit, up to the end of a scan.
// After a rewind it reads the whole transcript, because the rewind may have brought
// back what a commit has passed over. Open is the first entry of the turn that is not
// over; it is empty if all are.
func findUnfiled(scan scan, last rebuild.Commit, open string) (unfiled, error) {
	if last.LastEntry != "" {
		var u unfiled
		p, err := locate(scan, last.LastEntry)
		if err == nil {
			u, err = readUnfiled(scan, p.end, open)
		}
		if !errors.Is(err, errRewound) && !errors.Is(err, ErrNoEntry) {
			return u, err
		}
	}
	return readUnfiled(scan, 0, open)
}

// readUnfiled reads from a place on. The error is errRewound if older lines count.
func readUnfiled(scan scan, from driver.Cursor, open string) (unfiled, error) {
	o := filed{from: from, fold: rebuild.New(&rebuild.Options{Full: true, Tail: from > 0})}
	for b, err := range transcript.Batches(scan(from, driver.Forward)) {
		if err == nil {
			err = o.add(b)
		}
		if err != nil {
			return unfiled{}, err
		}
	}
	return o.unfiled(open), nil
}

// filed is what readUnfiled has read of a session, without what its lines say.
type filed struct {
	from    driver.Cursor
	fold    *rebuild.Fold
	batches []filedBatch
	has     []string // the last entries of commits, and that of the lines of another session
	copies  int      // how many of the next lines are another session's
}

// filedBatch is a batch of which histories are made.
type filedBatch struct {
	first, last string   // all of its entries
	lines       []string // those that histories are made of
	messages    []string // those that begin a message
}

func (o *filed) add(b transcript.Batch) error {
	batch := filedBatch{first: b.Entries[0].ID, last: b.Entries[len(b.Entries)-1].ID}
	bare := transcript.Batch{Complete: b.Complete}
	for _, e := range b.Entries {
		switch body := e.Body.(type) {
		case transcript.Header:
			o.copies = body.Base.Lines + 1
		case transcript.Fragment:
			batch.lines = append(batch.lines, e.ID)
			if body.Of == "" && (body.Kind == transcript.TypeUser || body.Kind == transcript.TypeAssistant) {
				batch.messages = append(batch.messages, e.ID)
			}
		case transcript.System, transcript.Tools, transcript.Dispatch, transcript.Decision:
			batch.lines = append(batch.lines, e.ID)
		case transcript.Rewind:
			if o.from > 0 {
				return errRewound
			}
		case transcript.Commit:
			if o.from == 0 && b.Complete && body.Archive != "" && o.copies == 0 {
				last := body.LastEntry
				if last != "" && !o.fold.Has(last) {
					last = e.ID // its line is damaged: all that was said before the commit is taken for archived
				}
				o.has = append(o.has, last)
			}
		}
		bare.Entries = append(bare.Entries, e.Erase())
		if o.copies > 0 {
			if o.copies--; o.copies == 0 {
				o.has = append(o.has, e.ID)
			}
		}
	}
	if len(batch.lines) > 0 {
		o.batches = append(o.batches, batch)
	}
	return o.fold.Add(bare)
}

// unfiled returns what is in no archive, as ranges of the lines in their order.
func (o *filed) unfiled(open string) unfiled {
	u := unfiled{from: o.from}
	live := setOf(o.fold.Since(o.has...))
	over, joined := true, false
	for _, b := range o.batches {
		if !slices.ContainsFunc(b.lines, func(id string) bool { return live[id] }) {
			joined = false
			continue
		}
		messages := 0
		for _, id := range b.messages {
			if live[id] {
				messages++
			}
		}
		over = over && (open == "" || !slices.Contains(b.lines, open))
		if over {
			u.runs = extended(u.runs, b, joined)
			u.messages += messages
		} else {
			u.open += messages
		}
		u.live = extended(u.live, b, joined)
		joined = true
	}
	return u
}

// extended returns runs with a batch, which follows the last run if joined.
func extended(runs []transcript.Run, b filedBatch, joined bool) []transcript.Run {
	if !joined {
		return append(runs, transcript.Run{First: b.first, Last: b.last})
	}
	runs[len(runs)-1].Last = b.last
	return runs
}

// batchesOf yields the batches of runs, the lines of which are read from a place in
// front of them.
func batchesOf(scan scan, from driver.Cursor, runs []transcript.Run) iter.Seq2[transcript.Batch, error] {
	return func(yield func(transcript.Batch, error) bool) {
		runs, inside := runs, false
		for b, err := range transcript.Batches(scan(from, driver.Forward)) {
			if err != nil {
				yield(b, err)
				return
			}
			// Where the end of a run is damaged, it ends where the next one begins.
			if i := slices.IndexFunc(runs, func(r transcript.Run) bool { return indexOf(b.Entries, r.First) >= 0 }); i >= 0 {
				runs, inside = runs[i:], true
			}
			if inside && !yield(b, nil) {
				return
			}
			if inside && indexOf(b.Entries, runs[0].Last) >= 0 {
				runs, inside = runs[1:], false
			}
			if len(runs) == 0 {
				return
			}
		}
	}
}

// historyOf returns the history of runs, as if nothing had been compacted or
// clipped. An append that a kill has cut is left out if retried reports that its key
// was used again behind the runs; nil reports that none was.
func historyOf(scan scan, from driver.Cursor, runs []transcript.Run, retried func(key string) (bool, error)) (rebuild.History, error) {
	fold := rebuild.New(&rebuild.Options{Full: true, Tail: true})
	for b, err := range batchesOf(scan, from, runs) {
		if err == nil && !b.Complete && b.Entries[0].Idem != "" && retried != nil {
			var again bool
			if again, err = retried(b.Entries[0].Idem); again {
				continue
			}
		}
		// All lines of a run are live, so a rewind there has changed nothing.
		b.Entries = slices.DeleteFunc(slices.Clone(b.Entries), func(e transcript.Entry) bool { return e.Type() == transcript.TypeRewind })
		if err == nil {
			err = fold.Add(b)
		}
		if err != nil {
			return rebuild.History{}, err
		}
	}
	return fold.History(), nil
}

// beginningOf returns how the runs begin, on one line: with the first text of the
// user that could be a title, or else with the first text.
func beginningOf(scan scan, from driver.Cursor, runs []transcript.Run) (line string, err error) {
	for b, err := range batchesOf(scan, from, runs) {
		if err != nil {
			return "", err
		}
		for _, e := range b.Entries {
			f, ok := e.Body.(transcript.Fragment)
			if !ok {
				continue
			}
			text := f.Message().Text()
			if title := titleOf(text); f.Kind == transcript.TypeUser && title != "" {
				return title, nil
			}
			line = cmp.Or(line, oneLine(text))
		}
	}
	return line, nil
}

// closed returns the index of the first message of the turn that is not over, the
// number of messages if all turns are, and the first entry of that turn. All that
// is in front of the index was appended before anything behind it.
func closed(fold *rebuild.Fold) (at int, open string) {
	h, p := fold.History(), fold.Pending()
	at = len(h.Messages)
	if first := firstWaiting(fold); p.Owed || first < at {
		at = turnOf(h, min(first, at-1))
	}
	for {
		newest, oldest := 0, 0
		for i, m := range h.Messages {
			for _, o := range m.Origins {
				switch {
				case o.Batch == 0:
				case i < at:
					newest = max(newest, o.Batch)
				case oldest == 0 || o.Batch < oldest:
					oldest, open = o.Batch, o.Entry
				}
			}
		}
		if at == 0 || oldest == 0 || newest < oldest {
			return at, open
		}
		at, open = turnOf(h, at-1), ""
	}
}

// turnOf is the index at which the turn of a message begins.
func turnOf(h rebuild.History, i int) int {
	for i > 0 && !h.StartsTurn(i) {
		i--
	}
	return max(i, 0)
}
