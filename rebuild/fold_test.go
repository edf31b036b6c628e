package rebuild_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

func TestFold(t *testing.T) {
	const ts = `"ts":"2026-11-20T08:00:00Z"`
	later := func(line string) string { return strings.Replace(line, "T08:00:00Z", "T08:00:01Z", 1) }
	tests := []struct {
		name   string
		opts   *rebuild.Options
		lines  []string
		want   string
		report string // rules, space separated; "" for none
		turns  int
	}{
		{
			name:  "plain turns keep their string content",
			lines: lines(user("1", "hi"), assistant("2", "hello"), user("3", "bye")),
			want:  "user hi\nassistant hello\nuser bye\n", turns: 2,
		},
		{
			name:  "lines that stand twice: one, all from the start, and some of an answer",
			lines: lines(user("1", "hi"), user("1", "hi"), answer("A", "", "a"), result("2", "a", "A"), user("1", "hi"), answer("A", "", "a"), result("2", "a", "A"), later(assistant("3", "done"))),
			want:  "user hi\nassistant call(a f {})\nuser result(a A)\nassistant done\n", turns: 1, report: "repeated-entry@1 repeated-entry@1 repeated-entry@A repeated-entry@2",
		},
		{
			name:  "one answer with calls, results in call order",
			lines: lines(user("1", "go"), answer("A", "look", "a", "b"), result("2", "b", "B"), result("3", "a", "A"), assistant("4", "done")),
			want:  "user go\nassistant [look] call(a f {}) call(b f {})\nuser result(a A) result(b B)\nassistant done\n", turns: 1,
		},
		{
			name:  "missing result of a whole answer",
			lines: lines(user("1", "go"), answer("A", "", "a", "b"), result("2", "b", "B"), user("3", "well?")),
			want:  "user go\nassistant call(a f {}) call(b f {})\nuser result!(a interrupted) result(b B) [well?]\n", turns: 1,
			report: "missing-result@A.a",
		},
		{
			name:  "steering text before the last result",
			lines: lines(user("1", "go"), answer("A", "", "a", "b"), result("2", "a", "A"), user("3", "hurry"), result("4", "b", "B"), assistant("5", "ok")),
			want:  "user go\nassistant call(a f {}) call(b f {})\nuser result(a A) result(b B) [hurry]\nassistant ok\n", turns: 1,
			report: "moved-result@4",
		},
		{
			name:  "a cut batch keeps text and calls that have results",
			lines: lines(user("1", "go"), answer("A", "look", "a", "b")[:2], result("2", "a", "A"), user("3", "next")),
			want:  "user go\nassistant [look] call(a f {})\nuser result(a A) [next]\n", turns: 1,
			report: "incomplete-batch@A incomplete-batch@A.a",
		},
		{
			name:  "a cut batch without results loses its calls",
			lines: lines(user("1", "go"), answer("A", "look", "a", "b")[:2], user("3", "next")),
			want:  "user go\nassistant [look]\nuser next\n", turns: 2,
			report: "incomplete-batch@A incomplete-batch@A.a unfinished-call@A.a",
		},
		{
			name: "an aborted answer with an unfinished call",
			lines: lines(user("1", "go"),
				`{"type":"assistant","id":"A",`+ts+`,"batch":2,"stop_reason":"aborted","content":[{"type":"text","text":"I wi"}]}`,
				`{"type":"tool_use","id":"A2",`+ts+`,"mid":"A","part":2,"tool_use_id":"a","name":"f","input":"{\"pa"}`,
				user("3", "again")),
			want: "user go\nassistant [I wi]\nuser again\n", turns: 2,
			report: "cut-answer@A unfinished-call@A2",
		},
		{
			name:  "results before their calls (mini-claw)",
			lines: lines(result("1", "x", "X"), user("2", "go"), assistant("3", "look"), `{"type":"tool_use","id":"4",`+ts+`,"tool_use_id":"x","name":"f","input":{}}`, assistant("5", "done")),
			want:  "user go\nassistant [look] call(x f {})\nuser result(x X)\nassistant done\n", turns: 1,
			report: "moved-result@1",
		},
		{
			name: "calls recorded twice (claw0)",
			lines: lines(user("1", "go"),
				`{"type":"assistant","id":"2",`+ts+`,"content":[{"type":"text","text":"look"},{"type":"tool_use","id":"A","name":"f","input":{"p": 1}},{"type":"tool_use","id":"B","name":"f","input":{}}]}`,
				`{"type":"tool_use","id":"3",`+ts+`,"tool_use_id":"A","name":"f","input":{"p":1}}`, result("4", "A", "ra"),
				`{"type":"tool_use","id":"5",`+ts+`,"tool_use_id":"B","name":"f","input":{}}`, result("6", "B", "rb"), assistant("7", "done")),
			want: "user go\nassistant [look] call(A f {\"p\": 1}) call(B f {})\nuser result(A ra) result(B rb)\nassistant done\n", turns: 1,
			report: "doubled-call@3 doubled-call@5",
		},
		{
			name: "IDs repeat across turns and across answers of one turn",
			lines: lines(user("1", "go"), answer("A", "", "c"), result("2", "c", "1"), answer("B", "", "c"), result("3", "c", "2"), assistant("4", "ok"),
				user("5", "more"), answer("C", "", "c"), result("6", "c", "3"), assistant("7", "ok")),
			want: "user go\nassistant call(c f {})\nuser result(c 1)\nassistant call(c f {})\nuser result(c 2)\nassistant ok\nuser more\nassistant call(c f {})\nuser result(c 3)\nassistant ok\n", turns: 2,
		},
		{
			name: "orphan, doubled and late results",
			lines: lines(user("1", "go"), answer("A", "", "a"), user("2", "stop"), assistant("3", "stopped"), user("4", "next"), result("5", "a", "late"),
				result("6", "nobody", "x"), assistant("7", "ok"), user("8", "u"), answer("B", "", "b"), result("9", "b", "1"), result("10", "b", "2")),
			want: "user go\nassistant call(a f {})\nuser result(a late) [stop]\nassistant stopped\nuser next\nassistant ok\nuser u\nassistant call(b f {})\nuser result(b 1)\n", turns: 3,
			report: "moved-result@5 orphan-result@6 doubled-result@10",
		},
		{
			name:  "assistant first, neighbours merged, blank texts and empty messages dropped",
			lines: lines(assistant("1", "hi"), assistant("2", "again"), user("3", " \n"), user("4", "a"), user("5", "b"), assistant("6", "")),
			want:  "user [conversation continues]\nassistant [hi] [again]\nuser [a] [b]\n", turns: 2,
			report: "blank-text@3 empty-message@3 merged-messages@2 assistant-first@1 blank-text@6 empty-message@6 merged-messages@5",
		},
		{
			name: "names and inputs",
			lines: lines(user("1", "go"),
				`{"type":"tool_use","id":"2",`+ts+`,"tool_use_id":"a","name":"my tool.x","input":null}`,
				`{"type":"tool_use","id":"3",`+ts+`,"tool_use_id":"b","name":"","input":[1]}`,
				`{"type":"tool_use","id":"4",`+ts+`,"tool_use_id":"c","name":"f","input":"{\"a\": 1}"}`),
			want: "user go\nassistant call(a my_tool_x {}) call(b tool {\"input\":[1]}) call(c f {\"a\":1})\nuser result!(a interrupted) result!(b interrupted) result!(c interrupted)\n", turns: 1,
			report: "bad-name@2 missing-result@2 bad-name@3 bad-input@3 missing-result@3 bad-input@4 missing-result@4",
		},
		{
			name:  "rewind, and a rewind to a rewound line undoes it",
			lines: lines(user("1", "a"), assistant("2", "b"), user("3", "c"), assistant("4", "d"), rewind("5", "2"), user("6", "e"), rewind("7", "4")),
			want:  "user a\nassistant b\nuser c\nassistant d\n", turns: 2,
		},
		{
			name:  "a rewind target inside a batch means the whole batch",
			lines: lines(user("1", "a"), answer("A", "t", "x"), result("2", "x", "X"), assistant("3", "d"), rewind("5", "A")),
			want:  "user a\nassistant [t] call(x f {})\nuser result!(x interrupted)\n", turns: 1,
			report: "missing-result@A.x",
		},
		{
			name:  "rewind to nothing that is there",
			lines: lines(user("1", "a"), rewind("2", "zz")),
			want:  "user a\n", turns: 1, report: "unresolved-rewind@2",
		},
		{
			name: "compaction by firstKeptEntryId",
			lines: lines(user("1", "a"), assistant("2", "b"), user("3", "c"), assistant("4", "d"),
				`{"type":"compaction","id":"5",`+ts+`,"summary":"S","firstKeptEntryId":"3","coversTo":"2","turnsBefore":1}`, user("6", "e")),
			want: "user [[Previous conversation summary]|S] [c]\nassistant d\nuser e\n", turns: 3,
			report: "merged-messages@3",
		},
		{
			name: "compaction by coversTo keeps late entries",
			lines: lines(user("1", "a"), assistant("2", "b"), user("3", "late"),
				`{"type":"compaction","id":"5",`+ts+`,"summary":"S","firstKeptEntryId":"gone","coversTo":"2"}`),
			opts: &rebuild.Options{Summary: rebuild.SummaryPair},
			want: "user [Previous conversation summary]|S\nassistant Understood, I have the context from our previous conversation.\nuser late\n", turns: 2,
		},
		{
			name: "compaction without a boundary keeps what follows",
			lines: lines(user("1", "a"), assistant("2", "b"),
				`{"type":"compaction","id":"5",`+ts+`,"summary":"S","firstKeptEntryId":"msg-11"}`, user("6", "e")),
			opts: &rebuild.Options{Summary: rebuild.SummarySystem},
			want: "system \"[Previous conversation summary]\\nS\"\nuser e\n", turns: 2,
			report: "unresolved-boundary@5",
		},
		{
			name: "the second compaction replaces the first",
			lines: lines(user("1", "a"), assistant("2", "b"),
				`{"type":"compaction","id":"3",`+ts+`,"summary":"S1","coversTo":"2"}`, user("4", "c"), assistant("5", "d"),
				`{"type":"compaction","id":"6",`+ts+`,"summary":"S2","firstKeptEntryId":"5","coversTo":"4"}`),
			want: "user [Previous conversation summary]|S2\nassistant d\n", turns: 2,
		},
		{
			name: "rewind before a compaction brings the messages back",
			lines: lines(user("1", "a"), assistant("2", "b"),
				`{"type":"compaction","id":"3",`+ts+`,"summary":"S1","coversTo":"2"}`, user("4", "c"), rewind("5", "2")),
			want: "user a\nassistant b\n", turns: 1,
		},
		{
			name: "results of calls before the cut do not reach later calls with the same ID",
			lines: lines(user("1", "a"), answer("A", "", "c"), result("2", "c", "old"), assistant("3", "b"),
				user("4", "n"), answer("B", "", "c"), result("5", "c", "new"),
				`{"type":"compaction","id":"6",`+ts+`,"summary":"S","firstKeptEntryId":"2"}`),
			opts: &rebuild.Options{Summary: rebuild.SummarySystem},
			want: "system \"[Previous conversation summary]\\nS\"\nuser [[late result of tool call c]|  old]\nassistant b\nuser n\nassistant call(c f {})\nuser result(c new)\n", turns: 2,
			report: "late-result@2",
		},
		{
			name: "clip of a result and of an image",
			lines: lines(
				`{"type":"user","id":"1",`+ts+`,"content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","url":"u"}}]}`,
				answer("A", "", "a"), result("2", "a", "long"),
				`{"type":"clip","id":"3",`+ts+`,"clips":[{"entry":"2","content":"short"},{"entry":"1","block":1,"content":"[image]"},{"entry":"1","block":0,"content":"no"}]}`),
			want: "user [see] [[image]]\nassistant call(a f {})\nuser result(a short)\n", turns: 1,
			report: "unresolved-clip@1",
		},
		{
			name: "a cut append is superseded by its retry",
			lines: lines(user("1", "a"),
				`{"type":"assistant","id":"2",`+ts+`,"batch":2,"idem":"k","content":[{"type":"text","text":"one"}]}`,
				`{"type":"assistant","id":"3",`+ts+`,"batch":2,"idem":"k","content":[{"type":"text","text":"one"}]}`,
				`{"type":"tool_use","id":"4",`+ts+`,"mid":"3","part":2,"tool_use_id":"a","name":"f","input":{}}`, result("5", "a", "A")),
			want: "user a\nassistant [one] call(a f {})\nuser result(a A)\n", turns: 1,
			report: "superseded-batch@3",
		},
		{
			name: "contexts become text, thinking and unknown blocks stay",
			lines: lines(`{"type":"user","id":"1",`+ts+`,"content":[{"type":"text","text":"q"},{"type":"context","uri":"res://a","context_type":"resource","abstract":"A"}]}`,
				`{"type":"assistant","id":"2",`+ts+`,"content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"new_thing","x":1},{"type":"text","text":"a"}]}`),
			want: "user [q] [[resource res://a]|  A]\nassistant thinking new_thing [a]\n", turns: 1,
		},
		{
			name: "firstKeptEntryId inside a batch means the whole batch",
			lines: lines(user("1", "a"), assistant("2", "b"), answer("A", "t", "x"), result("3", "x", "X"), assistant("4", "c"),
				`{"type":"compaction","id":"5",`+ts+`,"summary":"S","firstKeptEntryId":"A.x"}`),
			opts: &rebuild.Options{Summary: rebuild.SummaryPair},
			want: "user [Previous conversation summary]|S\nassistant [Understood, I have the context from our previous conversation.] [t] call(x f {})\nuser result(x X)\nassistant c\n", turns: 1,
			report: "merged-messages@A",
		},
		{
			name: "firstKeptEntryId of a rewound entry is not live",
			lines: lines(user("1", "a"), assistant("2", "b"), user("3", "gone"), rewind("4", "2"), user("5", "c"),
				`{"type":"compaction","id":"6",`+ts+`,"summary":"S","firstKeptEntryId":"3","coversTo":"2"}`),
			opts: &rebuild.Options{Summary: rebuild.SummarySystem},
			want: "system \"[Previous conversation summary]\\nS\"\nuser c\n", turns: 2,
		},
		{
			name: "of two entries with the ID of firstKeptEntryId the last one decides",
			lines: lines(user("1", "a"), assistant("2", "b"), later(user("1", "gone")), rewind("4", "2"), user("5", "c"),
				`{"type":"compaction","id":"6",`+ts+`,"summary":"S","firstKeptEntryId":"1","coversTo":"2"}`),
			opts: &rebuild.Options{Summary: rebuild.SummarySystem},
			want: "system \"[Previous conversation summary]\\nS\"\nuser c\n", turns: 2,
		},
		{
			name: "a boundary is what it was when the compaction was written",
			lines: lines(user("1", "a"), assistant("2", "b"), user("3", "c"),
				`{"type":"compaction","id":"4",`+ts+`,"summary":"S","coversTo":"2"}`, later(assistant("2", "the same ID again"))),
			opts: &rebuild.Options{Summary: rebuild.SummarySystem},
			want: "system \"[Previous conversation summary]\\nS\"\nuser c\nassistant the same ID again\n", turns: 2,
		},
		{
			name: "of two clips of one place the last holds, an unknown one is reported",
			lines: lines(user("1", "a"), answer("A", "", "x"), result("2", "x", "long"),
				`{"type":"clip","id":"3",`+ts+`,"clips":[{"entry":"2","content":"first"},{"entry":"2","content":"second"}]}`,
				`{"type":"clip","id":"4",`+ts+`,"clips":[{"entry":"nowhere","content":"x"}]}`),
			want: "user a\nassistant call(x f {})\nuser result(x second)\n", turns: 1,
			report: "unresolved-clip@4",
		},
		{
			name: "calls of one ID with other inputs are two calls",
			lines: lines(user("1", "a"),
				`{"type":"tool_use","id":"2",`+ts+`,"tool_use_id":"x","name":"f","input":{"n":1}}`,
				`{"type":"tool_use","id":"3",`+ts+`,"tool_use_id":"x","name":"f","input":{"n":2}}`, result("4", "x", "1"), result("5", "x", "2")),
			want: "user a\nassistant call(x f {\"n\":1}) call(x f {\"n\":2})\nuser result(x 1) result(x 2)\n", turns: 1,
		},
		{
			name:  "a result goes to the latest answer that waits for one",
			lines: lines(user("1", "a"), answer("A", "", "x"), answer("B", "", "x"), result("2", "x", "B's")),
			want:  "user a\nassistant call(x f {})\nuser result!(x interrupted)\nassistant call(x f {})\nuser result(x B's)\n", turns: 1,
			report: "missing-result@A.x",
		},
		{
			name:  "a result that came before its call gives way to one that comes after it",
			lines: lines(result("1", "x", "early"), user("2", "a"), answer("A", "", "x"), result("3", "x", "in time")),
			want:  "user a\nassistant call(x f {})\nuser result(x in time)\n", turns: 1,
			report: "doubled-result@1",
		},
		{
			name: "a call of a cut answer whose input is no object goes with its result",
			lines: lines(user("1", "a"),
				`{"type":"assistant","id":"A",`+ts+`,"batch":2,"stop_reason":"error","content":[{"type":"text","text":"t"}]}`,
				`{"type":"tool_use","id":"A2",`+ts+`,"mid":"A","part":2,"tool_use_id":"x","name":"f","input":"{\"a"}`, result("2", "x", "r")),
			want: "user a\nassistant [t]\n", turns: 1,
			report: "cut-answer@A unfinished-call@A2",
		},
		{
			name:  "an answer without its first line is cut",
			lines: lines(user("1", "a"), `{"type":"tool_use","id":"2",`+ts+`,"mid":"A","part":2,"tool_use_id":"x","name":"f","input":{}}`, user("3", "b")),
			want:  "user [a] [b]\n", turns: 2,
			report: "incomplete-batch@2 cut-answer@2 unfinished-call@2 merged-messages@3",
		},
		{
			name:  "separators are blank",
			lines: lines(user("1", "a"), `{"type":"user","id":"2",`+ts+`,"content":"\u001c\u001f\u00a0"}`),
			want:  "user a\n", turns: 1, report: "blank-text@2 empty-message@2",
		},
		{
			name: "steering in a turn whose beginning was cut off",
			lines: lines(user("1", "a"), answer("A", "", "x"), result("2", "x", "X"), answer("B", "", "y"), result("3", "y", "Y"), user("4", "steer"),
				`{"type":"compaction","id":"5",`+ts+`,"summary":"S","firstKeptEntryId":"B","turnsBefore":1}`),
			opts: &rebuild.Options{Summary: rebuild.SummarySystem},
			want: "system \"[Previous conversation summary]\\nS\"\nuser [conversation continues]\nassistant call(y f {})\nuser result(y Y) [steer]\n", turns: 1,
			report: "assistant-first@B.y",
		},
		{
			// A key may come back after it is no longer looked for.
			name: "a complete batch is not superseded by a later one with its key",
			lines: lines(`{"type":"user","id":"1",`+ts+`,"idem":"k","idemHash":"h","content":"a"}`, assistant("2", "b"),
				`{"type":"user","id":"3",`+ts+`,"idem":"k","idemHash":"i","content":"c"}`),
			want: "user a\nassistant b\nuser c\n", turns: 2,
		},
		{
			name:  "unknown entries are reported, bookkeeping is not",
			lines: lines(user("1", "a"), `{"type":"hologram","id":"2","x":1}`, `{"type":"meta","id":"3","title":"t"}`, `{"type":"custom","id":"4","name":"n"}`),
			want:  "user a\n", turns: 1, report: "unknown-entry@2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := foldLines(t, tt.opts, tt.lines...)
			require.Equal(t, tt.want, show(f.History()))
			require.Equal(t, tt.report, rules(f.Report()))
			require.Equal(t, tt.turns, f.Turns())
		})
	}
}

