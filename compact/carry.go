package compact

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// carried holds the items that code carries because a summary may lose them:
// items of the last compaction and of the summarised messages, the oldest first.
type carried struct {
	said, rules, files, errors, ids []transcript.Carried

	// The rated forms of said and rules. open are the texts of the unfinished turn.
	texts, open, instructions []rated
}

func (o Options) carry(h rebuild.History, c Cut, done *transcript.Compaction) transcript.Message {
	kept := map[string]bool{} // entries that are shown
	for _, m := range h.Messages[c.At:] {
		for _, at := range m.Origins {
			kept[at.Entry] = at.Entry != ""
		}
	}
	all := o.gather(h, c, kept)
	summary, _ := recalltool.Cut(done.Summary) // of a larger attempt
	done.Pins = slices.DeleteFunc(slices.Clone(o.Pins), func(p transcript.Carried) bool { return kept[p.Entry] })
	room := c.MaxCarried
	if len(done.Pins) > 0 {
		room += countText(o.Counter, rebuild.CarriedText(transcript.Compaction{Pins: done.Pins}))
	}
	// The sizes of items add up to about the size of their text.
	for most := c.MaxCarried; most > 0; {
		all.fit(most, o.Counter, done)
		size := countText(o.Counter, rebuild.CarriedText(*done))
		if size <= room {
			return o.shown(h, c, all, summary, done)
		}
		most = min(most*63/64, int(int64(most)*int64(room)/int64(size)))
	}
	done.Said, done.Rules, done.Files, done.Errors, done.IDs = nil, nil, nil, nil, nil
	return o.shown(h, c, all, summary, done)
}

// shown adds the notice about the reading tools to the summary and returns the message
// that a compaction becomes.
func (o Options) shown(h rebuild.History, c Cut, all *carried, summary string, done *transcript.Compaction) transcript.Message {
	if done.Summary = summary; o.Recall {
		done.Summary += "\n" + all.left(h, c, done).Notice()
	}
	m := transcript.UserText(neutral.SummaryHeading + "\n" + done.Summary)
	if text := rebuild.CarriedText(*done); text != "" {
		m.Content = append(m.Content, transcript.TextBlock{Text: text})
	}
	return m
}

// left counts the messages, mentions of files and texts that a compaction omits.
func (all *carried) left(h rebuild.History, c Cut, done *transcript.Compaction) (l recalltool.Left) {
	if h.Compaction != nil {
		_, l = recalltool.Cut(h.Compaction.Summary)
	}
	l.Texts = 0
	for _, m := range h.Messages[:c.At] {
		if slices.ContainsFunc(m.Origins, func(at transcript.Origin) bool { return at.Batch > 0 }) {
			l.Messages++
		}
	}
	named := map[string]bool{}
	for _, f := range done.Files {
		named[f.Text] = true
	}
	for _, f := range all.files {
		if !named[f.Text] {
			l.Files++
		}
		named[f.Text] = true
	}
	for _, i := range done.Said {
		if slices.ContainsFunc(divide(i.Text), func(u unit) bool { return u.kind == aNote }) {
			l.Texts++
		}
	}
	return l
}

func (o Options) gather(h rebuild.History, c Cut, shown map[string]bool) *carried {
	all := &carried{}
	covered := rebuild.History{Messages: h.Messages[:c.At]}
	open := openFrom(covered, c.Split)
	if last := h.Compaction; last != nil {
		all.said, all.rules, all.files = slices.Clone(last.Said), slices.Clone(last.Rules), slices.Clone(last.Files)
		all.errors, all.ids = slices.Clone(last.Errors), slices.Clone(last.IDs)
	}
	for i := range all.said {
		all.said[i].Open = all.said[i].Open && open < 0
	}
	var answers []string
	for i, m := range h.Messages {
		next := h.Messages[i+1 : min(i+2, len(h.Messages))]
		switch {
		case i >= c.At && m.Role == transcript.RoleAssistant:
			(&carried{}).note(m, next, o, &all.rules) // a newer version is shown
		case m.Role == transcript.RoleUser && i < c.At:
			for _, line := range userLines(m) {
				text := masked(line.Text)
				line.Text, line.Open = clip(text, mostSaid), i >= open
				if line.Text != text {
					all.name(line.Entry, text)
				}
				if i > 0 && isShort(line.Text) {
					line.To, line.ToEntry = questionOf(h.Messages[i-1])
				}
				all.said = append(all.said, line)
			}
		case m.Role == transcript.RoleAssistant:
			all.note(m, next, o, &all.rules)
			answers = append(answers, m.Text())
		}
	}
	modified := map[string]bool{}
	for _, f := range all.files {
		modified[f.Text] = modified[f.Text] || f.Modified
	}
	for _, list := range []*[]transcript.Carried{&all.said, &all.rules, &all.files, &all.errors, &all.ids} {
		*list = newestOf(*list, shown)
	}
	for i, f := range all.files {
		all.files[i].Modified = modified[f.Text]
	}
	for _, t := range rate(slices.Concat(all.rules, all.said), answers, o.Counter) {
		list := &all.texts
		switch {
		case t.Path != "":
			list = &all.instructions
		case t.Open:
			list = &all.open
		}
		*list = append(*list, t)
	}
	if o.Recall {
		lead(all.texts, c.MaxCarried/leadPart)
	}
	return all
}

