package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// unfiled holds the entries of a session outside of chapters. A line of a history
// is live only together with all lines before it, so a commit of an entry also
// includes all earlier live ones: only its last entry matters.
type unfiled struct {
	runs     []transcript.Run // up to the last complete turn
	messages int              // in the runs
	open     int              // messages after them
	live     []transcript.Run // the runs and later lines
	from     int64            // a place before the runs
}

// reading yields the batches of a session from a place.
type reading func(from int64) iter.Seq2[transcript.Batch, error]

// upTo reads a session up to a place.
func upTo(ctx context.Context, s *session.Session, to int64) reading {
	return func(from int64) iter.Seq2[transcript.Batch, error] {
		return transcript.Batches(s.Scan(ctx, session.ScanOptions{From: from, To: to}))
	}
}

// errRewound reports that skipped lines matter.
var errRewound = errors.New("a rewind refers to older lines")

// findUnfiled reads the entries since the last commit, whose last entry is last. After a
// rewind it reads the whole transcript, because the rewind may have revived entries that a
// commit skipped. Open is the first entry of the unfinished turn, or empty.
func findUnfiled(ctx context.Context, s *session.Session, read reading, last, open string) (unfiled, error) {
	rec, err := find(ctx, s, last)
	if err != nil {
		return unfiled{}, err
	}
	u, err := readUnfiled(read, rec, open)
	if errors.Is(err, errRewound) {
		return readUnfiled(read, transcript.Record{}, open)
	}
	return u, err
}

// readUnfiled reads the batches after a record. The error is errRewound if older lines
// matter.
func readUnfiled(read reading, last transcript.Record, open string) (unfiled, error) {
	o := filed{from: last.End, fold: rebuild.New(&rebuild.Options{Full: true, Tail: last.End > 0})}
	for b, err := range read(last.End) {
		if err == nil && last.HasEntry() && b.Entries[0].Part == max(last.Entry.Part, 1)+1 {
			last.Entry.Part = b.Entries[0].Part // a line of the same batch
			continue
		}
		last = transcript.Record{}
		if err == nil {
			err = o.add(b)
		}
		if err != nil {
			return unfiled{}, err
		}
	}
	return o.unfiled(open), nil
}

// filed holds the structure of the lines that readUnfiled has read, without
// their texts.
type filed struct {
	from    int64
	fold    *rebuild.Fold
	batches []filedBatch
	has     []string // the last entries of commits, and of the lines of another session
	copies  int      // how many of the next lines are another session's
}

// filedBatch is a batch with lines of a history.
type filedBatch struct {
	first, last string   // of all its entries
	lines       []string // entries of a history
	messages    []string // entries that begin a message
}