func TestFoldFull(t *testing.T) {
	f := foldLines(t, &rebuild.Options{Full: true}, lines(user("1", "a"), answer("A", "", "x"), result("2", "x", "long"),
		`{"type":"clip","id":"3","clips":[{"entry":"2","content":"short"}]}`,
		`{"type":"compaction","id":"4","summary":"S","coversTo":"2"}`, user("5", "b"))...)
	want := "user a\nassistant call(x f {})\nuser result(x long) [b]\n"
	require.Equal(t, want, show(f.History()))
}

// A preview of a compaction is the history after it was added, however it names
// the covered part, and leaves the fold unchanged.
func TestPreview(t *testing.T) {
	talk := lines(user("1", "a"), assistant("2", "b"), user("3", "c"), assistant("4", "d"), user("5", "e"))
	for _, tt := range []struct {
		firstKept, coversTo string
		turns               int
	}{
		{"3", "2", 2},
		{"", "2", 2},
		{"lost", "4", 1},
		{"lost", "lost", 0},
		{"", "", 0},
		{"3", "", 2},
	} {
		f := foldLines(t, nil, talk...)
		before := show(f.History())
		h, turns := f.Preview(transcript.Compaction{Summary: "S", FirstKept: tt.firstKept, CoversTo: tt.coversTo})
		require.Equal(t, tt.turns, turns, "%+v", tt)
		require.Equal(t, before, show(f.History()), "%+v: the fold has changed", tt)
		require.NoError(t, addLines(f, fmt.Sprintf(`{"type":"compaction","id":"6","summary":"S","firstKeptEntryId":%q,"coversTo":%q}`, tt.firstKept, tt.coversTo)))
		require.Equal(t, show(f.History()), show(h), "%+v", tt)
	}
}