// openFrom returns the first message of the turn that continues after the
// summarised part: -1 if the turn began earlier, the number of messages if no
// turn continues.
func openFrom(covered rebuild.History, split bool) int {
	n := len(covered.Messages)
	if !split && !unanswered(covered.Messages) {
		return n
	}
	for i := n - 1; i >= 0; i-- {
		if covered.StartsTurn(i) && !unanswered(covered.Messages[:i]) && len(userLines(covered.Messages[i])) > 0 {
			return i
		}
	}
	return -1
}

// newestOf returns the items whose entries are neither shown nor erased. Of equal
// items it keeps the last.
func newestOf(items []transcript.Carried, shown map[string]bool) (list []transcript.Carried) {
	known := map[[4]string]bool{}
	for _, i := range slices.Backward(items) {
		if key := [4]string{i.Tool, i.Path, i.Text, i.To}; !shown[i.Entry] && !known[key] && i.Text != transcript.ErasedText {
			known[key] = true
			list = append(list, i)
		}
	}
	slices.Reverse(list)
	return list
}

func (all *carried) name(entry, text string) {
	for _, id := range identifiers(text) {
		all.ids = append(all.ids, transcript.Carried{Entry: entry, Text: id})
	}
}

func userLines(m transcript.Message) (lines []transcript.Carried) {
	for i, b := range m.Content {
		at := transcript.Origin{Batch: 1}
		if i < len(m.Origins) {
			at = m.Origins[i]
		}
		text := ""
		switch b := b.(type) {
		case transcript.TextBlock:
			text = plain(b.Text)
		case transcript.ImageBlock:
			text = "[image: " + describeSource(b.Source) + "]"
		case transcript.DocumentBlock:
			text = "[document: " + oneLine(b.Title+" "+describeSource(b.Source), 200) + "]"
		}
		if at.Batch == 0 || at.Block == transcript.WholeEntry || at.Block == transcript.PromptEntry || blank(text) {
			continue // made up, a late result, or a system prompt
		}
		if n := len(lines); n > 0 && lines[n-1].Entry == at.Entry {
			lines[n-1].Text += "\n" + text
		} else {
			lines = append(lines, transcript.Carried{Entry: at.Entry, Text: text})
		}
	}
	return lines
}

// unanswered reports whether messages end with a turn without an answer, or
// without an answer after its calls.
func unanswered(msgs []transcript.Message) bool {
	if len(msgs) == 0 {
		return false
	}
	last := msgs[len(msgs)-1]
	return last.Role != transcript.RoleAssistant || len(last.ToolCalls()) > 0 || blank(last.Text())
}

// note collects the calls of an answer and their results, which are in the next
// message, if any. For a file of instructions it keeps the text read last,
// unless the file was modified since.
func (all *carried) note(m transcript.Message, next []transcript.Message, o Options, rules *[]transcript.Carried) {
	results := map[string]transcript.ToolResultBlock{}
	entries := map[string]string{}
	for _, n := range next {
		for i, b := range n.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok && i < len(n.Origins) && n.Origins[i].Batch > 0 {
				results[r.CallID], entries[r.CallID] = r, n.Origins[i].Entry
			}
		}
	}
	for i, b := range m.Content {
		call, ok := b.(transcript.ToolCallBlock)
		if !ok || i >= len(m.Origins) {
			continue
		}
		r, answered := results[call.ID]
		if r.IsError {
			text := clip(masked(plain(r.Text())), defaultResults)
			all.errors = append(all.errors, transcript.Carried{Entry: entries[call.ID], Text: text, Tool: label(call.Name)})
			continue
		}
		read, modified := o.Files(call)
		for n, path := range slices.Concat(read, modified) {
			instructs := o.Instructions(path)
			path = masked(path)
			all.files = append(all.files, transcript.Carried{Entry: m.Origins[i].Entry, Text: path, Modified: n >= len(read)})
			text := plain(r.Text())
			if !instructs || isClipped(text) {
				continue
			}
			*rules = slices.DeleteFunc(*rules, func(r transcript.Carried) bool { return r.Path == path })
			if answered && len(read) == 1 && len(modified) == 0 {
				*rules = append(*rules, transcript.Carried{Entry: entries[call.ID], Text: clip(masked(text), mostSaid), Path: path})
			}
		}
	}
}

// isClipped reports whether a result is the one-line note of a clip. An older text
// of the file is then better.
func isClipped(text string) bool {
	return strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") && !strings.Contains(text, "\n")
}

// The most tokens of one error: the first that leaves room for all errors, or
// else the last.
var errorSizes = []int{100, 70, 50}

