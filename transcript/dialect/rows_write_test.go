package dialect_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// rowDialects are written with a row for each message.
var rowDialects = []dialect.Dialect{dialect.Pi, dialect.ClaudeCode, dialect.Codex}

// An imagined is a random conversation with a model of Anthropic.
type imagined struct {
	rng     *rand.Rand
	entries []transcript.Entry
	heads   []string // IDs of the texts and answers that a compaction can keep
	open    []string // IDs of calls without a result
	calls   int
	// apart keeps answers apart: in a rollout of Codex nothing else does.
	apart bool
}

func (c *imagined) one(list ...string) string { return list[c.rng.IntN(len(list))] }

func (c *imagined) add(t testing.TB, items ...transcript.Item) {
	n := len(c.entries)
	at := time.Date(2026, 3, 1, 9, 0, n, 0, time.UTC)
	batch, err := transcript.NewBatch(at, func() string { n++; return fmt.Sprintf("e%03d", n) }, items...)
	require.NoError(t, err)
	c.entries = append(c.entries, batch...)
}

func (c *imagined) text() transcript.Block {
	return transcript.TextBlock{Text: c.one("hi", "看这个", "two\nlines", "a \"quoted\" <b>", "Ωmega", "\u2028", " spaced ")}
}

func (c *imagined) step(t testing.TB) {
	head := func() { c.heads = append(c.heads, fmt.Sprintf("e%03d", len(c.entries)+1)) }
	image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "aGk="}}
	switch c.rng.IntN(8) {
	case 0, 1:
		head()
		m := transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{c.text()}}
		if c.rng.IntN(3) == 0 {
			m.Content = append(m.Content, image, c.text())
		}
		c.add(t, m)
	case 2, 3, 4:
		if n := len(c.entries); c.apart && n > 0 {
			if f, ok := c.entries[n-1].Body.(transcript.MessageLine); !ok || f.Role == transcript.RoleAssistant {
				return
			}
		}
		head()
		var blocks []transcript.Block
		if c.rng.IntN(2) == 0 {
			blocks = append(blocks, transcript.ThinkingBlock{Thinking: c.one("hm", ""), Signature: "c2ln"})
		}
		blocks = append(blocks, c.text())
		for range c.rng.IntN(4) {
			c.calls++
			id := fmt.Sprintf(c.one("toolu_%d", "call/%d", "functions.look:%d"), c.calls)
			c.open = append(c.open, id)
			blocks = append(blocks, transcript.ToolCallBlock{ID: id, Name: "look", Input: json.RawMessage(c.one(`{}`, `{"p":1}`, `{"q":"\"x\""}`))})
		}
		c.add(t, transcript.Response{
			API: "anthropic", Model: c.one("m1", "m2"), RequestID: c.one("", "req_1"), Usage: transcript.Usage{Input: c.rng.IntN(3), Output: 1, CacheRead: 2},
			Message: transcript.Message{Role: transcript.RoleAssistant, Content: blocks},
		})
	case 5, 6:
		if len(c.open) == 0 {
			return
		}
		i := c.rng.IntN(len(c.open))
		r := transcript.ToolResultBlock{CallID: c.open[i], IsError: c.rng.IntN(3) == 0, Content: []transcript.Block{c.text()}}
		if c.rng.IntN(3) == 0 {
			r.Content = append(r.Content, image)
		}
		c.open = slices.Delete(c.open, i, i+1)
		c.add(t, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{r}})
	case 7:
		if len(c.heads) < 2 {
			return
		}
		b := transcript.Compaction{Summary: c.one("They looked.", "# S\n\nTwo turns."), TokensBefore: 900}
		first := 1 + c.rng.IntN(len(c.heads)) // something is covered
		if first < len(c.heads) {
			b.FirstKept = c.heads[first] // even if an earlier compaction keeps less
		} else {
			b.CoversTo, c.heads = c.entries[len(c.entries)-1].ID, nil
			c.open = nil // a call that is covered has its result there
		}
		c.add(t, b)
	}
}