// Names that providers accept stay as they are; every other byte becomes an
// underscore, and long names are cut.
func TestToolNames(t *testing.T) {
	long := strings.Repeat("n", 64)
	for name, want := range map[string]string{
		"":          "tool",
		"azAZ09_-":  "azAZ09_-",
		"a/b:c d":   "a_b_c_d",
		"`[@{":      "____", // the neighbours of the letters
		"/:":        "__",   // and of the digits
		"é日":        "__",
		long:        long,
		long + "n":  long,
		long + "/a": long,
	} {
		f := foldLines(t, nil, user("1", "go"), fmt.Sprintf(`{"type":"tool_use","id":"2","tool_use_id":"x","name":%q,"input":{}}`, name), result("3", "x", "X"))
		require.Equal(t, fmt.Sprintf("user go\nassistant call(x %s {})\nuser result(x X)\n", want), show(f.History()))
		report := "bad-name@2"
		if name == want {
			report = ""
		}
		require.Equal(t, report, rules(f.Report()), "%q", name)
	}
}

func TestFoldCriticalEntry(t *testing.T) {
	f := rebuild.New(nil)
	err := addLines(f, user("1", "a"), `{"type":"fork","id":"2","critical":true}`)
	require.ErrorIs(t, err, rebuild.ErrNewerFormat)
	require.ErrorIs(t, addLines(f, user("3", "b")), rebuild.ErrNewerFormat)
}

