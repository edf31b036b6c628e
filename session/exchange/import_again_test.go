package exchange_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// The new part of a source is appended, or the error has the reason and nothing
// is written.
func TestImportGrown(t *testing.T) {
	diverged := map[dialect.Dialect]int{}
	step := storetest.Extent(*storetest.Faults, 3, 1, 1)
	if testing.Short() {
		step *= 5
	}
	for _, dir := range foreignFolders(t) {
		files := fstest.MapFS{}
		for name, data := range treeOf(t, dir) {
			rel, err := filepath.Rel(dir, name)
			require.NoError(t, err)
			files[filepath.ToSlash(rel)] = &fstest.MapFile{Data: []byte(data)}
		}
		for s := range sessionsIn(t, files) {
			whole := files[s.Path]
			if s.Err != nil || whole == nil || len(whole.Data) > 20_000 {
				continue
			}
			line := 0
			for n := 1; n < len(whole.Data); n++ {
				if whole.Data[n-1] != '\n' {
					continue
				}
				if line++; line%step > 0 {
					continue
				}
				if !growFrom(t, files, s, n) {
					diverged[s.Dialect]++
				}
			}
		}
	}
	for _, d := range []dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.OpenViking, dialect.Native} {
		if diverged[d] > 0 {
			t.Errorf("%s: %d beginnings cannot be continued", d, diverged[d])
		}
	}
	t.Logf("beginnings that cannot be continued: %v", diverged)
}

// An archived session is imported again as long as its source is unchanged.
func TestImportArchived(t *testing.T) {
	one := `{"type":"session","id":"00aa11bb22dd","key":"main:cli:bo","created":"2026-03-01T09:00:00.000000+00:00"}` + "\n" +
		`{"type":"user","content":"one","ts":"2026-03-01T09:00:02.000000+00:00"}` + "\n"
	two := `{"type":"user","content":"two","ts":"2026-03-01T09:00:03.000000+00:00"}` + "\n"
	files := fstest.MapFS{"transcripts/main_cli_bo_00aa11bb22dd.jsonl": {Data: []byte(one)}}
	st := inMemory()
	report, err := exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.NoError(t, err)
	require.Len(t, report, 1)
	ref := report[0].Session
	require.NoError(t, st.SetState(t.Context(), ref, session.Archived, -1))
	report, err = exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.NoError(t, err)
	require.Zero(t, report[0].Appended)
	files["transcripts/main_cli_bo_00aa11bb22dd.jsonl"].Data = []byte(one + two)
	_, err = exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorIs(t, err, session.ErrArchived)
	require.NoError(t, st.SetState(t.Context(), ref, session.Live, -1))
	report, err = exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.NoError(t, err)
	require.Equal(t, 1, report[0].Appended)
}

