package dialect_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A spokenTo is a random conversation.
type spokenTo struct {
	rng     *rand.Rand
	entries []transcript.Entry
	heads   []string // IDs of the messages
	open    []string // IDs of calls without a result
	asked   int
	commits int
	last    int // messages before the last commit
}

func (c *spokenTo) one(list ...string) string { return list[c.rng.IntN(len(list))] }

func (c *spokenTo) add(b transcript.Body) string {
	n := len(c.entries) + 1
	e := transcript.Entry{ID: fmt.Sprintf("e%03d", n), Time: time.Date(2026, 3, 1, 9, 0, n, 5000, time.UTC), Body: b}
	c.entries = append(c.entries, e)
	if f, ok := b.(transcript.MessageLine); ok && f.Kind != transcript.TypeToolResult {
		c.heads = append(c.heads, e.ID)
	}
	return e.ID
}

func (c *spokenTo) text() transcript.Block {
	return transcript.TextBlock{Text: c.one("hi", "看这个", "", "two\nlines", "a \"quoted\" <b>", "Ωmega", "\u2028")}
}

func (c *spokenTo) step() {
	say := func(role transcript.Role, blocks ...transcript.Block) {
		c.add(transcript.MessageLine{Kind: string(role), Role: role, Content: blocks})
	}
	switch c.rng.IntN(10) {
	case 0, 1:
		blocks := []transcript.Block{c.text()}
		if c.rng.IntN(3) == 0 {
			blocks = append(blocks, transcript.ContextBlock{URI: "viking://resources/a/", Kind: c.one("resource", "memory", "skill"), Abstract: c.one("", "An a")})
		}
		say(transcript.RoleUser, blocks...)
	case 2, 3:
		var blocks []transcript.Block
		for range 1 + c.rng.IntN(4) {
			if c.rng.IntN(2) == 0 {
				blocks = append(blocks, c.text())
				continue
			}
			c.asked++
			id := c.one(fmt.Sprintf("call_%d", c.asked), "same", "c/1", "C1", "c1", "..")
			if slices.Contains(c.open, id) {
				continue // a result's call would be unknown
			}
			c.open = append(c.open, id)
			call := transcript.ToolCallBlock{ID: id, Name: "look", Input: json.RawMessage(c.one(`{}`, `{"p": 1}`))}
			if c.rng.IntN(2) == 0 {
				call.Extra = transcript.Extra{"skill_uri": json.RawMessage(`"viking://skills/look/"`)}
			}
			blocks = append(blocks, call)
		}
		say(transcript.RoleAssistant, blocks...)
	case 4, 5:
		if len(c.open) == 0 {
			return
		}
		i := c.rng.IntN(len(c.open))
		r := transcript.ToolResultBlock{CallID: c.open[i], IsError: c.rng.IntN(3) == 0}
		c.open = slices.Delete(c.open, i, i+1)
		c.add(transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{r.WithContent(c.text())}})
	case 6:
		c.add(transcript.ToolStatus{CallID: c.one(append(c.open, "same", "none")...), Status: c.one("pending", "running", "completed", "error", "odd")})
	case 7:
		c.add(transcript.Used{Contexts: []string{"viking://resources/" + c.one("a", "b", "c") + "/"}, Skill: &transcript.SkillUse{URI: "viking://skills/s/"}})
	case 8:
		if len(c.heads) > 0 {
			c.add(transcript.Compaction{Summary: c.one("They looked.", "# S\n\n**Overview**: 2 turns\n"), FirstKept: c.heads[c.rng.IntN(len(c.heads))]})
		}
	case 9:
		c.commit()
	}
}

func (c *spokenTo) commit() {
	if len(c.heads) == c.last || c.rng.IntN(2) == 0 {
		return
	}
	first := c.last + c.rng.IntN(len(c.heads)-c.last)
	runs := []transcript.Run{{First: c.heads[first], Last: c.entries[len(c.entries)-1].ID}}
	if last := c.entries[len(c.entries)-1]; last.Type() != transcript.TypeUser && last.Type() != transcript.TypeAssistant {
		runs[0].Last = c.heads[len(c.heads)-1]
	}
	c.last = len(c.heads)
	c.commits += 1 + c.rng.IntN(2)
	b := transcript.Commit{
		N: c.commits, Runs: runs, FirstEntry: runs[0].First, LastEntry: runs[0].Last,
		Overview: c.one("", "# Session Summary\n\n**One-sentence overview**: a | b\n", "plain\n"),
	}
	id := c.add(b)
	if c.rng.IntN(2) == 0 {
		c.add(transcript.Extracted{Commit: id, Counts: map[string]transcript.ExtractedCount{"events": {Added: 1, Merged: 1, Skipped: 4}}})
	}
}

