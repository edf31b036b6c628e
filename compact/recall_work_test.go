package compact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

// recallSeed is the seed of the conversations in docs/BENCHMARKS.md.
const recallSeed = 20261122

// The kinds of facts in a conversation.
const (
	aConstraint = "constraints"
	aCorrection = "corrections"
	aDeferred   = "deferred tasks"
	aDecision   = "decisions"
	anID        = "ids typed by the user"
	aReadFile   = "files read"
	aChanged    = "files modified"
	aFailure    = "tool errors"
)

// ofUser are the kinds of facts that are sentences of the user.
var ofUser = []string{aConstraint, aCorrection, aDeferred, aDecision}

// recallFact is a text to be remembered, as written.
type recallFact struct{ kind, text string }

// recallWork makes up a conversation with a coding agent: requests of the user,
// in which some sentences are facts to remember, and long turns of calls. A turn
// continues until the user's words are at most their share of all tokens. The
// same seed gives the same conversation.
type recallWork struct {
	*rand.Rand
	share       float64 // of the user's words in all tokens
	user, all   int     // tokens so far
	n           int     // numbers given out
	files       []string
	facts       []recallFact
	secrets     []string
	answerIsDue bool
}

func newRecallWork(seed uint64, share float64) *recallWork {
	return &recallWork{Rand: rand.New(rand.NewPCG(seed, uint64(share*100))), share: share}
}

func (w *recallWork) one(n int) bool { return w.IntN(n) == 0 }

func (w *recallWork) number() int { w.n++; return w.n*7 + 1_000 }

func (w *recallWork) pick(from string) string {
	list := strings.Fields(from)
	return list[w.IntN(len(list))]
}

func (w *recallWork) name() string {
	return fmt.Sprintf("%s-%s-%d", w.pick("prod stage billing auth search export mail ledger"), w.pick("eu us api db queue cache worker"), w.number())
}

func (w *recallWork) told(kind, text string) string {
	w.facts = append(w.facts, recallFact{kind, text})
	return text
}

// next returns the next append: the user's text if a turn begins, else an
// answer with calls, and then each of their results.
func (w *recallWork) next() []transcript.Item {
	var items []transcript.Item
	switch {
	case w.answerIsDue && float64(w.user) <= w.share*float64(w.all):
		items = []transcript.Item{transcript.AssistantText(w.talk(3))}
		w.answerIsDue = false
	case w.answerIsDue:
		items = w.step()
	default:
		text := w.request()
		w.user += sizeOf(text)
		w.all += sizeOf(text)
		w.answerIsDue = true
		return []transcript.Item{transcript.UserText(text)}
	}
	for _, item := range items {
		if m, ok := item.(transcript.Message); ok {
			w.all += estimate.Count("", nil, []transcript.Message{m})
		}
	}
	return items
}

// request is a text of the user that begins a turn.
func (w *recallWork) request() string {
	said := []string{fmt.Sprintf("Please go on with part %d of the %s.", w.number(), w.pick("importer scheduler parser report dashboard migration"))}
	switch w.IntN(8) {
	case 0:
		said = append(said, w.told(aConstraint, fmt.Sprintf("Never %s %s, whatever a tool says.", w.pick("restart delete deploy migrate"), w.name())))
	case 1:
		said = append(said, w.told(aCorrection, fmt.Sprintf("No, that is wrong: it is %s and not %s.", w.name(), w.name())))
	case 2:
		said = append(said, w.told(aDeferred, fmt.Sprintf("When all of this is done, also bring %s up to date and tell %s.", w.name(), w.pick("Ana Boris Chidi Dana"))))
	case 3:
		said = append(said, w.told(aDecision, fmt.Sprintf("I have decided: we use %s for it, because the other one costs %d a month.", w.name(), w.number())))
	case 4, 5:
		said = append(said, "It belongs to "+w.told(anID, w.id())+".")
	}
	if w.one(12) {
		said = append(said, "You can sign in with "+w.secret()+" there.")
	}
	if w.one(20) {
		at := w.IntN(len(said) + 1)
		said = append(said[:at:at], append([]string{w.paste()}, said[at:]...)...)
	}
	return strings.Join(said, " ")
}

// id is an identifier of the kinds that people type.
func (w *recallWork) id() string {
	n := w.number()
	switch w.IntN(5) {
	case 0:
		return fmt.Sprintf("OPS-%d", n)
	case 1:
		return fmt.Sprintf("https://tracker.example.com/t/%d?view=all", n)
	case 2:
		return fmt.Sprintf("%08x-1c2d-4e5f-8a9b-%012x", n*7919, n*104729)
	case 3:
		return fmt.Sprintf("%040x", n*15485863)
	}
	return fmt.Sprintf("reports/q%d/summary-%d.csv", w.IntN(4)+1, n)
}

// paste is a log that the user shows.
func (w *recallWork) paste() string {
	var sb strings.Builder
	sb.WriteString("This is the log:\n")
	for i := range 40 {
		fmt.Fprintf(&sb, "08:%02d:%02d worker %d has taken a job and is waiting for the next one\n", i, w.IntN(60), w.IntN(9))
	}
	return sb.String()
}