// historyOf is the history that a model gets, a line for each block.
func historyOf(t testing.TB, entries iter.Seq2[transcript.Entry, error]) (lines []string) {
	t.Helper()
	fold := rebuild.New(nil)
	for b, err := range transcript.Batches(func(yield func(transcript.Record, error) bool) {
		for e, err := range entries {
			if !yield(transcript.Record{Entry: e}, err) {
				return
			}
		}
	}) {
		require.NoError(t, err)
		require.NoError(t, fold.Add(b))
	}
	for _, m := range fold.History().Messages {
		for _, b := range m.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok {
				b = r.WithContent(r.Content...) // one text is a string or an array
			}
			lines = append(lines, string(m.Role)+" "+string(transcript.MarshalBlock(b)))
		}
	}
	return lines
}

// differences are everything that a dialect changes in a history: the lines that it
// loses, and parts of lines without meaning.
var differences = map[dialect.Dialect]struct{ lines, parts *regexp.Regexp }{
	dialect.Pi: {},
	// The API takes IDs of letters, digits, '_' and '-'.
	dialect.ClaudeCode: {parts: regexp.MustCompile(`"(id|tool_use_id)":"[^"]*"|of tool call [^]]*\]`)},
	// Only items of the Responses API hold reasoning, and results no mark of an error.
	dialect.Codex: {lines: regexp.MustCompile(`"type":"thinking"`), parts: regexp.MustCompile(`,"is_error":true|late (error|result)`)},
}

// A history that is written and read is the same, except for the differences.
func TestRowsRoundTrip(t *testing.T) {
	compactions := 0
	seeds := 200
	if testing.Short() {
		seeds /= 5
	}
	for n := range uint64(3 * seeds) {
		seed, d := n/3, rowDialects[n%3]
		c := &imagined{rng: rand.New(rand.NewPCG(seed, 11)), apart: d == dialect.Codex}
		for range 4 + c.rng.IntN(40) {
			c.step(t)
		}
		want := historyOf(t, seq(c.entries))
		for _, e := range c.entries {
			if e.Type() == "compaction" {
				compactions++
			}
		}
		s := dialect.Session{ID: "0190c0de-0000-7000-8000-000000000001", Title: "A title", Dir: "/home/ana/boats", Created: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
		files, _ := write(t, d, slices.Values([]dialect.Session{s}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(c.entries) })
		back, err := dialect.ReadFolder(files)
		require.NoError(t, err)
		read := slices.Collect(back.Sessions())
		require.Len(t, read, 1)
		require.Equal(t, []any{d, s.ID, s.Title, s.Dir, 0}, []any{read[0].Dialect, read[0].ID, read[0].Title, read[0].Dir, len(read[0].Damage) + len(read[0].Unknown)})
		differs := differences[d]
		changed := func(lines []string) (out []string) {
			for _, line := range lines {
				if differs.lines != nil && differs.lines.MatchString(line) {
					continue
				}
				if differs.parts != nil {
					line = differs.parts.ReplaceAllString(line, "")
				}
				out = append(out, line)
			}
			return out
		}
		require.Equal(t, changed(want), changed(historyOf(t, entriesOf(read[0]))), "%s, seed %d:\n%s", d, seed, printed(files))
	}
	require.Greater(t, compactions, seeds/2)
}

// With the history, an answer keeps these details.
func TestRowsDetails(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 5e6, time.UTC)
	usage := transcript.Usage{Input: 5, Output: 6, CacheRead: 7, CacheWrite: 8}
	answer := transcript.Response{
		API: "anthropic", Model: "m1", StopReason: transcript.StopMaxTokens, Usage: usage, RequestID: "req_1",
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "Two."}}},
	}
	n := 0
	entries, err := transcript.NewBatch(at, func() string { n++; return fmt.Sprintf("e%d", n) }, transcript.UserText("How many?"), answer)
	require.NoError(t, err)
	for d, want := range map[dialect.Dialect]transcript.MessageLine{
		dialect.Pi:         {API: "anthropic", Model: "m1", StopReason: transcript.StopMaxTokens, Usage: usage, RequestID: "req_1"},
		dialect.ClaudeCode: {API: "anthropic", Model: "m1", StopReason: transcript.StopMaxTokens, Usage: usage, RequestID: "req_1"},
		dialect.Codex:      {API: "openai-responses", Model: "m1", Usage: usage},
	} {
		files, lost := write(t, d, slices.Values([]dialect.Session{{ID: "s", Created: at}}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(entries) })
		require.Empty(t, lost, d)
		back, err := dialect.ReadFolder(files)
		require.NoError(t, err)
		var got transcript.MessageLine
		for s := range back.Sessions() {
			for e, err := range entriesOf(s) {
				require.NoError(t, err)
				if f, ok := e.Body.(transcript.MessageLine); ok && f.Role == transcript.RoleAssistant {
					got = transcript.MessageLine{API: f.API, Model: f.Model, StopReason: f.StopReason, Usage: f.Usage, RequestID: f.RequestID}
					require.Equal(t, at, e.Time, d)
				}
			}
		}
		require.Equal(t, want, got, d)
	}
}