// Writing a folder, reading it and writing it again gives the same bytes in every
// file, and the folder follows the layout of the program.
func TestOpenVikingRoundTrip(t *testing.T) {
	created := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for seed := range uint64(150) {
		c := &spokenTo{rng: rand.New(rand.NewPCG(seed, 7))}
		for range 4 + c.rng.IntN(40) {
			c.step()
		}
		s := dialect.Session{ID: "s1", Created: created}
		once, _ := write(t, dialect.OpenViking, slices.Values([]dialect.Session{s}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(c.entries) })
		checkVikingFolder(t, once)
		if len(once["session/s1/messages.jsonl"].Data) == 0 && len(c.heads) == 0 {
			continue // nothing in it identifies one
		}
		back, err := dialect.ReadFolder(once)
		require.NoError(t, err)
		twice, _ := write(t, dialect.OpenViking, back.Sessions(), entriesOf)
		if a, b := strings.Split(printed(once), "\n"), strings.Split(printed(twice), "\n"); !slices.Equal(a, b) {
			i := 0
			for i < min(len(a), len(b)) && a[i] == b[i] {
				i++
			}
			t.Fatalf("seed %d, line %d of %d and %d:\n%s\nbecame\n%s", seed, i, len(a), len(b), append(a, "nothing")[i], append(b, "nothing")[i])
		}
	}
}

// checkVikingFolder fails unless the program's readers take every file, with
// each member as they need it, and every tool part with a file agrees with it.
func checkVikingFolder(t *testing.T, files fstest.MapFS) {
	t.Helper()
	stamp := func(v any) {
		text, _ := v.(string)
		_, err := time.Parse("2006-01-02T15:04:05.000000-07:00", text) // as Python's fromisoformat wants it
		require.NoError(t, err)
	}
	for name, f := range files {
		switch {
		case strings.HasSuffix(name, "/messages.jsonl"):
			for line := range strings.Lines(string(f.Data)) {
				var m struct {
					ID, Role  string
					Parts     []map[string]any
					CreatedAt any `json:"created_at"`
				}
				require.NoError(t, json.Unmarshal([]byte(line), &m))
				require.Regexp(t, `^msg_[0-9a-f]{32}$`, m.ID)
				require.Contains(t, []string{"user", "assistant"}, m.Role)
				require.NotEmpty(t, m.Parts)
				stamp(m.CreatedAt)
				for _, p := range m.Parts {
					checkVikingPart(t, p)
				}
			}
		case strings.HasSuffix(name, "/tool.json"):
			var tool map[string]any
			require.NoError(t, json.Unmarshal(f.Data, &tool))
			require.ElementsMatch(t, []string{"tool_id", "tool_name", "session_id", "input", "output", "status", "time"}, slices.Collect(maps.Keys(tool)))
			times, _ := tool["time"].(map[string]any)
			stamp(times["created"])
		case strings.HasSuffix(name, "/.relations.json"):
			var links []map[string]any
			require.NoError(t, json.Unmarshal(f.Data, &links))
			for i, l := range links {
				require.Equal(t, fmt.Sprintf("link_%d", i+1), l["id"])
				require.Len(t, l, 4)
				stamp(l["created_at"])
			}
		}
	}
}

func checkVikingPart(t *testing.T, p map[string]any) {
	t.Helper()
	need := map[any][]string{
		"text": {"text"}, "context": {"uri", "context_type", "abstract"},
		"tool": {"tool_id", "tool_name", "tool_uri", "skill_uri", "tool_status"},
	}[p["type"]]
	require.NotNil(t, need)
	for _, name := range need {
		if _, ok := p[name].(string); !ok {
			t.Errorf("part %v without %s", p, name)
		}
	}
	if p["type"] == "tool" {
		require.Contains(t, []string{"pending", "running", "completed", "error"}, p["tool_status"])
	}
}