func TestPending(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing", nil, "owed=false user= calls=[] cut=false"},
		{"answered", lines(user("1", "a"), assistant("2", "b")), "owed=false user= calls=[] cut=false"},
		{"unanswered", lines(user("1", "a")), "owed=true user=a calls=[] cut=false"},
		{"calls running", lines(user("1", "a"), answer("A", "", "x", "y"), result("2", "y", "Y")), "owed=true user= calls=[x] cut=false"},
		{"results in", lines(user("1", "a"), answer("A", "", "x"), result("2", "x", "X")), "owed=true user= calls=[] cut=false"},
		{"cut", lines(user("1", "a"), answer("A", "half", "x", "y")[:2]), "owed=false user= calls=[] cut=true"},
		{"steering", lines(user("1", "a"), answer("A", "", "x"), result("2", "x", "X"), user("3", "and b")), "owed=true user=and b calls=[] cut=false"},
		{"compacted", lines(user("1", "a"), `{"type":"compaction","id":"2","summary":"S","coversTo":"1"}`), "owed=false user= calls=[] cut=false"},
	} {
		p := foldLines(t, nil, tt.lines...).Pending()
		calls := []string{}
		for _, c := range p.Calls {
			calls = append(calls, c.Call.ID)
		}
		got := fmt.Sprintf("owed=%v user=%s calls=%v cut=%v", p.Owed, p.User, calls, p.Cut)
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The newest whole turns stay, the newest one in any case.
func TestFit(t *testing.T) {
	h := foldLines(t, nil, lines(user("1", "a"), assistant("2", "b"), user("3", "c"), answer("A", "", "x"), result("4", "x", "X"), assistant("5", "d"), user("6", "e"))...).History()
	size := func(transcript.Message) int { return 10 }
	for budget, want := range map[int]int{0: 1, 9: 1, 10: 1, 49: 1, 50: 5, 69: 5, 70: 7, 1000: 7} {
		view, report := rebuild.Fit(h, budget, size)
		if got := len(view.Messages); got != want {
			t.Errorf("Fit(%d) keeps %d messages, want %d", budget, got, want)
		}
		if tooLong := len(report) > 0; tooLong != (budget < 10) || tooLong && (report[0].Rule != "over-budget" || report[0].Entry != "6") {
			t.Errorf("Fit(%d) reports %v", budget, report)
		}
		if view.After != "" {
			t.Errorf("an answer to a view would be recorded as one to %q", view.After)
		}
	}
	require.Len(t, h.Messages, 7)
	require.NotEmpty(t, h.After)
	if view, report := rebuild.Fit(rebuild.History{}, 10, size); len(view.Messages)+len(report) > 0 {
		t.Errorf("of nothing: %v, %v", view, report)
	}
}

// The summary of a compaction stays too, in whatever form it is shown.
func TestFitSummary(t *testing.T) {
	all := append(lines(user("1", "a"), assistant("2", "b"), user("3", "c"), assistant("4", "d"), user("5", "e"), assistant("6", "f"), user("7", "g")),
		lines(`{"type":"compaction","id":"8","ts":"2026-11-20T08:00:00Z","summary":"S","firstKeptEntryId":"3","coversTo":"2","turnsBefore":1}`)...)
	size := func(m transcript.Message) int { return 10 * len(m.Content) }
	for _, form := range []rebuild.SummaryForm{rebuild.SummaryUser, rebuild.SummaryPair, rebuild.SummarySystem} {
		h := foldLines(t, &rebuild.Options{Summary: form}, all...).History()
		whole := 0
		for _, m := range h.Messages {
			whole += size(m)
		}
		for budget, turns := range map[int]int{0: 1, whole - 31: 1, whole - 20: 2, whole: 3} {
			view, report := rebuild.Fit(h, budget, size)
			var said []string
			for _, m := range view.Messages {
				for _, b := range m.Content {
					said = append(said, b.(transcript.TextBlock).Text)
				}
			}
			want := map[rebuild.SummaryForm][]string{
				rebuild.SummaryUser: {neutral.SummaryHeading + "\nS"},
				rebuild.SummaryPair: {neutral.SummaryHeading + "\nS", "Understood, I have the context from our previous conversation."},
			}[form]
			want = append(want, []string{"c", "d", "e", "f", "g"}[2*(3-turns):]...)
			if !slices.Equal(said, want) || view.System != h.System || (len(report) > 0) != (budget == 0) {
				t.Errorf("form %v: Fit(%d of %d) shows %q and %q, want %q; %v", form, budget, whole, view.System, said, want, report)
			}
			if v := wiretest.Validate(transcript.Request{System: view.System, Messages: view.Messages}); len(v) > 0 {
				t.Errorf("form %v: Fit(%d): %v", form, budget, v)
			}
		}
	}
}

// A message without blocks stays where it is, and is not repeated at the top of the
// history.
func TestFitEmptyMessage(t *testing.T) {
	h := rebuild.History{Messages: []transcript.Message{
		transcript.UserText("a"), transcript.AssistantText("b"), {Role: transcript.RoleUser}, transcript.UserText("c"),
	}}
	got, report := rebuild.Fit(h, 100, func(transcript.Message) int { return 1 })
	require.Empty(t, report)
	require.Equal(t, h.Messages, got.Messages)
}

// A view drops the reasoning that was made with messages it leaves out.
func TestFitReasoning(t *testing.T) {
	thinking := func(id, prev, text string) transcript.Message {
		o := transcript.Origin{Entry: id, Batch: 1, API: "anthropic", Answer: &transcript.Answer{Entry: id, Made: transcript.Made{After: prev}, Intact: true}}
		return transcript.Message{
			Role: transcript.RoleAssistant, Origins: []transcript.Origin{o, o},
			Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "t", Signature: "s"}, transcript.TextBlock{Text: text}},
		}
	}
	h := rebuild.History{Messages: []transcript.Message{
		transcript.UserText("a"), thinking("2", "1", "b"), transcript.UserText("c"), thinking("4", "3", "d"),
	}}
	size := func(transcript.Message) int { return 10 }
	count := func(h rebuild.History) (n int) {
		for _, m := range h.Messages {
			for _, b := range m.Content {
				if _, ok := b.(transcript.ThinkingBlock); ok {
					n++
				}
			}
		}
		return n
	}
	whole, _ := rebuild.Fit(h, 40, size)
	part, _ := rebuild.Fit(h, 39, size)
	require.Equal(t, 2, count(whole))
	require.Zero(t, count(part))
	require.Len(t, part.Messages, 2)
}