// The file is in a folder named after the folder of the session, as each program names
// it, whatever that contains.
func TestRowsFolder(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for dir, want := range map[string][2]string{
		"":                            {"----", "-"},
		"/home/ana/my boats":          {"--home-ana-my boats--", "-home-ana-my-boats"},
		`C:\Users\ana`:                {"--C--Users-ana--", "C--Users-ana"},
		"/a\x00b/../c":                {"--a-b-..-c--", "-a-b----c"},
		strings.Repeat("/x", 300):     {"--" + strings.Repeat("x-", 100) + "--", strings.Repeat("-x", 100)},
		"/" + strings.Repeat("日", 99): {"--" + strings.Repeat("日", 66) + "--", "-" + strings.Repeat("-", 99)},
	} {
		for i, d := range []dialect.Dialect{dialect.Pi, dialect.ClaudeCode} {
			s := dialect.Session{ID: "0190c0de-0000-7000-8000-000000000001", Dir: dir, Created: at}
			files, _ := write(t, d, slices.Values([]dialect.Session{s}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(nil) })
			for name := range files {
				require.Equal(t, want[i], path.Base(path.Dir(name)), "%s of %q", d, dir)
			}
			require.Len(t, files, 1)
		}
	}
}

// A file names the ID and the agent of its session, even after a second export.
func TestRowsOrigin(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Pi, dialect.ClaudeCode, dialect.Codex} {
		s := dialect.Session{ID: "Not a UUID, é", Agent: "scout", Title: "T", Created: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
		for range 2 {
			files, _ := write(t, d, slices.Values([]dialect.Session{s}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(nil) })
			back, err := dialect.ReadFolder(files)
			require.NoError(t, err)
			read := slices.Collect(back.Sessions())
			require.Len(t, read, 1)
			s = read[0]
			require.Equal(t, []string{"Not a UUID, é", "scout", "T"}, []string{s.Origin, s.Agent, s.Title}, d)
			require.NotEqual(t, s.Origin, s.ID, d)
		}
	}
}

// The sessions of an agent of OpenClaw are where it looks for them, and its index lists
// the last used one of each key.
func TestOpenClawIndex(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	var sessions []dialect.Session
	for n, key := range []string{"agent:scout:main", "agent:scout:main", "agent:scout:cron:x", "main:cli:ana"} {
		sessions = append(sessions, dialect.Session{
			ID: fmt.Sprintf("0190c0de-0000-7000-8000-00000000000%d", n), Key: key, Agent: "scout", Title: fmt.Sprintf("T%d", n), Created: at.Add(-time.Duration(n) * time.Hour),
		})
	}
	files, _ := write(t, dialect.Pi, slices.Values(sessions), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(nil) })
	require.JSONEq(t, `{
		"agent:scout:main": {"sessionId": "0190c0de-0000-7000-8000-000000000000", "sessionFile": "0190c0de-0000-7000-8000-000000000000.jsonl",
			"updatedAt": 1772355600000, "sessionStartedAt": 1772355600000, "displayName": "T0"},
		"agent:scout:cron:x": {"sessionId": "0190c0de-0000-7000-8000-000000000002", "sessionFile": "0190c0de-0000-7000-8000-000000000002.jsonl",
			"updatedAt": 1772348400000, "sessionStartedAt": 1772348400000, "displayName": "T2"}
	}`, string(files["agents/scout/sessions/sessions.json"].Data))
	folder, err := dialect.ReadFolder(files)
	require.NoError(t, err)
	listed := map[string]bool{}
	for s := range folder.Sessions() {
		require.NoError(t, s.Err)
		listed[s.ID] = s.Indexed
	}
	require.Equal(t, map[string]bool{sessions[0].ID: true, sessions[1].ID: false, sessions[2].ID: true, sessions[3].ID: false}, listed)
}