func (o *filed) add(b transcript.Batch) error {
	batch := filedBatch{first: b.Entries[0].ID, last: b.Entries[len(b.Entries)-1].ID}
	bare := transcript.Batch{Complete: b.Complete}
	for _, e := range b.Entries {
		switch body := e.Body.(type) {
		case transcript.Header:
			o.copies = body.Base.Lines + 1
		case transcript.MessageLine:
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
			if o.from == 0 && b.Complete && o.copies == 0 {
				last := body.LastEntry
				if last != "" && !o.fold.Has(last) {
					last = e.ID // its line is damaged: all messages before the commit count as committed
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

// unfiled returns the entries outside of chapters, as ranges of lines in order.
func (o *filed) unfiled(open string) unfiled {
	u := unfiled{from: o.from}
	live := map[string]bool{}
	for _, id := range o.fold.Since(o.has...) {
		live[id] = true
	}
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

// extended appends a batch to runs, or if joined to the last run.
func extended(runs []transcript.Run, b filedBatch, joined bool) []transcript.Run {
	if !joined {
		return append(runs, transcript.Run{First: b.first, Last: b.last})
	}
	runs[len(runs)-1].Last = b.last
	return runs
}

// batchesOf yields the batches of runs. It reads from an earlier place.
func batchesOf(read reading, from int64, runs []transcript.Run) iter.Seq2[transcript.Batch, error] {
	return func(yield func(transcript.Batch, error) bool) {
		runs, inside := runs, false
		for b, err := range read(from) {
			if err != nil {
				yield(b, err)
				return
			}
			// If the end of a run is damaged, the run ends where the next one begins.
			if i := slices.IndexFunc(runs, func(r transcript.Run) bool { return holds(b, r.First) }); i >= 0 {
				runs, inside = runs[i:], true
			}
			if inside && !yield(b, nil) {
				return
			}
			if inside && holds(b, runs[0].Last) {
				runs, inside = runs[1:], false
			}
			if len(runs) == 0 {
				return
			}
		}
	}
}

func holds(b transcript.Batch, id string) bool {
	return slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return e.ID == id })
}

// historyOf returns the history of runs, as if nothing had been compacted or
// clipped. An append that a kill cut is left out if retried reports a later use of
// its key; a nil retried means no such use.
func historyOf(ctx context.Context, s *session.Session, read reading, from int64, runs []transcript.Run, retried func(key string) (bool, error)) (rebuild.History, error) {
	fold := rebuild.New(&rebuild.Options{Full: true, Tail: true})
	var ids []string
	for b, err := range batchesOf(read, from, runs) {
		if err == nil && !b.Complete && b.Entries[0].Idem != "" && retried != nil {
			var again bool
			if again, err = retried(b.Entries[0].Idem); again {
				continue
			}
		}
		// All lines of a run are live, so no rewind in it counts.
		b.Entries = slices.DeleteFunc(slices.Clone(b.Entries), func(e transcript.Entry) bool {
			switch e.Body.(type) {
			case transcript.Hide, transcript.Rewind: // a hide may be rewound
				return true
			}
			return false
		})
		for _, e := range b.Entries {
			ids = append(ids, e.ID)
		}
		if err == nil {
			err = fold.Add(b)
		}
		if err != nil {
			return rebuild.History{}, err
		}
	}
	hidden, err := hiddenAmong(ctx, s, from, ids)
	if err == nil && len(hidden) > 0 {
		err = fold.Add(transcript.Batch{Entries: []transcript.Entry{{Body: transcript.Hide{Entries: hidden}}}, Complete: true})
	}
	return fold.History(), err
}

// hiddenAmong returns the hidden ones of some entries after a place.
func hiddenAmong(ctx context.Context, s *session.Session, from int64, ids []string) (hidden []string, err error) {
	keep := func(lines []byte) bool { return bytes.Contains(lines, []byte(`"hide"`)) }
	for rec, err := range s.Scan(ctx, session.ScanOptions{From: from, Backward: true, Keep: keep}) {
		if err != nil {
			return nil, err
		}
		if _, ok := rec.Entry.Body.(transcript.Hide); ok {
			where, err := s.Where(ctx, ids...)
			return slices.DeleteFunc(ids, func(id string) bool { return !where[id].Hidden }), err
		}
	}
	return nil, nil
}

// beginningOf returns the beginning of a history on one line: the first text of the
// user that could be a title, or else the first text.
func beginningOf(h rebuild.History) (line string) {
	for _, m := range h.Messages {
		for i, b := range m.Content {
			text, _ := b.(transcript.TextBlock)
			if m.Origins[i].Batch == 0 {
				continue // made up
			}
			first, _, _ := strings.Cut(strings.TrimSpace(text.Text), "\n")
			noted := strings.HasPrefix(first, "<") || strings.HasPrefix(first, "[") // by a program
			if first = oneLine(first); m.Role == transcript.RoleUser && first != "" && !noted {
				return clip(first, maxAbstract)
			}
			line = cmp.Or(line, clip(oneLine(text.Text), maxAbstract))
		}
	}
	return line
}

// closed returns the index of the first message that stays outside of the chapter, or
// the number of messages, and the first entry of that message's turn. All messages
// before the index were appended before all others. At least leave messages stay. If
// unanswered is set, only calls keep a turn unfinished.
func closed(fold *rebuild.Fold, leave int, unanswered bool) (at int, open string) {
	h, p := fold.History(), fold.Pending()
	at = len(h.Messages)
	waiting := func(o transcript.Origin) bool { // for a person, or approved
		return slices.ContainsFunc(p.Calls, func(c rebuild.PendingCall) bool {
			return c.Entry == o.Entry && (c.State == rebuild.Held || c.State == rebuild.Approved)
		})
	}
	first := slices.IndexFunc(h.Messages, func(m transcript.Message) bool { return slices.ContainsFunc(m.Origins, waiting) })
	switch {
	case first >= 0:
		at = turnOf(h, first)
	case p.Owed && (!unanswered || len(p.Calls) > 0):
		at = turnOf(h, at-1)
	}
	for at > 0 && texts(h.Messages[at:]) < leave {
		at = turnOf(h, at-1)
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

// texts counts the messages without results of tools.
func texts(messages []transcript.Message) (n int) {
	for _, m := range messages {
		if !slices.ContainsFunc(m.Content, func(b transcript.Block) bool { _, ok := b.(transcript.ToolResultBlock); return ok }) {
			n++
		}
	}
	return n
}

// turnOf returns the index at which the turn of a message begins.
func turnOf(h rebuild.History, i int) int {
	for i > 0 && !h.StartsTurn(i) {
		i--
	}
	return max(i, 0)
}