// A commit of OpenViking moves messages into an archive and puts a summary in
// their place: they are the same messages.
func TestImportCommitted(t *testing.T) {
	line := func(id, role, text string) string {
		return fmt.Sprintf(`{"id":%q,"role":%q,"parts":[{"type":"text","text":%q}],"created_at":"2026-03-01T09:00:00Z"}`+"\n", id, role, text)
	}
	old := line("m1", "user", "one") + line("m2", "assistant", "two")
	st := inMemory()
	live := fstest.MapFS{"s1/messages.jsonl": {Data: []byte(old)}, "s1/.meta.json": {Data: []byte(`{"session_id":"s1"}`)}}
	importAll(t, st, sessionsIn(t, live), nil)
	committed := maps.Clone(live)
	committed["s1/history/archive_001/messages.jsonl"] = &fstest.MapFile{Data: []byte(old)}
	committed["s1/history/archive_001/.overview.md"] = &fstest.MapFile{Data: []byte("They counted.")}
	committed["s1/messages.jsonl"] = &fstest.MapFile{Data: []byte(line("m3", "user", "three"))}
	im := importAll(t, st, sessionsIn(t, committed), nil)[0]
	history, _ := importedHistory(t, st, im.Session)
	if im.Created || im.Appended != 3 || history != sourceHistory(t, im.Source, nil) || !strings.Contains(history, "They counted.") || strings.Contains(history, "two") {
		t.Errorf("%+v\n%s", im, history)
	}
	// A further commit continues counting, and takes live messages.
	again := inMemory()
	s, err := again.Get(t.Context(), importAll(t, again, sessionsIn(t, committed), nil)[0].Session)
	require.NoError(t, err)
	add(t, s, transcript.AssistantText("four"))
	done, err := memory.Commit(t.Context(), s, nil)
	require.NoError(t, err)
	require.Equal(t, "chapter_002", done.Chapter)
	chapter, err := memory.ReadChapter(t.Context(), s, "chapter_002")
	require.NoError(t, err)
	require.Len(t, chapter.Messages, 2)
	require.Equal(t, "three", chapter.Messages[0].Text())
	stats, err := memory.ReadStats(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, 2, stats.Commits)
	chapter, err = memory.ReadChapter(t.Context(), s, "chapter_001")
	require.NoError(t, err)
	require.Len(t, chapter.Messages, 2)
	// An archive that is lost later takes nothing from the session.
	delete(committed, "s1/history/archive_001/messages.jsonl")
	_, err = exchange.Import(t.Context(), st, sessionsIn(t, committed), nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
	after, _ := importedHistory(t, st, im.Session)
	require.Equal(t, history, after)
}

// growFrom imports the first n bytes of a transcript, and then all of it.
func growFrom(t *testing.T, files fstest.MapFS, whole dialect.Session, n int) (continued bool) {
	t.Helper()
	begun := maps.Clone(files)
	begun[whole.Path] = &fstest.MapFile{Data: files[whole.Path].Data[:n]}
	var source dialect.Session
	for s := range sessionsIn(t, begun) {
		if s.Path == whole.Path && s.Dialect == whole.Dialect && s.ID == whole.ID {
			source = s
		}
	}
	if source.Path == "" {
		return true // its beginning is nothing yet
	}
	key := func(dialect.Session) (session.Key, error) {
		return session.Key{Agent: "main", Channel: "cli", Peer: "grown"}, nil
	}
	st := inMemory()
	opts := &exchange.ImportOptions{Key: key}
	first := importAll(t, st, slices.Values([]dialect.Session{source}), opts)[0]
	report, err := exchange.Import(t.Context(), st, slices.Values([]dialect.Session{whole}), opts)
	then := report[0]
	if first.Session != then.Session || then.Created {
		t.Fatalf("%s of %d bytes: two sessions %v and %v", whole.Path, n, first.Session, then.Session)
	}
	history, _ := importedHistory(t, st, then.Session)
	want := sourceHistory(t, whole, nil)
	if err != nil {
		if !errors.Is(err, exchange.ErrDiverged) {
			t.Fatalf("%s of %d bytes: %v", whole.Path, n, err)
		}
		want = sourceHistory(t, source, nil)
	}
	if history != want {
		t.Errorf("%s of %d bytes, then all (%v): history\n%s\nwant\n%s", whole.Path, n, err, history, want)
	}
	if err == nil {
		if im := importAll(t, st, slices.Values([]dialect.Session{whole}), opts)[0]; im.Appended != 0 {
			t.Errorf("%s of %d bytes: %d records a third time", whole.Path, n, im.Appended)
		}
	}
	return err == nil
}

// A later export of the same conversations adds the new parts: messages, an answer that
// replaces another, a title. Each conversation is a session.
func TestImportExportedAgain(t *testing.T) {
	node := func(id, parent, children, role, text string) string {
		return fmt.Sprintf(`%q:{"id":%[1]q,"parent":%[2]q,"children":[%s],"message":{"author":{"role":%q},"create_time":1790000000,"content":{"content_type":"text","parts":[%q]}}}`, id, parent, children, role, text)
	}
	export := func(title, leaf string, nodes ...string) string {
		return fmt.Sprintf(`{"title":%q,"create_time":1790000000,"mapping":{%s},"current_node":%q,"conversation_id":"c1"}`, title, strings.Join(nodes, ","), leaf)
	}
	const other = `{"title":"Other","mapping":{"x":{"id":"x","message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["Elsewhere"]}}}},"conversation_id":"c2"}`
	ask, answer := node("q", "", `"a"`, "user", "Is it cold?"), node("a", "q", "", "assistant", "Yes.")
	first := export("Cold", "a", ask, answer)
	grown := export("Cold weather", "a2", ask, node("a", "q", `"q2"`, "assistant", "Yes."), node("q2", "a", `"a2"`, "user", "How cold?"), node("a2", "q2", "", "assistant", "Two degrees."))
	again := export("Cold weather", "b", node("q", "", `"a","b"`, "user", "Is it cold?"), answer, node("b", "q", "", "assistant", "A little."))
	for name, tt := range map[string]struct {
		later    string
		appended int
		want     []string
	}{
		"touched":  {strings.ReplaceAll(first, `"parent"`, `"seen":true,"parent"`), 0, []string{"Is it cold?", "Yes."}},
		"the same": {first, 0, []string{"Is it cold?", "Yes."}},
		"grown":    {grown, 3, []string{"Is it cold?", "Yes.", "How cold?", "Two degrees."}},
		"branch":   {again, 2, []string{"Is it cold?", "A little."}},
	} {
		st := inMemory()
		files := fstest.MapFS{"conversations.json": {Data: []byte("[" + first + "," + other + "]")}}
		report := importAll(t, st, sessionsIn(t, files), nil)
		require.Len(t, report, 2, name)
		files["conversations.json"].Data = []byte("[" + other + ",\n" + tt.later + "]")
		report = importAll(t, st, sessionsIn(t, files), nil)
		require.Len(t, report, 2, name)
		require.Zero(t, report[0].Appended, name)
		require.Equal(t, tt.appended, report[1].Appended, name)
		s, err := st.Get(t.Context(), report[1].Session)
		require.NoError(t, err)
		h, err := s.History(t.Context())
		require.NoError(t, err)
		var said []string
		for _, m := range h.Messages {
			said = append(said, m.Text())
		}
		require.Equal(t, tt.want, said, name)
		infos, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, infos, 2, name)
	}
}