// No rewind takes back a text that was written before an answer that is shown
// before it.
func TestBeforeTurnOfALateText(t *testing.T) {
	made := `{"type":"assistant","id":"3","ts":"2026-11-20T08:00:00Z","after":"1","content":"b"}`
	fold := foldLines(t, nil, lines(user("1", "a"), user("2", "c"), made)...)
	require.Equal(t, "user a\nassistant b\nuser c\n", show(fold.History()))
	_, err := fold.BeforeTurn(1)
	require.ErrorContains(t, err, "the answer 3")
	_, err = fold.BeforeTurn(2)
	require.ErrorIs(t, err, rebuild.ErrFewTurns) // there is no header to go back to
}

// A turn whose beginning was summarised can be taken back.
func TestBeforeTurnBehindCompaction(t *testing.T) {
	compaction := func(id, kept, covers string) string {
		return `{"type":"compaction","id":"` + id + `","ts":"2026-11-20T08:00:00Z","summary":"S","firstKeptEntryId":"` + kept + `","coversTo":"` + covers + `"}`
	}
	all := lines(user("0", "z"), assistant("0a", "y"), user("1", "a"), assistant("2", "b"), user("3", "c"), answer("A", "", "x"), result("4", "x", "X"), assistant("5", "d"),
		compaction("6", "5", "4"), assistant("7", "e"))
	for n, want := range map[int]string{1: "2", 2: "0a", 3: "", 4: ""} {
		fold := foldLines(t, nil, all...)
		got, err := fold.BeforeTurn(n)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%d turns back: %q, %v, want %q", n, got, err, want)
		}
	}
	fold := foldLines(t, nil, append(all, lines(user("8", "f"), assistant("9", "g"), compaction("10", "9", "8"))...)...)
	for n, want := range map[int]string{1: "7", 2: "2"} {
		if got, _ := fold.BeforeTurn(n); got != want {
			t.Errorf("behind two compactions, %d turns back: %q, want %q", n, got, want)
		}
	}
}
