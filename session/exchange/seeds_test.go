package exchange_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

var ports = map[dialect.Dialect]func(seedFolder) port{
	dialect.MiniClaw:   func(f seedFolder) port { return miniClawPort{f} },
	dialect.Claw0:      func(f seedFolder) port { return claw0Port{f} },
	dialect.ZyHive:     func(f seedFolder) port { return zyHivePort{f} },
	dialect.OpenViking: func(f seedFolder) port { return openVikingPort{f} },
}

// talk appends turns with calls, results, errors and characters at which some programs
// end a line.
func talk(t *testing.T, s *session.Session, turns int) (last []string) {
	for n := range turns {
		call := func(name, input string) transcript.Block {
			return transcript.ToolCallBlock{ID: fmt.Sprintf("%s%d", name, n), Name: "look", Input: json.RawMessage(input)}
		}
		last = add(t, s, transcript.UserText(fmt.Sprintf("question %d\nwith\u2028ends\u0085of\u2029lines", n)))
		add(t, s, transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.TextBlock{Text: fmt.Sprintf("I look, %d.", n)}, call("a", "{\"q\":\"x\u0085y\u2028z\"}"), call("b", `{}`),
		}}})
		add(t, s, transcript.ToolResult(fmt.Sprint("a", n), "found it"), transcript.ToolError(fmt.Sprint("b", n), "none"))
		add(t, s, transcript.AssistantText(fmt.Sprintf("answer %d", n)))
	}
	return last
}

// compacted replaces what precedes an entry with a summary.
func compacted(t *testing.T, s *session.Session, kept string) {
	var before string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if e.ID == kept {
			break
		}
		before = e.ID
	}
	add(t, s, transcript.Compaction{Summary: "by Convolog", FirstKept: kept, CoversTo: before})
}

// only returns the port of a folder with one session, and the name of that.
func only(t *testing.T, d dialect.Dialect, files fstest.MapFS) (port, string) {
	t.Helper()
	p := ports[d](seedFolder{t, files})
	names := slices.Collect(maps.Keys(p.listed()))
	require.Len(t, names, 1)
	return p, names[0]
}

// Each program lists all exported sessions with its own counts, loads the history, and goes
// on; an import of its files into another store has the same history and the new turn.
func TestSeedsContinue(t *testing.T) {
	st := inMemory()
	for n := range 3 {
		s, err := st.Create(t.Context(), cli, nil)
		require.NoError(t, err)
		talk(t, s, n)
	}
	for _, program := range []string{"mini-claw", "claw0", "zyhive"} {
		importAll(t, st, sessionsIn(t, os.DirFS(samples+program)), nil)
	}
	infos, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	var sessions []*session.Session
	for _, info := range infos {
		s, err := st.Get(t.Context(), info.Ref)
		require.NoError(t, err)
		sessions = append(sessions, s)
	}
	for d, newPort := range ports {
		p := newPort(seedFolder{t, exportAll(t, d, dialect.Session{}, sessions...)})
		listed := p.listed()
		require.Len(t, listed, len(sessions), d)
		for name, count := range listed {
			require.Equal(t, p.counted(name), count, "%s: %s", d, name)
		}
		for _, s := range sessions {
			files := exportTo(t, st, s.Ref(), d)
			p, name := only(t, d, files)
			want := saidIn(t, st, s.Ref(), true)
			require.Equal(t, want, loaded(p, name), "%s: %s", d, name)
			p.turn(name)
			again := inMemory()
			back := importAll(t, again, sessionsIn(t, files), nil)
			require.Len(t, back, 1)
			require.Equal(t, append(want, turnWords...), saidIn(t, again, back[0].Session, true), "%s: %s", d, name)
		}
	}
}

// loaded returns the words that a program finds, archives and summarized messages included.
func loaded(p port, name string) (words []string) {
	switch p := p.(type) {
	case openVikingPort:
		for _, file := range p.archives(name) {
			archived, _ := p.history(file)
			words = append(words, archived...)
		}
	case zyHivePort:
		for _, r := range p.records(name, "\n") {
			if r.Type == "message" {
				words = append(words, blockWords(p.t, r.Message.Content)...)
			}
		}
		return words
	}
	live, _ := p.history(name)
	return append(words, live...)
}

// ZyHive loads the summary and the messages that the store keeps, and counts their tokens. A
// compaction by ZyHive comes back as one.
func TestSeedsCompacted(t *testing.T) {
	for _, kept := range []int{0, 1, 3} { // turns
		st := inMemory()
		s := load(t, st)
		first := talk(t, s, 3)[0]
		if kept > 0 {
			first = talk(t, s, kept)[0]
		}
		compacted(t, s, first)
		talk(t, s, kept)
		h, err := s.History(t.Context())
		require.NoError(t, err)
		files := exportTo(t, st, s.Ref(), dialect.ZyHive)
		p, name := only(t, dialect.ZyHive, files)
		words, summary := p.history(name)
		require.Equal(t, h.Compaction.Summary, summary)
		require.NotEmpty(t, words)
		said := saidIn(t, st, s.Ref(), false)
		require.Equal(t, words, said[len(said)-len(words):])
		require.Contains(t, strings.Join(said[:len(said)-len(words)], " "), summary)
		require.NotContains(t, strings.Join(said[:len(said)-len(words)], " "), "question")

		zyHive, _ := p.(zyHivePort)
		listed, counted := zyHive.tokens(name)
		require.Equal(t, counted, listed)
		p.turn(name)
		zyHive.compact(name, 8) // two turns
		p.turn(name)
		words, summary = p.history(name)
		require.Equal(t, "by ZyHive", summary)
		again := inMemory()
		back := importAll(t, again, sessionsIn(t, files), nil)[0].Session
		said = saidIn(t, again, back, false)
		require.Equal(t, words, said[len(said)-len(words):])
		require.NotContains(t, strings.Join(said[:len(said)-len(words)], " "), "question")
		require.Equal(t, slices.Concat(saidIn(t, st, s.Ref(), true), turnWords, turnWords), saidIn(t, again, back, true))
		_, err = exchange.Find(t.Context(), again, s.Ref())
		require.NoError(t, err)
	}
}