// A commit decides the archive and its number, even if a compaction keeps some
// of it and hides earlier messages.
func TestOpenVikingCommits(t *testing.T) {
	say := func(id string, role transcript.Role, text string) transcript.Entry {
		f := transcript.MessageLine{Kind: string(role), Role: role}
		return transcript.Entry{ID: id, Body: f.WithContent(transcript.TextBlock{Text: text})}
	}
	entries := []transcript.Entry{
		say("a", "user", "one"), say("b", "assistant", "two"), say("c", "user", "three"), say("d", "assistant", "four"), say("e", "user", "five"),
		{ID: "c1", Body: transcript.Commit{
			N: 1, FirstEntry: "a", LastEntry: "d", Runs: []transcript.Run{{First: "a", Last: "a"}, {First: "c", Last: "d"}},
			Overview: "# Session Summary\n\n**One-sentence overview**: Counting: to five | done\n",
		}},
		{ID: "k1", Body: transcript.Compaction{Summary: "counted", FirstKept: "c"}},
		say("f", "assistant", "six"),
		{ID: "c3", Body: transcript.Commit{N: 3, FirstEntry: "b", LastEntry: "e", Runs: []transcript.Run{{First: "b", Last: "e"}}, Abstract: "the rest"}},
		{ID: "k3", Body: transcript.Compaction{Summary: "lost", CoversTo: "f"}},
	}
	out, lost := write(t, dialect.OpenViking, slices.Values([]dialect.Session{{ID: "s"}}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(entries) })
	require.Equal(t, 1, lost["compaction"])
	require.Equal(t, 0, lost["commit"])
	for name, want := range map[string]string{"history/archive_001/": "one three four", "history/archive_003/": "two five", "": "six"} {
		var said []string
		for line := range strings.Lines(string(out["session/s/"+name+"messages.jsonl"].Data)) {
			_, text, _ := strings.Cut(line, `"text":"`)
			text, _, _ = strings.Cut(text, `"`)
			said = append(said, text)
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%smessages.jsonl has %q, want %q", name, got, want)
		}
	}
	require.Equal(t, "Counting: to five | done", string(out["session/s/history/archive_001/.abstract.md"].Data))
	require.Equal(t, "the rest", string(out["session/s/history/archive_003/.abstract.md"].Data))
	require.NotContains(t, out, "session/s/history/archive_002/messages.jsonl")
}

// The memories in a folder can be read, the profile by either of its names.
func TestFolderMemories(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	f, err := dialect.ReadFolder(fstest.MapFS{
		"a/user/memories/.overview.md":             file("# Ana"),
		"b/user/memories/.overview.md":             file("a description of the folder"),
		"b/user/memories/.abstract.md":             file("a description of the folder"),
		"b/user/memories/profile.md":               file("# Ben"),
		"b/user/memories/preferences/.overview.md": file("a description of the folder"),
		"b/user/memories/preferences/mem_1.md":     file("tea\xff"),
		"b/agent/memories/patterns/2026/mem_2.md":  file("测试先行"),
		"b/agent/memories/cases/mem_3.txt":         file("no memory"),
	})
	require.NoError(t, err)
	var got []string
	for _, m := range f.Memories {
		text, err := m.Text()
		require.NoError(t, err)
		got = append(got, m.Category+" "+text)
	}
	require.ElementsMatch(t, []string{"profile # Ana", "profile # Ben", "preferences tea\uFFFD", "patterns 测试先行"}, got)
	require.Len(t, f.Others, 4)
	gone, err := dialect.ReadFolder(brokenFS{fstest.MapFS{"user/memories/events/x.md": file("x")}, "user/memories/events/x.md"})
	require.NoError(t, err)
	_, err = gone.Memories[0].Text()
	require.ErrorIs(t, err, errDisk)
	require.Contains(t, err.Error(), "x.md")
	_, err = (dialect.Memory{Path: "x"}).Text()
	require.ErrorIs(t, err, fs.ErrInvalid)
}