// mostSaid limits the runes read of a text of the user, but not its
// identifiers.
const mostSaid = 32_000

// fit fills a compaction up to the tokens allowed. The unfinished turn gets at most
// half, and files of instructions a quarter. With the other texts of the user they
// get four fifths, and all that the ledger leaves.
func (all *carried) fit(most int, counter tokens.Counter, done *transcript.Compaction) {
	open, used := newestWhole(all.open, most/2)
	rules, n := choose(all.instructions, true)(min(most/4, most*4/5-used))
	used += n
	done.Rules = rules
	choose := choose(all.texts, false)
	said, n := choose(most*4/5 - used)
	done.Said = slices.Concat(said, open)
	n = all.ledger(min(most-used-n, most/2), counter, done)
	said, _ = choose(most - used - n)
	done.Said = slices.Concat(said, open)
	done.IDs = unnamed(done.IDs, done)
}

// ledger fills a compaction with at most left tokens of other items, and returns
// their size: two thirds are for paths, then a quarter for identifiers, then errors.
func (all *carried) ledger(left int, counter tokens.Counter, done *transcript.Compaction) int {
	b := budget{counter: counter, empty: countText(counter, "-")}
	var read, changed []transcript.Carried
	for _, f := range all.files {
		if f.Modified {
			changed = append(changed, f)
		} else {
			read = append(read, f)
		}
	}
	room := left * 2 / 3 // up to a quarter of it for the files read last
	_, more := b.files(read, room/4)
	changed, used := b.files(changed, room-more)
	read, more = b.files(read, room-used)
	done.Files = slices.Concat(changed, read)
	used += more

	done.IDs, more = b.newest(all.lost(done), (left-used)/4, nil)
	used += more
	done.Errors, more = b.newest(all.errors, left-used, errorSizes)
	return used + more
}

// lost returns the identifiers of texts that are not carried whole.
func (all *carried) lost(done *transcript.Compaction) []transcript.Carried {
	whole := map[string]bool{}
	for _, i := range done.Said {
		whole[i.Text] = true
	}
	named := carried{ids: slices.Clone(all.ids)}
	for _, s := range all.said {
		if !whole[s.Text] {
			named.name(s.Entry, s.Text)
		}
	}
	return newestOf(unnamed(named.ids, done), nil)
}

// unnamed drops the identifiers that texts of the user or paths contain.
func unnamed(ids []transcript.Carried, done *transcript.Compaction) []transcript.Carried {
	var shown strings.Builder
	for _, i := range slices.Concat(done.Said, done.Files) {
		shown.WriteString(i.Text + "\n")
	}
	return slices.DeleteFunc(ids, func(i transcript.Carried) bool { return strings.Contains(shown.String(), i.Text) })
}

// budget measures items.
type budget struct {
	counter tokens.Counter
	empty   int // the size of an empty item
}

func (b budget) size(text string) int {
	return max(countText(b.counter, "- "+text)-b.empty, 0)
}

// files returns the newest paths that fit into most tokens together, and their size. A
// folder counts once.
func (b budget) files(items []transcript.Carried, most int) (list []transcript.Carried, used int) {
	known := map[string]bool{}
	for _, i := range slices.Backward(items) {
		end := strings.LastIndexAny(i.Text, `/\`) + 1
		dir, name := i.Text[:end], i.Text[end:]
		size := b.size(strconv.Quote(name))
		if !known[dir] {
			size += b.size(strconv.Quote(dir))
		}
		if used+size > most {
			break
		}
		known[dir] = true
		used += size
		list = append(list, i)
	}
	slices.Reverse(list)
	return list, used
}

// newest returns the newest items that fit into most tokens together, and their size.
// It cuts long items in the middle, all to the same size: the first that leaves room
// for all items, or the last. Without sizes it cuts nothing.
func (b budget) newest(items []transcript.Carried, most int, sizes []int) (list []transcript.Carried, used int) {
	for at := range max(len(sizes), 1) {
		list, used = nil, 0
		for _, i := range slices.Backward(items) {
			if len(sizes) > 0 {
				i.Text = b.clip(i.Text, min(sizes[at], most-used))
			}
			text := i.Text // as it is shown
			if sizes == nil || i.Tool != "" {
				text = i.Tool + strconv.Quote(text)
			}
			size := b.size(text)
			if i.Text == "" || used+size > most {
				break
			}
			used += size
			list = append(list, i)
		}
		if len(list) == len(items) {
			break
		}
	}
	slices.Reverse(list)
	return list, used
}

// clip shortens a text in its middle to at most most tokens. The result is empty
// if too little to be useful would be left.
func (b budget) clip(text string, most int) string {
	cut, size := text, b.size(text)
	for keep := utf8.RuneCountInString(text); size > most; size = b.size(cut) {
		if keep = min(keep*max(most, 0)/size, keep-keep/16-1); keep < minShown {
			return ""
		}
		cut = clipTo(text, keep, keep/2)
	}
	return cut
}

// minShown is the fewest runes of a text that are worth showing.
const minShown = 20
