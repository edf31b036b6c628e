package dialect

import (
	"cmp"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/abstract"
	"github.com/convolog/convolog/transcript"
)

// A vikingMark is a compaction or a commit, and the number of messages before
// it.
type vikingMark struct {
	at   int
	body transcript.Body
	time time.Time
}

// A vikingArchive is an archive that is to be written.
type vikingArchive struct {
	number             int
	messages           []vikingMessage
	abstract, overview string
	at                 time.Time // when it was made
}

// archiving divides the messages of a session between archives and the live
// rest.
type archiving struct {
	messages    []vikingMessage
	first, last map[string]int // by ID of an entry: the messages it is in
	archived    []bool         // by message
	made        []vikingArchive
}

// archive divides the messages. Commits decide the archives. In a session
// without any, compactions do: OpenViking shrinks histories in no other way.
// lost counts compactions without a place.
func (v *vikingOutput) archive() (a *archiving, lost int) {
	a = &archiving{messages: v.messages, first: map[string]int{}, last: map[string]int{}, archived: make([]bool, len(v.messages))}
	for i, m := range a.messages {
		for _, id := range m.ids {
			if _, ok := a.first[id]; !ok {
				a.first[id] = i
			}
			a.last[id] = i
		}
	}
	commits := slices.ContainsFunc(v.marks, func(m vikingMark) bool {
		_, ok := m.body.(transcript.Commit)
		return ok
	})
	for i, m := range v.marks {
		switch b := m.body.(type) {
		case transcript.Compaction:
			if chosen := a.covered(b, m.at); !commits && len(chosen) > 0 {
				a.put(vikingArchive{overview: b.Summary, at: m.time}, chosen)
			} else if !commits {
				lost++
			}
		case transcript.Commit:
			chosen, overview := a.committed(b, m.at), b.Overview
			if b.FirstEntry == "" && i > 0 {
				if c, ok := v.marks[i-1].body.(transcript.Compaction); ok { // which the commit is about
					chosen, overview = a.covered(c, m.at), cmp.Or(overview, c.Summary)
				}
			}
			a.put(vikingArchive{number: b.N, abstract: b.Abstract, overview: overview, at: m.time}, chosen)
		default: // there is no other mark
		}
	}
	for _, m := range v.marks {
		if c, ok := m.body.(transcript.Compaction); ok && commits && len(a.covered(c, m.at)) > 0 {
			lost++
		}
	}
	return a, lost
}

// covered returns the messages before a compaction that it does not keep and
// that are in no archive.
func (a *archiving) covered(c transcript.Compaction, at int) []int {
	n := at
	if kept, ok := a.first[c.FirstKept]; ok {
		n = min(kept, at)
	} else if to, ok := a.last[c.CoversTo]; ok {
		n = min(to+1, at)
	}
	return a.free(0, n)
}

func (a *archiving) committed(c transcript.Commit, at int) (chosen []int) {
	runs := c.Runs
	if len(runs) == 0 {
		runs = []transcript.Run{{First: c.FirstEntry, Last: c.LastEntry}}
	}
	for _, r := range runs {
		first, ok := a.first[r.First]
		last, both := a.last[r.Last]
		if ok && both {
			chosen = append(chosen, a.free(first, min(last+1, at))...)
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen)
}

func (a *archiving) free(from, to int) (list []int) {
	for i := from; i < to; i++ {
		if !a.archived[i] {
			list = append(list, i)
		}
	}
	return list
}

// put makes an archive of messages. Its number is greater than the last one.
func (a *archiving) put(made vikingArchive, chosen []int) {
	next := 1
	if n := len(a.made); n > 0 {
		next = a.made[n-1].number + 1
	}
	made.number = max(made.number, next)
	made.abstract = cmp.Or(made.abstract, abstract.Of(made.overview))
	for _, i := range chosen {
		made.messages = append(made.messages, a.messages[i])
		a.archived[i] = true
	}
	a.made = append(a.made, made)
}

func (a *archiving) live() (live []vikingMessage) {
	for _, i := range a.free(0, len(a.messages)) {
		live = append(live, a.messages[i])
	}
	return live
}
