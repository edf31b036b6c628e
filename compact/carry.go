package compact

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// carried are the paths, URLs and identifiers that are handed on from one
// compaction to the next by code, because a summary may lose them: for each
// rank the newest first.
type carried [ranks][]string

// The ranks: where an identifier was seen, the best place first. It decides what
// is left out when there is no room for all.
const (
	ofUser    = iota // in the user's words
	ofErrors         // in results that are errors
	ofSummary        // in an earlier summary, by the words of a model
	ofChanges        // paths that calls have written to
	ofTalk           // in the words of the assistant and in inputs of calls
	ofResults        // in other results
	ofLists          // in texts with many of them
	ranks
)

// carriedHeading stands before the identifiers, on a line of its own, behind
// the text of the summarizer. Each rank is one line below it. They are part of
// the text that is stored.
const carriedHeading = "[Identifiers of what was summarised, the newest first]"

var rankNames = [ranks]string{"By the user:", "In errors:", "In summaries:", "Changed:", "By the assistant:", "In results:", "In lists:"}

// Shares of the tokens, in hundredths: each rank has its own, and what one does
// not need goes to the others, the best first.
var rankShares = [ranks]int{30, 15, 20, 10, 10, 10, 5}

const (
	manyInText  = 32    // identifiers that make a text a list
	maxOfRank   = 1_000 // that are looked at
	oftenInText = 3     // texts that make an identifier one of the next better rank
)

// takeCarried divides a summary into what was written and the identifiers that
// were added to it.
func takeCarried(summary string) (string, carried) {
	var c carried
	mark := "\n\n" + carriedHeading + "\n"
	at := strings.LastIndex(summary, mark)
	if at < 0 {
		return summary, c
	}
	for line := range strings.SplitSeq(summary[at+len(mark):], "\n") {
		for rank, name := range rankNames {
			if rest, ok := strings.CutPrefix(line, name); ok {
				for _, m := range carriedItem.FindAllStringSubmatch(rest, maxOfRank) {
					c[rank] = append(c[rank], m[1]+m[2])
				}
			}
		}
	}
	return summary[:at], c
}

// carriedItem is one of a line: in quotes if it has spaces.
var carriedItem = regexp.MustCompile(` (?:"([^"]+)"|([^ "]+))`)

// String is what is added to a summary; empty if there is nothing.
func (c carried) String() string {
	var sb strings.Builder
	for rank, items := range c {
		if len(items) == 0 {
			continue
		}
		sb.WriteString("\n" + rankNames[rank])
		for _, id := range items {
			if strings.Contains(id, " ") {
				id = `"` + id + `"`
			}
			sb.WriteString(" " + id)
		}
	}
	if sb.Len() == 0 {
		return ""
	}
	return "\n\n" + carriedHeading + sb.String()
}

// add returns c with what is in messages, and with what a summary says that c
// has not: nobody knows whether the next one says it. An identifier that is
// mentioned again is among the newest, and keeps its rank if that is better.
func (c carried) add(summary string, msgs []transcript.Message) carried {
	l := ledger{rank: map[string]int{}, seen: map[string]int{}, latest: map[string]int{}}
	for rank := ranks - 1; rank >= 0; rank-- {
		l.add(rank, slices.Backward(c[rank]))
	}
	for i, section := range parseExtract(summary).sections {
		for _, item := range slices.Backward(section.items) {
			l.text(sectionRanks[i], identifiers(item))
		}
	}
	clear(l.seen)
	for _, m := range msgs {
		l.message(m)
	}
	var all carried
	for i, id := range slices.Backward(l.ids) {
		rank := l.rank[id]
		if l.latest[id] != i || len(all[rank]) == maxOfRank {
			continue
		}
		all[rank] = append(all[rank], id)
	}
	return all
}

// sectionRanks are the ranks of the sections of an extract. A summary that is
// none has only an earlier one.
var sectionRanks = [sectionCount]int{
	earlier: ofSummary, firstRequest: ofUser, userSaid: ofUser, mentioned: ofLists,
	toolErrors: ofErrors, lastAnswer: ofTalk, openCalls: ofTalk,
}

// ledger collects identifiers, the oldest first.
type ledger struct {
	ids    []string
	latest map[string]int // where in ids it is last
	rank   map[string]int // the best one
	seen   map[string]int // in how many texts
}

func (l *ledger) add(rank int, ids func(func(int, string) bool)) {
	for _, id := range ids {
		if strings.ContainsAny(id, "\"\n") {
			continue
		}
		best, known := l.rank[id]
		if l.seen[id]++; l.seen[id] == oftenInText && rank > ofTalk {
			best = max(best-1, ofTalk)
		}
		if !known || rank < best {
			best = rank
		}
		l.rank[id], l.latest[id] = best, len(l.ids)
		l.ids = append(l.ids, id)
	}
}

