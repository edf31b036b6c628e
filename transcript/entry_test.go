package transcript_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

var at = time.Date(2026, 11, 20, 8, 0, 1, 123456000, time.UTC)

// lead is the beginning of the lines of these tests, after their type.
const lead = `,"id":"e1","ts":"2026-11-20T08:00:01.123456Z"`

// Lines in the form in which this package writes them.
var lines = []struct {
	line string
	want transcript.Body
}{
	{
		`{"type":"session"` + lead + `,"v":1,"key":"main:cli:user","gen":3,"created":"2026-11-20T08:00:01.123456Z","owner":"o","base":{"agent":"main","session":"a","entry":"b","lines":7},"descent":[{"agent":"main","session":"0","entry":"x"},{"agent":"main","session":"a","entry":"b"}],"parent":{"agent":"main","session":"c","entry":"d"}}`,
		transcript.Header{
			Version: 1, Key: "main:cli:user", Gen: 3, Created: at, Owner: "o",
			Base: transcript.Link{Agent: "main", Session: "a", Entry: "b", Lines: 7}, Descent: []transcript.Link{{Agent: "main", Session: "0", Entry: "x"}, {Agent: "main", Session: "a", Entry: "b"}}, Parent: transcript.Link{Agent: "main", Session: "c", Entry: "d"},
		},
	},
	{`{"type":"session"` + lead + `,"v":1,"key":"main:cli:user","gen":3,"created":"2026-11-20T08:00:01.123456Z"}`, transcript.Header{Version: 1, Key: "main:cli:user", Gen: 3, Created: at}},
	{`{"type":"user"` + lead + `,"content":"read a.go"}`, fragment(transcript.TypeUser, transcript.UserText("read a.go").Content...)},
	{`{"type":"user"` + lead + `,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, fragment(transcript.TypeUser, transcript.TextBlock{Text: "a"}, transcript.TextBlock{Text: "b"})},
	{
		`{"type":"assistant"` + lead + `,"batch":3,"idem":"k","idemHash":"h","api":"anthropic","model":"m","stop_reason":"odd_reason","usage":{"input_tokens":1,"output_tokens":2,"x":{}},"request_id":"r","ext":{"a":1},"content":[]}`,
		transcript.MessageLine{
			Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant, API: "anthropic", Model: "m", StopReason: "odd_reason",
			Usage: transcript.Usage{Input: 1, Output: 2, Extra: extra{"x": raw(`{}`)}}, RequestID: "r", Ext: raw(`{"a":1}`),
		},
	},
	{
		`{"type":"tool_use"` + lead + `,"mid":"A","part":2,"tool_use_id":"t1","name":"read_file","input":{"n": 1.0},"caller":{"type":"direct"}}`,
		transcript.MessageLine{
			Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant, Of: "A",
			Content: []transcript.Block{transcript.ToolCallBlock{ID: "t1", Name: "read_file", Input: raw(`{"n": 1.0}`), Extra: extra{"caller": raw(`{"type":"direct"}`)}}},
		},
	},
	{
		`{"type":"tool_result"` + lead + `,"tool_use_id":"t1","content":"package a","is_error":false,"extra":{"id":"x","ts":5},"cache_control":{}}`,
		fragment(transcript.TypeToolResult, transcript.ToolResultBlock{
			CallID: "t1", Extra: extra{"cache_control": raw(`{}`), "id": raw(`"x"`), "ts": raw(`5`)},
		}.WithContent(transcript.TextBlock{Text: "package a"})),
	},
	{
		`{"type":"compaction"` + lead + `,"summary":"S","firstKeptEntryId":"e5","coversTo":"e9","turnsBefore":31,"tokensBefore":81234,"tokensAfter":9120}`,
		transcript.Compaction{Summary: "S", FirstKept: "e5", CoversTo: "e9", TurnsBefore: 31, TokensBefore: 81234, TokensAfter: 9120},
	},
	{
		`{"type":"compaction"` + lead + `,"summary":"S","said":[{"entry":"e1","text":"use b"},{"entry":"e2","text":"now","open":true,"to":"Now or later?","toEntry":"e0"}],"rules":[{"entry":"e3","text":"Write tests.","path":"AGENTS.md"}],` +
			`"files":[{"entry":"e3","text":"a.go","modified":true}],"errors":[{"entry":"e4","text":"exit 1","tool":"run"}],"ids":[{"entry":"e1","text":"OPS-1"}]}`,
		transcript.Compaction{
			Summary: "S",
			Said:    []transcript.Carried{{Entry: "e1", Text: "use b"}, {Entry: "e2", Text: "now", Open: true, To: "Now or later?", ToEntry: "e0"}},
			Rules:   []transcript.Carried{{Entry: "e3", Text: "Write tests.", Path: "AGENTS.md"}},
			Files:   []transcript.Carried{{Entry: "e3", Text: "a.go", Modified: true}},
			Errors:  []transcript.Carried{{Entry: "e4", Text: "exit 1", Tool: "run"}},
			IDs:     []transcript.Carried{{Entry: "e1", Text: "OPS-1"}},
		},
	},
	{
		`{"type":"clip"` + lead + `,"clips":[{"entry":"e2","block":0,"content":"[cut]"},{"entry":"e3","content":""}]}`,
		transcript.Clip{Clips: []transcript.Clipping{{Entry: "e2", Block: new(int), Content: "[cut]"}, {Entry: "e3"}}},
	},
	{`{"type":"hide"` + lead + `,"entries":["e2","e3"]}`, transcript.Hide{Entries: []string{"e2", "e3"}}},
	{`{"type":"hide"` + lead + `,"entries":["e2"],"off":true}`, transcript.Hide{Entries: []string{"e2"}, Off: true}},
	{`{"type":"rewind"` + lead + `,"to":"e4"}`, transcript.Rewind{To: "e4"}},
	{
		`{"type":"meta"` + lead + `,"title":"","labels":[],"ttl":0,"keep":false,"trashed":0}`,
		transcript.Meta{Title: new(string), Labels: []string{}, TTL: new(int64), Keep: new(bool), Trashed: new(int64)},
	},
	{`{"type":"meta"` + lead + `}`, transcript.Meta{}},
	{`{"type":"current"` + lead + `,"gen":2}`, transcript.Current{Gen: 2}},
	{`{"type":"calibration"` + lead + `,"model":"m","window":200000,"factor":1.12}`, transcript.Calibration{Model: "m", Window: 200000, Factor: 1.12}},
	{
		`{"type":"calibration"` + lead + `,"model":"m","endpoint":"a","without":["images","parts"],"images":20,"side":2000,"messages":2048,"left":[{"entry":"e","block":0},{"entry":"f","block":-1}],"unread":"g"}`,
		transcript.Calibration{
			Model: "m", Endpoint: "a", Without: []transcript.Form{transcript.Images, transcript.Parts}, Images: 20, Side: 2000, Messages: 2048,
			Left: []transcript.BlockRef{{Entry: "e"}, {Entry: "f", Block: transcript.WholeEntry}}, Unread: "g",
		},
	},
	{`{"type":"calibration"` + lead + `,"model":"m","without":[],"left":[]}`, transcript.Calibration{Model: "m", Without: []transcript.Form{}, Left: []transcript.BlockRef{}}},
	{`{"type":"calibration"` + lead + `,"model":"m","window":-1}`, transcript.Calibration{Model: "m", Window: -1}},
	{`{"type":"calibration"` + lead + `,"model":"","factor":0.9,"prompt":1800,"failures":3,"failedAt":150000}`, transcript.Calibration{Factor: .9, Prompt: 1800, Failures: 3, FailedAt: 150000}},
	{`{"type":"tool_status"` + lead + `,"tool_use_id":"t1","status":"running"}`, transcript.ToolStatus{CallID: "t1", Status: "running"}},
	{`{"type":"used"` + lead + `,"contexts":["a","b"],"skill":{"uri":"s","input":"i","output":"o","success":true,"n":"x"}}`, transcript.Used{
		Contexts: []string{"a", "b"}, Skill: &transcript.SkillUse{URI: "s", Input: "i", Output: "o", Success: true, Extra: extra{"n": raw(`"x"`)}},
	}},
	{
		`{"type":"commit"` + lead + `,"n":1,"firstEntry":"e1","lastEntry":"e9","abstract":"A","overview":"O"}`,
		transcript.Commit{N: 1, FirstEntry: "e1", LastEntry: "e9", Abstract: "A", Overview: "O"},
	},
	{
		`{"type":"commit"` + lead + `,"n":2,"firstEntry":"e1","lastEntry":"e9","runs":[{"first":"e1","last":"e3"},{"first":"e7","last":"e9"}],"messages":5,` +
			`"abstract":"A","overview":"O","stats":{"commits":2,"contexts":4,"memories":1},"open":["c1"],"owner":"ada"}`,
		transcript.Commit{
			N: 2, FirstEntry: "e1", LastEntry: "e9", Runs: []transcript.Run{{First: "e1", Last: "e3"}, {First: "e7", Last: "e9"}}, Messages: 5,
			Abstract: "A", Overview: "O", Stats: transcript.CommitStats{Commits: 2, Contexts: 4, Memories: 1}, Open: []string{"c1"}, Owner: "ada",
		},
	},
	{
		`{"type":"extracted"` + lead + `,"commit":"c1","counts":{"events":{"added":1,"failed":2},"profile":{"merged":1,"skipped":3}},"diff":"c1.json","err":"x"}`,
		transcript.Extracted{Commit: "c1", Diff: "c1.json", Err: "x", Counts: map[string]transcript.ExtractedCount{
			"events": {Added: 1, Failed: 2}, "profile": {Merged: 1, Skipped: 3},
		}},
	},
	{`{"type":"custom"` + lead + `,"name":"n","data":[1,{"type":"user"}],"covers":["a","b"]}`, transcript.Custom{Name: "n", Data: raw(`[1,{"type":"user"}]`), Covers: []string{"a", "b"}}},
	{`{"type":"from_the_future"` + lead + `,"critical":true}`, transcript.Unknown{Kind: "from_the_future", Critical: true}},
}

// fragment returns a MessageLine of a user line; one text is plain.
func fragment(kind string, content ...transcript.Block) transcript.MessageLine {
	return transcript.MessageLine{Kind: kind, Role: transcript.RoleUser}.WithContent(content...)
}

func parse(t *testing.T, line string) transcript.Entry {
	t.Helper()
	e, err := transcript.ParseEntry([]byte(line))
	require.NoError(t, err, "%s", line)
	return e
}

// remade returns e without its line.
func remade(e transcript.Entry) transcript.Entry {
	return transcript.Entry{ID: e.ID, Time: e.Time, Batch: e.Batch, Part: e.Part, Idem: e.Idem, IdemHash: e.IdemHash, Body: e.Body}
}

func TestEntryJSON(t *testing.T) {
	for _, tt := range lines {
		e := parse(t, tt.line)
		if e.Type() != typeOf(tt.line) || e.ID != "e1" || !e.Time.Equal(at) {
			t.Errorf("%s\nhas type %q, ID %q, time %v", tt.line, e.Type(), e.ID, e.Time)
		}
		if !reflect.DeepEqual(e.Body, tt.want) {
			t.Errorf("%s\nbecame %#v\nwant   %#v", tt.line, e.Body, tt.want)
		}
		if got := string(remade(e).Line()); got != tt.line {
			t.Errorf("line made from the body:\n%s\nwant\n%s", got, tt.line)
		}

		// Unknown members are kept, because the line is.
		odd := strings.Replace(tt.line, `{"type"`, ` { "not_known" : [ 1.50 , "é" ] , "type"`, 1) + "\r"
		e = parse(t, odd)
		if got := string(e.Line()); got != strings.TrimSpace(odd) {
			t.Errorf("Line = %q, want %q", got, odd)
		}
		copied := e
		if string(copied.Line()) != strings.TrimSpace(odd) {
			t.Error("a copy has another line")
		}
		var again transcript.Entry
		if err := json.Unmarshal([]byte(odd), &again); err != nil || string(again.Line()) != strings.TrimSpace(odd) {
			t.Errorf("UnmarshalJSON: %v, line %q", err, again.Line())
		}
	}
	// A pointer has no members.
	pointer := transcript.Entry{ID: "e1", Body: &transcript.MessageLine{Kind: transcript.TypeUser}}
	if got := string(pointer.Line()); got != `{"type":"user","id":"e1"}` {
		t.Error(got)
	}
}

func TestEntryTimes(t *testing.T) {
	for in, want := range map[string]time.Time{
		`"2026-11-20T08:00:01.123456Z"`:         at,
		`"2026-11-20T09:00:01.123456789+01:00"`: at.Add(789),
		`"2026-11-20T08:00:01"`:                 {}, // no zone: not a known moment
		`"yesterday"`:                           {},
		`1763625601`:                            {},
		`null`:                                  {},
	} {
		e := parse(t, `{"type":"user","ts":`+in+`,"content":"x"}`)
		if !e.Time.Equal(want) || e.Time.Location() != time.UTC {
			t.Errorf("ts %s = %v, want %v", in, e.Time, want)
		}
	}
}

func TestEntryDamage(t *testing.T) {
	for line, want := range map[string]transcript.DamageKind{
		``:                            transcript.DamageNotJSON,
		" \t\r":                       transcript.DamageNotJSON,
		"\x00 \x00":                   transcript.DamageNUL,
		`{"type":"user","content":"a`: transcript.DamageTorn,
		`{`:                           transcript.DamageTorn,
		"{\"type\":\"user\",\"content\":\"\xe4\xbd":  transcript.DamageTorn, // inside a rune
		"{\"type\":\"user\",\"content\":\"\xff\"}":   transcript.DamageUTF8,
		"{\"type\":\"user\",\"a\":\"\xe4\xbd":        transcript.DamageTorn,
		"{\"type\":\"user\",\"content\":\"a\x00\x00": transcript.DamageTorn,
		"{\"type\":\"user\",\"co\x00\x00nt\":\"a\"}": transcript.DamageNUL,
		`{"type";"user","content":"a"}`:              transcript.DamageNotJSON, // changed, and not torn
		`{"type":"user","content":"a"|`:              transcript.DamageNotJSON, // its last byte
		`ent":"x"}`:                                  transcript.DamageNotJSON,
		`5`:                                          transcript.DamageNotObject,
		`null`:                                       transcript.DamageNotObject,
		`[{"type":"user","content":"a"}]`:            transcript.DamageNotObject,
		`{}`:                                         transcript.DamageMalformed,
		`{"type":5}`:                                 transcript.DamageMalformed,
		`{"type":""}`:                                transcript.DamageMalformed,
		`{"type":"user","content":5}`:                transcript.DamageMalformed,
		`{"type":"user","content":["a"]}`:            transcript.DamageMalformed,
		`{"type":"user","id":5}`:                     transcript.DamageMalformed,
		`{"type":"user","batch":"3"}`:                transcript.DamageMalformed,
		`{"type":"user","part":1.5}`:                 transcript.DamageMalformed,
		`{"type":"user","batch":1e300}`:              transcript.DamageMalformed,
		`{"type":"clip","clips":{}}`:                 transcript.DamageMalformed,
		`{"type":"clip","clips":[5]}`:                transcript.DamageMalformed,
		`{"type":"clip","clips":[{"entry":5}]}`:      transcript.DamageMalformed,
		`{"type":"meta","labels":[5]}`:               transcript.DamageMalformed,
		`{"type":"assistant","usage":5}`:             transcript.DamageMalformed,
		`{"type":"used","contexts":"a"}`:             transcript.DamageMalformed,
		`{"type":"calibration","factor":"a"}`:        transcript.DamageMalformed,
	} {
		e, err := transcript.ParseEntry([]byte(line))
		de, ok := errors.AsType[*transcript.DamageError](err)
		if !ok || de.Kind != want {
			t.Errorf("%q: %v, %v, want damage of kind %s", line, e, err, want)
		}
		if want == transcript.DamageMalformed && ok && de.Reason == "" {
			t.Errorf("%q: %v says no reason", line, err)
		}
	}
}

// The last of equal names counts.
func TestEntryEqualNames(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"user","content":"a","type":"assistant","content":"b","model":"m"}`: `{"type":"assistant","model":"m","content":"b"}`,
		`{"type":"a","type":"b","type":"user","id":"1","id":"2"}`:                    `{"type":"user","id":"2","content":[]}`,
		`{"type":"a","type":"a"}`: `{"type":"a"}`,
		`{"type":"clip","clips":[{"entry":"a","content":"a"}],"clips":[{"entry":"b","entry":"c","content":"b"}],"type":"clip"}`: `{"type":"clip","clips":[{"entry":"c","content":"b"}]}`,
		`{"type":"meta","labels":["a"],"labels":["b"]}`: `{"type":"meta","labels":["b"]}`,
	} {
		if got := string(remade(parse(t, line)).Line()); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", line, got, want)
		}
	}
	_, err := transcript.ParseEntry([]byte(`{"type":"user","content":"a","type":5}`))
	require.Error(t, err)
}

func TestIsHead(t *testing.T) {
	heads := map[string]bool{"user": true, "assistant": true, "tool_use": true, "tool_result": true, "compaction": true, "rewind": true}
	for _, tt := range lines {
		if kind := (transcript.Entry{Body: tt.want}).Type(); transcript.IsHead(kind) != heads[kind] {
			t.Errorf("IsHead(%q) = %v", kind, !heads[kind])
		}
	}
}
