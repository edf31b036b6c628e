package compact

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
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
				for _, m := range carriedItem.Get().FindAllStringSubmatch(rest, maxOfRank) {
					c[rank] = append(c[rank], m[1]+m[2])
				}
			}
		}
	}
	return summary[:at], c
}

// carriedItem is one of a line: in quotes if it has spaces.
var carriedItem = lazy.New(` (?:"([^"]+)"|([^ "]+))`)

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
	for i, m := range slices.Backward(l.mentions) {
		rank := l.rank[m.key]
		if l.latest[m.key] != i || len(all[rank]) == maxOfRank {
			continue
		}
		if rank > ofErrors {
			m.id = m.key
		}
		all[rank] = append(all[rank], m.id)
	}
	return all
}

// sectionRanks are the ranks of the sections of an extract. A summary that is
// none has only an earlier one.
var sectionRanks = [sectionCount]int{
	earlier: ofSummary, firstRequest: ofUser, userSaid: ofUser, mentioned: ofLists,
	toolErrors: ofErrors, lastAnswer: ofTalk, openCalls: ofTalk,
}

// ledger collects identifiers, the oldest first. Lines of a file move, so the
// file is one identifier whatever line of it was mentioned, but for what the
// user wrote; only errors keep the line, the last one.
type ledger struct {
	mentions []mention
	latest   map[string]int // key -> where in mentions it is last
	rank     map[string]int // key -> the best one
	seen     map[string]int // key -> in how many texts
}

type mention struct{ id, key string }

// keyOf returns what tells an identifier from others in a place of that rank.
func keyOf(rank int, id string) string {
	if rank == ofUser {
		return id
	}
	return withoutLine(id)
}

func (l *ledger) add(rank int, ids func(func(int, string) bool)) {
	for _, id := range ids {
		if strings.ContainsAny(id, "\"\n") {
			continue
		}
		key := keyOf(rank, id)
		best, known := l.rank[key]
		if l.seen[key]++; l.seen[key] == oftenInText && rank > ofTalk && !isDotted(id) {
			best = max(best-1, ofTalk)
		}
		if rank := worth(rank, id); !known || rank < best {
			best = rank
		}
		l.rank[key], l.latest[key] = best, len(l.mentions)
		l.mentions = append(l.mentions, mention{id, key})
	}
}

// worth is the rank of an identifier that was seen in a place of that rank. A
// program in a dotted language is full of names like self.items, which look like
// those of files: unless the user wrote it, such a one is the first to go.
func worth(rank int, id string) int {
	if rank > ofUser && isDotted(id) {
		return ofLists
	}
	return rank
}

// text adds the identifiers of one text, those of a list with the last rank.
func (l *ledger) text(rank int, ids []string) {
	once := map[string]bool{}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		key := keyOf(rank, id)
		was := once[key]
		once[key] = true
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
	writes  = lazy.New(`(?i)write|edit|create|patch|replace|insert|delete|remove|move|rename|save|append|update`)
	written = []string{"content", "contents", "file_text", "new_str", "new_string", "newText", "new_text", "old_str", "old_string", "edits", "patch", "diff"}
)

// changedPaths returns the paths that a call writes to, as far as its name and
// its input show that.
func changedPaths(c transcript.ToolCallBlock) []string {
	var args map[string]any
	if json.Unmarshal(c.Input, &args) != nil {
		return nil
	}
	if !writes.Get().MatchString(c.Name) && !slices.ContainsFunc(written, func(name string) bool { return args[name] != nil }) {
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
// its own list: an item dropped from that list later would have lost its rank.
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

// within returns the part of c that fits into most tokens: the most valuable
// items of each rank first, then of all ranks together.
func (c carried) within(most int, counter tokens.Counter) carried {
	if most <= 0 {
		return carried{}
	}
	type item struct{ rank, index, place int }
	var chosen, rest []item
	empty := countText(counter, "-")
	for rank, ids := range c {
		left := most * rankShares[rank] / 100
		order, place := byWorth(ids)
		for _, i := range order {
			it := item{rank, i, place[i]}
			if cost := max(countText(counter, "- "+ids[i])-empty, 0); cost <= left {
				left -= cost
				chosen = append(chosen, it)
			} else {
				left = 0
				rest = append(rest, it)
			}
		}
	}
	slices.SortStableFunc(rest, func(a, b item) int { return a.place - b.place })
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

// How many identifiers of a sort are worth as much as each other: see byWorth.
const (
	namesTogether   = 16
	foldersTogether = 16
	filesTogether   = 2 // of one folder
)

// byWorth returns the indexes of identifiers, of which the newest are first, in
// the order in which they are worth their room, and where in it each is. The
// newest names and the newest files of the newest folders are worth the same:
// neither a name of long ago nor the tenth file of a folder comes before them.
func byWorth(ids []string) (order, place []int) {
	place = make([]int, len(ids))
	order = make([]int, len(ids))
	names := 0
	type files struct{ folder, n int }
	in := map[string]files{}
	for i, id := range ids {
		order[i] = i
		switch kindOf(id) {
		case aName:
			place[i] = names / namesTogether
			names++
		case aPath:
			folder := id[:strings.LastIndexAny(id, `/\`)+1]
			f, known := in[folder]
			if !known {
				f.folder = len(in)
			}
			place[i] = f.folder/foldersTogether + f.n/filesTogether
			f.n++
			in[folder] = f
		case aDotted:
			place[i] = maxOfRank
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return place[a] - place[b] })
	return order, place
}

// identifierKind says what an identifier is like.
type identifierKind int

const (
	aName   identifierKind = iota
	aPath                  // a listing of files shows it again
	aDotted                // the program itself does
)

func kindOf(id string) identifierKind {
	switch {
	case isDotted(id):
		return aDotted
	case strings.Contains(id, "://") || strings.ContainsAny(id, "@#"):
		return aName
	case strings.ContainsAny(id, `/\`) || isFileName(id):
		return aPath
	}
	return aName
}
