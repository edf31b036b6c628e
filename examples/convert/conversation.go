package main

import (
	"iter"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// conversation folds a session and returns it as entries in order, each
// compaction where it was made. lost counts what is not there any more:
// damage, unknown entries, compactions of parts that were rewound.
func conversation(s dialect.Session) (entries iter.Seq2[transcript.Entry, error], lost dialect.Losses, err error) {
	fold := rebuild.New(&rebuild.Options{Full: true})
	times := map[string]time.Time{}
	compactions := map[string][]transcript.Entry{} // by the message before it
	last := ""
	lost = dialect.Losses{}
	count := func(name string, n int) {
		if n > 0 {
			lost[name] += n
		}
	}
	count("damage", len(s.Damage))
	for batch, err := range transcript.Batches(s.Records()) {
		if err == nil {
			err = fold.Add(batch)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, e := range batch.Entries {
			switch e.Body.(type) {
			case transcript.Fragment:
				times[e.ID], last = e.Time, e.ID
			case transcript.Compaction:
				compactions[last] = append(compactions[last], e)
			case transcript.Unknown:
				count("unknown", 1)
			}
		}
	}
	var all []transcript.Entry
	for _, m := range fold.History().Messages {
		all = append(all, split(m, times)...)
	}
	var ordered []transcript.Entry
	for _, e := range all {
		ordered = append(ordered, e)
		ordered = append(ordered, compactions[e.ID]...)
		delete(compactions, e.ID)
	}
	for _, left := range compactions {
		count("compaction", len(left))
	}
	return func(yield func(transcript.Entry, error) bool) {
		for _, e := range ordered {
			if !yield(e, nil) {
				return
			}
		}
	}, lost, nil
}

// split returns a message of a history as entries: an answer as one, what the
// user and the tools said as it was recorded.
func split(m transcript.Message, times map[string]time.Time) []transcript.Entry {
	var entries []transcript.Entry
	for i, b := range m.Content {
		id := m.Origins[i].Entry
		if text, ok := b.(transcript.TextBlock); ok && id == "" && text.Text == rebuild.Opening {
			continue
		}
		n := len(entries) - 1
		if n < 0 || m.Role == transcript.RoleUser && entries[n].ID != id {
			entries = append(entries, transcript.Entry{ID: id, Time: times[id], Body: transcript.Fragment{Kind: string(m.Role), Role: m.Role}})
			n++
		}
		if f, ok := entries[n].Body.(transcript.Fragment); ok {
			f.Content = append(f.Content, b)
			if _, isText := b.(transcript.TextBlock); isText && len(f.Content) == 1 {
				f = f.WithContent(f.Content...)
			}
			entries[n].Body = f
		}
	}
	return entries
}