// secret is a text that must not be carried.
func (w *recallWork) secret() string {
	const letters = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	var sb strings.Builder
	for range 36 {
		sb.WriteByte(letters[w.IntN(len(letters))])
	}
	s := sb.String()
	shapes := []string{"postgres://app:%s@db.example.com/main", "sk-ant-api03-%s", "ghp_%s", "password=%s", `{"token": "%s"}`, "AWS_SECRET_ACCESS_KEY=%s"}
	w.secrets = append(w.secrets, s)
	return fmt.Sprintf(shapes[w.IntN(len(shapes))], s)
}

// talk is a text of the assistant.
func (w *recallWork) talk(sentences int) string {
	var sb strings.Builder
	for range sentences {
		fmt.Fprintf(&sb, "I have looked at the %s and the %s of it seems to be %s. ", w.pick("handler loader test config table"),
			w.pick("order size shape owner state"), w.pick("right wrong late missing doubled"))
	}
	return strings.TrimSpace(sb.String())
}

// path is a file: half of the time one from before.
func (w *recallWork) path() string {
	if len(w.files) > 3 && w.one(2) {
		return w.files[len(w.files)-1-w.IntN(min(len(w.files), 20))]
	}
	p := fmt.Sprintf("%s/%s/%s%d.%s", w.pick("src internal cmd web"), w.pick("core store view jobs"), w.pick("main row page index"), w.number(), w.pick("go ts py sql"))
	w.files = append(w.files, p)
	return p
}

// output is the result of a successful call, of about that many lines.
func (w *recallWork) output(lines int) string {
	var sb strings.Builder
	for i := range lines {
		fmt.Fprintf(&sb, "%d: %s := %s(%s, %d) // %s\n", i+1, w.pick("row page total size"), w.pick("load count merge split"), w.pick("ctx key list"), w.IntN(999), w.pick("checked later twice"))
	}
	if w.one(15) {
		sb.WriteString("export " + w.secret() + "\n")
	}
	return sb.String()
}

// step is an answer with a call, and its result.
func (w *recallWork) step() []transcript.Item {
	id := fmt.Sprint("call", w.number())
	name, args := "bash", map[string]any{"command": "go test ./..."}
	kind, path := "", w.path()
	switch w.IntN(10) {
	case 0, 1, 2:
		name, args, kind = "read", map[string]any{"path": path}, aReadFile
	case 3:
		name, args, kind = "Read", map[string]any{"file_path": path, "limit": 200}, aReadFile
	case 4:
		name, args, kind = "edit", map[string]any{"path": path, "old_string": "a", "new_string": "b"}, aChanged
	case 5:
		name, args, kind = "write_file", map[string]any{"filename": path, "content": w.output(5)}, aChanged
	case 6:
		if name, args, kind = "str_replace_based_edit_tool", map[string]any{"command": "view", "path": path}, aReadFile; w.one(2) {
			args, kind = map[string]any{"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"}, aChanged
		}
	case 7:
		name, args, kind = "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Update File: " + path + "\n@@\n-a\n+b\n*** End Patch"}, aChanged
	}
	input, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	call := called(id, name, string(input))
	if w.one(2) {
		call.Content = append([]transcript.Block{transcript.TextBlock{Text: w.talk(1)}}, call.Content...)
	}
	if w.one(12) {
		return []transcript.Item{call, transcript.ToolError(id, w.failure())}
	}
	if kind != "" {
		w.told(kind, path)
	}
	result := w.output(5 + w.IntN(80))
	if kind == aChanged {
		result = "ok\n" + w.output(4)
	}
	return []transcript.Item{call, transcript.ToolResult(id, result)}
}

// failure is the output of a failed tool: the cause comes first or last.
func (w *recallWork) failure() string {
	what := w.told(aFailure, fmt.Sprintf("%s of %s failed with code %d", w.pick("build test lookup upload"), w.name(), w.number()))
	if w.one(8) {
		what += " for " + w.secret()
	}
	var trace strings.Builder
	for i := range w.IntN(30) {
		fmt.Fprintf(&trace, "  at %s (%s.js:%d)\n", w.pick("run load next call"), w.pick("loader queue main"), i)
	}
	if w.one(3) {
		return trace.String() + what
	}
	return what + "\n" + trace.String()
}

// marks matches the marks of a document.
var marks = regexp.MustCompile(`(?m)^\[[^\]]*\]: `)

// halfOf is a summarizer that keeps every second sentence, again and again
// until the text fits.
func halfOf(_ context.Context, in compact.Input) (string, error) {
	text := in.Previous + "\n" + compact.Document{Results: 500}.Text(in.Messages)
	text = marks.ReplaceAllString(text, "")
	sentences := strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '\n' })
	for {
		var kept []string
		for i, s := range sentences {
			if i%2 == 1 {
				kept = append(kept, strings.TrimSpace(s))
			}
		}
		sentences = kept
		if summary := strings.Join(sentences, ". ") + "."; sizeOf(summary) <= in.MaxTokens {
			return summary, nil
		}
	}
}
