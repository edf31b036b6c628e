package compact_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// notesSeed was committed before anything was tuned to it.
const notesSeed = 3141

// note is a fact from the user or a file, word for word. A newer note with the same
// key replaces it.
type note struct {
	kind, key string
	texts     []string
}

// notes makes conversations of people who plan a journey, a house, their studies or
// a feast, from the sentences of testdata/notes. Facts and talk share their words.
type notes struct {
	*rand.Rand
	slots, sentences map[string][]string
	turn             int
	live             map[string]note
	fixes            []fix // corrections still to come
}

type fix struct {
	key, template string
	slots         map[string]string
}

func newNotes(t *testing.T, language string) *notes {
	n := &notes{
		Rand: rand.New(rand.NewPCG(notesSeed, 1)), live: map[string]note{},
		slots: map[string][]string{}, sentences: map[string][]string{},
	}
	data, err := os.ReadFile(filepath.Join("testdata", "notes", language+".txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if name, values, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "@") {
			n.slots[name[1:]] = strings.Split(values, " | ")
			continue
		}
		kind, text, ok := strings.Cut(line, ": ")
		require.True(t, ok, line)
		list := []string{text}
		if kind == "reply" || kind == "thanks" || kind == "paste" {
			list = strings.Split(text, " | ")
		}
		n.sentences[kind] = append(n.sentences[kind], list...)
	}
	return n
}

func (n *notes) one(list []string) string { return list[n.IntN(len(list))] }

var slot = regexp.MustCompile(`\{([a-z]+)\d?\}`)

// fill replaces the slots of a template. Equal slots get the same value, other slots
// of the same list different ones.
func (n *notes) fill(template string, known map[string]string) string {
	text := slot.ReplaceAllStringFunc(template, func(name string) string {
		if known[name] == "" {
			list := n.slots[slot.FindStringSubmatch(name)[1]]
			value := n.one(list)
			for slices.Contains(slices.Collect(maps.Values(known)), value) {
				value = n.one(list)
			}
			known[name] = value
		}
		return known[name]
	})
	for i, r := range text {
		return strings.ToUpper(string(r)) + text[i+len(string(r)):]
	}
	return text
}

func (n *notes) say(kind string) string {
	return n.fill(n.one(n.sentences[kind]), map[string]string{})
}

func (n *notes) several(kind string, least, most int, sep string) string {
	var list []string
	for range least + n.IntN(most-least+1) {
		list = append(list, n.say(kind))
	}
	return strings.Join(list, sep)
}

func (n *notes) remember(kind, key string, texts ...string) {
	n.live[key] = note{kind, key, texts}
}

// fact returns a sentence to remember.
func (n *notes) fact() string {
	if len(n.fixes) > 0 && n.IntN(4) == 0 {
		at := n.IntN(len(n.fixes))
		f := n.fixes[at]
		n.fixes = slices.Delete(n.fixes, at, at+1)
		text := n.fill(f.template, f.slots)
		n.remember("correction", f.key, text)
		return text
	}
	kind := n.one([]string{"constraint", "decision", "later"})
	at, slots := n.IntN(len(n.sentences[kind])), map[string]string{}
	template, correction, ok := strings.Cut(n.sentences[kind][at], " ## ")
	text := n.fill(template, slots)
	// The first two slots name the subject: another value for it would contradict.
	subject := slot.FindAllString(template, 2)
	for i, m := range subject {
		subject[i] = slots[m]
	}
	key := fmt.Sprint(kind, at, subject)
	n.fixes = slices.DeleteFunc(n.fixes, func(f fix) bool { return f.key == key })
	if ok {
		n.fixes = append(n.fixes, fix{key, correction, slots})
	}
	n.remember(kind, key, text)
	return text
}

// message is a text of the user with several sentences, lines or a list.
func (n *notes) message() string {
	list := []string{n.say("chat")}
	for range n.IntN(6) {
		list = append(list, n.say("chat"))
	}
	if n.IntN(3) == 0 {
		list = slices.Insert(list, n.IntN(len(list)+1), n.fact())
	}
	switch n.IntN(4) {
	case 0:
		return strings.Join(list, "\n")
	case 1:
		return list[0] + "\n\n- " + strings.Join(list[1:], "\n- ")
	case 2:
		return strings.Join(list, " ") + "\n" + n.one(n.sentences["thanks"])
	}
	return strings.Join(list, " ")
}

// paste is a text of 1,000 to 4,000 tokens, with a constraint in the middle.
func (n *notes) paste() string {
	kind, sep := "row", "\n"
	if n.IntN(2) == 0 {
		kind, sep = "prose", " "
	}
	size := 1_000 + n.IntN(3_000)
	fact := n.fill(n.one(n.sentences["constraint"]), map[string]string{})
	var list []string
	for i := 0; i < size; {
		text := n.say(kind)
		if n.IntN(8) == 0 && kind == "prose" {
			text += "\n\n"
		}
		list, i = append(list, text), i+sizeOf(text)
	}
	n.remember("paste of "+kind+"s", fact, fact)
	at := len(list)/4 + n.IntN(len(list)/2)
	return n.one(n.sentences["paste"]) + "\n" + strings.Join(slices.Insert(list, at, fact), sep)
}

// next returns the items of the next turn.
func (n *notes) next() []transcript.Item {
	n.turn++
	said := ""
	if n.IntN(25) > 0 {
		said = n.message()
	} else if said = n.paste(); n.IntN(2) == 0 {
		said += "\n\n" + n.say("chat")
	}
	items := []transcript.Item{transcript.UserText(said)}
	if n.turn%40 == 3 { // each file is read twice, and changed in between
		path, text := []string{"AGENTS.md", "docs/CLAUDE.md"}[n.turn/80%2], ""
		maps.DeleteFunc(n.live, func(key string, _ note) bool { return strings.HasPrefix(key, path) })
		for range 6 {
			rule := n.say("rule")
			n.remember("file", path+rule, rule)
			text += "- " + rule + "\n"
		}
		items = append(items, n.read(path, text)...)
	} else if n.IntN(3) == 0 {
		items = append(items, n.read(fmt.Sprintf("plans/part%d.md", n.IntN(40)), n.several("prose", 10, 60, "\n"))...)
	}
	items = append(items, transcript.AssistantText(n.several("answer", 5, 16, " ")))
	if n.IntN(8) == 0 {
		question, reply := n.say("ask"), n.one(n.sentences["reply"])
		items[len(items)-1] = transcript.AssistantText(n.several("answer", 3, 8, " ") + "\n\n" + question)
		items = append(items, transcript.UserText(reply), transcript.AssistantText(n.say("answer")))
		n.remember("answer", question, question, reply)
	}
	return items
}

func (n *notes) read(path, text string) []transcript.Item {
	id := fmt.Sprint("read", n.turn)
	return []transcript.Item{called(id, "read", fmt.Sprintf(`{"path":%q}`, path)), transcript.ToolResult(id, text)}
}