// text adds the identifiers of one text, those of a list with the last rank.
func (l *ledger) text(rank int, ids []string) {
	once := map[string]bool{}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		was := once[id]
		once[id] = true
		return was
	})
	if len(ids) > manyInText && rank != ofSummary {
		rank = ofLists
	}
	l.add(rank, slices.All(ids))
}

func (l *ledger) message(m transcript.Message) {
	for i, b := range m.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			switch {
			case isMadeUp(m, i, plain(b.Text)):
			case m.Role == transcript.RoleUser:
				l.text(ofUser, identifiers(b.Text))
			default:
				l.text(ofTalk, identifiers(b.Text))
			}
		case transcript.ToolCallBlock:
			var in marks
			in.input(b.Input)
			l.text(ofTalk, in.said)
			l.text(ofChanges, changedPaths(b))
		case transcript.ToolResultBlock:
			switch text := plain(b.Text()); {
			case !b.IsError:
				l.text(ofResults, identifiers(text))
			case text != rebuild.Interrupted:
				l.text(ofErrors, identifiers(text))
			}
		case transcript.DocumentBlock:
			l.text(ofUser, identifiers(b.Title+" "+b.Source.URL))
		case transcript.ImageBlock:
			l.text(ofUser, identifiers(b.Source.URL))
		case transcript.ContextBlock:
			l.text(ofTalk, identifiers(b.URI))
		}
	}
}

// Names of tools that write, and names of arguments that only these have.
var (
	writes  = regexp.MustCompile(`(?i)write|edit|create|patch|replace|insert|delete|remove|move|rename|save|append|update`)
	written = []string{"content", "contents", "file_text", "new_str", "new_string", "newText", "new_text", "old_str", "old_string", "edits", "patch", "diff"}
)

// changedPaths returns the paths that a call writes to, as far as its name and
// its input show that.
func changedPaths(c transcript.ToolCallBlock) []string {
	var args map[string]any
	if json.Unmarshal(c.Input, &args) != nil {
		return nil
	}
	if !writes.MatchString(c.Name) && !slices.ContainsFunc(written, func(name string) bool { return args[name] != nil }) {
		return nil
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		s, ok := args[name].(string)
		if ok && !slices.Contains(written, name) && (isPathArgument(s) || isFileArgument(s)) {
			paths = append(paths, s)
		}
	}
	return paths
}

// isFileArgument reports whether a whole argument is the name of a file.
func isFileArgument(s string) bool {
	id, ok := identifier(s)
	return ok && id == s && isFileName(s) && !strings.ContainsFunc(s, isSpace)
}

// without returns what of c a summary does not mention, or an extract only in
// its own list: what is left out of that later would have lost its rank.
func (c carried) without(summary string) carried {
	known := map[string]int{}
	for i, section := range parseExtract(summary).sections {
		for _, item := range section.items {
			ids := identifiers(item)
			if i == mentioned {
				ids = []string{item}
			}
			for _, id := range ids {
				if rank, ok := known[id]; !ok || sectionRanks[i] < rank {
					known[id] = sectionRanks[i]
				}
			}
		}
	}
	for rank := range c {
		c[rank] = slices.DeleteFunc(slices.Clone(c[rank]), func(id string) bool {
			at, ok := known[id]
			return ok && (at < ofLists || rank == ofLists) || strings.Contains(id, " ") && strings.Contains(summary, id)
		})
	}
	return c
}

// within returns what of c has at most so many tokens: of each rank the newest,
// those first that no listing of files shows again.
func (c carried) within(most int, counter tokens.Counter) carried {
	if most <= 0 {
		return carried{}
	}
	type item struct{ rank, index, cost int }
	var chosen, rest []item
	empty := countText(counter, "-")
	for rank, ids := range c {
		left := most * rankShares[rank] / 100
		for _, paths := range []bool{false, true} {
			for i, id := range ids {
				if isPathLike(id) != paths {
					continue
				}
				cost := max(countText(counter, "- "+id)-empty, 0)
				if it := (item{rank, i, cost}); cost <= left {
					left -= cost
					chosen = append(chosen, it)
				} else {
					left = 0
					rest = append(rest, it)
				}
			}
		}
	}
	chosen = append(chosen, rest...)
	pick := func(n int) (p carried) {
		for _, it := range slices.SortedFunc(slices.Values(chosen[:n]), func(a, b item) int { return a.index - b.index }) {
			p[it.rank] = append(p[it.rank], c[it.rank][it.index])
		}
		return p
	}
	n := largest(len(chosen), func(n int) bool { return countText(counter, pick(n).String()) <= most })
	return pick(n)
}

// isPathLike reports whether an identifier is one of a file.
func isPathLike(id string) bool {
	return !strings.Contains(id, "://") && (strings.ContainsAny(id, `/\`) || isFileName(id)) && !strings.ContainsAny(id, "@#")
}
