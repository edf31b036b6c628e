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
				if line++; line%storetest.Extent(*storetest.Faults, 3, 1, 1) > 0 {
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
