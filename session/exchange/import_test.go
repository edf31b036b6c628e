package exchange_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/wiretest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
	"github.com/convolog/convolog/transcript/filelog"
)

var cli = session.Key{Agent: "main", Channel: "cli", Peer: "user"}

func open(t *testing.T, dir string) *session.Store {
	t.Helper()
	st, err := session.Open(dir, &session.Options{Sync: filelog.SyncNever})
	require.NoError(t, err)
	return st
}

func inMemory() *session.Store { return session.OpenDriver(memdriver.New(nil), nil) }

func load(t *testing.T, st *session.Store) *session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), cli)
	require.NoError(t, err)
	return s
}

func add(t *testing.T, s *session.Session, items ...transcript.Item) []string {
	t.Helper()
	ids, err := s.Append(t.Context(), items...)
	require.NoError(t, err)
	return ids
}

// samples is the folder of the files of other programs.
const samples = "../../transcript/dialect/testdata/"

// foreignFolders returns the folders of other programs' files.
func foreignFolders(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"*", "corpora/hazards/*", "corpora/observed/*", "corpora/pi"} {
		names, err := filepath.Glob(samples + pattern)
		require.NoError(t, err)
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.IsDir() && filepath.Base(name) != "corpora" {
				dirs = append(dirs, name)
			}
		}
	}
	require.GreaterOrEqual(t, len(dirs), 6, "only the folders %q", dirs)
	return dirs
}

func sessionsIn(t *testing.T, fsys fs.FS) iter.Seq[dialect.Session] {
	t.Helper()
	folder, err := dialect.ReadFolder(fsys)
	require.NoError(t, err)
	return folder.Sessions()
}

// sourceHistory folds a source as it is.
func sourceHistory(t *testing.T, s dialect.Session, opts *rebuild.Options) string {
	t.Helper()
	fold := rebuild.New(opts)
	for b, err := range transcript.Batches(s.Records()) {
		if err == nil {
			err = fold.Add(b)
		}
		require.NoError(t, err)
	}
	return historyText(t, fold.History())
}

func historyText(t *testing.T, h rebuild.History) string {
	t.Helper()
	for _, m := range h.Messages {
		if len(m.Content) == 0 {
			t.Error("an empty message")
		}
	}
	text, err := json.Marshal(h)
	require.NoError(t, err)
	return string(text)
}

func importAll(t *testing.T, st *session.Store, source iter.Seq[dialect.Session], opts *exchange.ImportOptions) []exchange.Imported {
	t.Helper()
	report, err := exchange.Import(t.Context(), st, source, opts)
	var errs []error
	for _, im := range report {
		if im.Err != nil && im.Source.Err == nil {
			errs = append(errs, im.Err)
		}
	}
	require.NoError(t, errors.Join(errs...), "%v", err)
	return report
}

func importedHistory(t *testing.T, st *session.Store, ref session.Ref) (history, full string) {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	f, err := s.FullHistory(t.Context())
	require.NoError(t, err)
	return historyText(t, h), historyText(t, f)
}

// Every session of every program has the history that its source has, after a
// restart too, and importing it again changes no byte.
func TestImport(t *testing.T) {
	for _, dir := range foreignFolders(t) {
		t.Run(strings.ReplaceAll(dir, "../", ""), func(t *testing.T) {
			source := sessionsIn(t, os.DirFS(dir))
			to := t.TempDir()
			st := open(t, to)
			report := importAll(t, st, source, nil)
			require.NoError(t, st.Close())
			before := treeOf(t, to)
			st = open(t, to)
			for _, im := range report {
				if im.Err != nil {
					continue
				}
				history, full := importedHistory(t, st, im.Session)
				if want := sourceHistory(t, im.Source, nil); history != want {
					t.Errorf("%s: history\n%s\nwant\n%s", im.Source.Path, history, want)
				}
				if want := sourceHistory(t, im.Source, &rebuild.Options{Full: true}); full != want {
					t.Errorf("%s: whole history\n%s\nwant\n%s", im.Source.Path, full, want)
				}
				checkImported(t, st, im)
			}
			for _, im := range importAll(t, st, source, nil) {
				if im.Err == nil && (im.Created || im.Appended != 0) {
					t.Errorf("%s: again: created %v, %d appended", im.Source.Path, im.Created, im.Appended)
				}
			}
			require.NoError(t, st.Close())
			for name, data := range treeOf(t, to) {
				if strings.HasSuffix(name, ".jsonl") && before[name] != data {
					t.Errorf("%s was changed", name)
				}
			}
		})
	}
}

// checkImported checks what a session says beside its history: its times, its
// original lines, and that it is valid wherever it ends.
func checkImported(t *testing.T, st *session.Store, im exchange.Imported) {
	t.Helper()
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	info := s.Info()
	if want := im.Source.Created.UTC().Truncate(1000); !im.Source.Created.IsZero() && !info.CreatedAt.Equal(want) {
		t.Errorf("%s: created %v, want %v", im.Source.Path, info.CreatedAt, want)
	}
	if im.Source.Titled && info.Title != im.Source.Title && len(info.Title) < 1000 {
		t.Errorf("%s: title %q, want %q", im.Source.Path, info.Title, im.Source.Title)
	}
	if key, err := exchange.ImportKey(im.Source); err != nil || info.Key != key.String() {
		t.Errorf("%s: key %q, want %q (%v)", im.Source.Path, info.Key, key, err)
	}
	lines := map[string]int{}
	for rec, err := range im.Source.Records() {
		require.NoError(t, err)
		if rec.Damage == nil {
			lines[string(rec.Entry.Line())] = 1
		}
	}
	fold := rebuild.New(nil)
	var batcher transcript.Batcher
	for e, err := range s.Entries(t.Context()) {
		require.NoError(t, err)
		if line, ok := e.Source(); ok {
			delete(lines, string(line))
		}
		if e.Time.IsZero() {
			t.Errorf("%s: no time in %s", im.Source.Path, e.Line())
		}
		for _, b := range batcher.Add(e) {
			require.NoError(t, fold.Add(b))
		}
		h := fold.History()
		if n := len(h.Messages); n == 0 || h.Messages[n-1].Role != transcript.RoleUser {
			h.Messages = append(h.Messages, transcript.UserText("go on"))
		}
		body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "m", Messages: h.Messages})
		var req transcript.Request
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &req))
		if wrong := wiretest.Validate(req); len(wrong) > 0 {
			t.Errorf("%s: after %s: %v", im.Source.Path, e.ID, wrong)
		}
	}
	if len(lines) > 0 {
		t.Errorf("%s: lines that were not kept: %q", im.Source.Path, slices.Collect(maps.Keys(lines)))
	}
}

// treeOf returns the files below dir.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		files[name] = string(data)
		return err
	})
	require.NoError(t, err)
	return files
}

// A source that has grown gets its new part appended, or the error says why not
// and nothing is written.
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
			for n := 1; n < len(whole.Data); n++ {
				if whole.Data[n-1] != '\n' {
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

// An archived session is imported again as long as its source has nothing new.
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
	require.NoError(t, st.Archive(t.Context(), ref))
	report, err = exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.NoError(t, err)
	require.Zero(t, report[0].Appended)
	files["transcripts/main_cli_bo_00aa11bb22dd.jsonl"].Data = []byte(one + two)
	_, err = exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorIs(t, err, session.ErrArchived)
	require.NoError(t, st.Restore(t.Context(), ref))
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
	// A further commit goes on counting, and archives what is live.
	again := inMemory()
	s, err := again.Get(t.Context(), importAll(t, again, sessionsIn(t, committed), nil)[0].Session)
	require.NoError(t, err)
	add(t, s, transcript.AssistantText("four"))
	done, err := s.Commit(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "archive_002", done.Archive)
	archived, err := s.Archived(t.Context(), "archive_002")
	require.NoError(t, err)
	require.Len(t, archived.Messages, 2)
	require.Equal(t, "three", archived.Messages[0].Text())
	require.Equal(t, 2, s.Stats().Commits)
	archived, err = s.Archived(t.Context(), "archive_001")
	require.NoError(t, err)
	require.Len(t, archived.Messages, 2)
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

// A session whose import was killed at any byte of its transcript is completed
// by the next import, without doubles.
func TestImportKilled(t *testing.T) {
	for _, program := range []string{"mini-claw", "openviking", "zyhive"} {
		source := sessionsIn(t, os.DirFS(samples+program))
		dir := t.TempDir()
		st := open(t, dir)
		report := importAll(t, st, source, nil)
		require.NoError(t, st.Close())
		for _, im := range report {
			if im.Err != nil {
				continue
			}
			file := filepath.Join(dir, "agents", im.Session.Agent, "sessions", im.Session.ID+".jsonl")
			whole, err := os.ReadFile(file)
			require.NoError(t, err)
			header := bytes.IndexByte(whole, '\n') + 1
			step := max(1, (len(whole)-header)/12)
			for n := header; n < len(whole); n += step {
				killed := t.TempDir()
				to := filepath.Join(killed, "agents", im.Session.Agent, "sessions", filepath.Base(file))
				require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
				require.NoError(t, os.WriteFile(to, whole[:n], 0o600))
				st := open(t, killed)
				importAll(t, st, slices.Values([]dialect.Session{im.Source}), nil)
				history, full := importedHistory(t, st, im.Session)
				if want := sourceHistory(t, im.Source, nil); history != want {
					t.Fatalf("%s: killed at %d of %d: history\n%s\nwant\n%s", im.Source.Path, n, len(whole), history, want)
				}
				if want := sourceHistory(t, im.Source, &rebuild.Options{Full: true}); full != want {
					t.Fatalf("%s: killed at %d of %d: whole history\n%s\nwant\n%s", im.Source.Path, n, len(whole), full, want)
				}
				require.NoError(t, st.Close())
			}
		}
	}
}

// Several imports of one source at a time make one session each.
func TestImportTwiceAtOnce(t *testing.T) {
	drv := memdriver.New(nil)
	source := sessionsIn(t, os.DirFS(samples+"pi"))
	var wg sync.WaitGroup
	for range 4 {
		st := session.OpenDriver(drv.Reopen(), nil)
		wg.Go(func() {
			report, _ := exchange.Import(t.Context(), st, source, nil)
			for _, im := range report {
				if im.Err != nil && im.Source.Err == nil {
					t.Error(im.Err)
				}
			}
		})
	}
	wg.Wait()
	st := session.OpenDriver(drv, nil)
	for _, im := range importAll(t, st, source, nil) {
		if im.Err != nil {
			continue
		}
		if im.Created || im.Appended != 0 {
			t.Errorf("%s: created %v, %d appended", im.Source.Path, im.Created, im.Appended)
		}
		if history, _ := importedHistory(t, st, im.Session); history != sourceHistory(t, im.Source, nil) {
			t.Errorf("%s: history\n%s", im.Source.Path, history)
		}
	}
}

const flatSource = `{"type":"session","id":"0123456789ab","key":"main:cli:ann","created":"2026-02-24T10:00:00Z"}
{"type":"user","content":"hi","ts":"2026-02-24T10:00:01Z"}
{"type":"assistant","content":[{"type":"text","text":"hello"}],"ts":"2026-02-24T10:00:02Z"}
`

func flatFolder(text string) fstest.MapFS {
	return fstest.MapFS{"transcripts/main_cli_ann_0123456789ab.jsonl": {Data: []byte(text)}}
}

// A session of the store's own stays the current one of its key. A session that
// was continued on both sides does not change.
func TestImportBesideOwn(t *testing.T) {
	ctx := t.Context()
	st := inMemory()
	key := session.Key{Agent: "main", Channel: "cli", Peer: "ann"}
	own, err := st.Load(ctx, key)
	require.NoError(t, err)
	dry, err := exchange.Import(ctx, st, sessionsIn(t, flatFolder(flatSource)), &exchange.ImportOptions{DryRun: true})
	if err != nil || !dry[0].Created || dry[0].Appended != 2 || dry[0].Records != 2 {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	all, err := st.List(ctx, nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
	im := importAll(t, st, sessionsIn(t, flatFolder(flatSource)), nil)[0]
	cur, err := st.Lookup(ctx, key)
	require.NoError(t, err)
	require.Equal(t, own.ID(), cur.ID())
	s, err := st.Get(ctx, im.Session)
	require.NoError(t, err)
	add(t, s, transcript.UserText("and here?"))
	before, _ := importedHistory(t, st, im.Session)
	grown := flatSource + `{"type":"user","content":"and there?","ts":"2026-02-24T10:00:03Z"}` + "\n"
	for what, text := range map[string]string{
		"both continued": grown, "trimmed": flatSource[:strings.Index(flatSource, `{"type":"assistant"`)],
		"rewritten": strings.Replace(grown, `"hi"`, `"ho"`, 1),
	} {
		_, err := exchange.Import(ctx, st, sessionsIn(t, flatFolder(text)), nil)
		require.ErrorIs(t, err, exchange.ErrDiverged, what)
		if after, _ := importedHistory(t, st, im.Session); after != before {
			t.Errorf("%s: history\n%s", what, after)
		}
	}
	if im := importAll(t, st, sessionsIn(t, flatFolder(flatSource)), nil)[0]; im.Appended != 0 || im.Created {
		t.Errorf("continued here alone: %+v", im)
	}
}

// An import that was killed after it made the session leaves that one current.
// The next one makes the store's own session current again.
func TestImportKilledEarly(t *testing.T) {
	ctx := t.Context()
	killed := true
	drv := memdriver.New(&memdriver.Options{Fail: func(op string, _ session.Ref) error {
		if killed && op == "SetCurrent" {
			return errors.New("killed")
		}
		return nil
	}})
	key := session.Key{Agent: "main", Channel: "cli", Peer: "ann"}
	own, err := session.OpenDriver(drv, nil).Load(ctx, key)
	require.NoError(t, err)
	report, err := exchange.Import(ctx, session.OpenDriver(drv, nil), sessionsIn(t, flatFolder(flatSource)), nil)
	require.ErrorContains(t, err, "killed")
	require.True(t, report[0].Created)

	killed = false
	st := session.OpenDriver(drv.Reopen(), nil)
	cur, err := st.Lookup(ctx, key)
	require.NoError(t, err)
	require.Equal(t, report[0].Session, cur.Ref())
	im := importAll(t, st, sessionsIn(t, flatFolder(flatSource)), nil)[0]
	require.False(t, im.Created)
	require.Equal(t, 2, im.Appended)
	cur, err = st.Lookup(ctx, key)
	require.NoError(t, err)
	require.Equal(t, own.Ref(), cur.Ref())
}

// A newer import takes the place of an older one as the current session.
func TestImportCurrent(t *testing.T) {
	ctx := t.Context()
	st := inMemory()
	newer := strings.NewReplacer("0123456789ab", "ba9876543210", "2026-02-24", "2026-03-24").Replace(flatSource)
	files := fstest.MapFS{"a_0123456789ab.jsonl": {Data: []byte(newer)}, "b.jsonl": {Data: []byte(flatSource)}}
	report := importAll(t, st, sessionsIn(t, files), nil)
	cur, err := st.Lookup(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "ann"})
	require.NoError(t, err)
	require.Len(t, report, 2)
	require.Equal(t, report[0].Session, cur.Ref())
}

// A source that cannot be read, or not be understood, is an error that names
// it, and others are imported.
func TestImportErrors(t *testing.T) {
	st := inMemory()
	files := flatFolder(flatSource)
	files["newer.jsonl"] = &fstest.MapFile{Data: []byte(`{"type":"session","id":"n","ts":"2026-02-24T10:00:00Z","v":1,"key":"main:cli:bob"}` + "\n" +
		`{"type":"marvel","id":"m","ts":"2026-02-24T10:00:00Z","critical":true}` + "\n")}
	report, err := exchange.Import(t.Context(), st, sessionsIn(t, files), nil)
	require.ErrorIs(t, err, session.ErrNewerFormat)
	require.Contains(t, err.Error(), "newer.jsonl")
	require.Len(t, report, 2)
	all, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err = exchange.Import(ctx, st, sessionsIn(t, files), nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, report)
	full := errors.New("no room")
	st = session.OpenDriver(memdriver.New(&memdriver.Options{Fail: func(op string, _ session.Ref) error {
		if op == "Append" {
			return full
		}
		return nil
	}}), nil)
	_, err = exchange.Import(t.Context(), st, sessionsIn(t, flatFolder(flatSource)), nil)
	require.ErrorIs(t, err, full)
}

// Imported lines have checksums like all others, unless the store writes none.
func TestImportSeals(t *testing.T) {
	for _, bare := range []bool{false, true} {
		st := session.OpenDriver(memdriver.New(nil), &session.Options{NoChecksum: bare})
		report := importAll(t, st, sessionsIn(t, os.DirFS(samples+"claude-code")), nil)
		lines := 0
		for _, im := range report {
			require.NoError(t, im.Err)
			s, err := st.Get(t.Context(), im.Session)
			require.NoError(t, err)
			for rec, err := range s.Records(t.Context()) {
				require.NoError(t, err)
				require.Nil(t, rec.Damage)
				require.Equal(t, !bare, bytes.Contains(rec.Entry.Line(), []byte(`,"crc":"`)), "%s", rec.Entry.Line())
				lines++
			}
		}
		require.NotZero(t, lines)
		require.NoError(t, st.Close())
	}
}

// A header whose checksum is wrong is the header all the same: what it says of the
// session is imported.
func TestImportDamagedHeader(t *testing.T) {
	from := inMemory()
	s, err := from.Create(t.Context(), cli, &session.CreateOptions{Owner: "ada", Labels: []string{"word"}})
	require.NoError(t, err)
	add(t, s, transcript.UserText("hi"))
	var lines bytes.Buffer
	require.NoError(t, exchange.Lines(t.Context(), s, &lines))
	changed := bytes.Replace(lines.Bytes(), []byte(`"word"`), []byte(`"ward"`), 1)
	files := fstest.MapFS{"agents/main/sessions/" + s.ID() + ".jsonl": {Data: changed}}
	to := inMemory()
	im := importAll(t, to, sessionsIn(t, files), nil)[0]
	require.Equal(t, 1, im.Lost["damage"])
	got, err := to.Get(t.Context(), im.Session)
	require.NoError(t, err)
	require.Equal(t, "ada", got.Info().Owner)
	require.Equal(t, []string{"ward"}, got.Info().Labels)
	header, _, _ := bytes.Cut(changed, []byte("\n"))
	for rec, err := range got.Records(t.Context()) {
		require.NoError(t, err)
		src, _ := rec.Entry.Source()
		require.Equal(t, string(header), string(src))
		break
	}
}

// Commits, and what has come of them, are the same in an imported session.
func TestImportCommits(t *testing.T) {
	from := inMemory()
	s := load(t, from)
	turn := func(text string) {
		add(t, s, transcript.UserText(text), transcript.AssistantText(text))
		require.NoError(t, s.Use(t.Context(), []string{"u"}, nil))
	}
	archives := func(s *session.Session) (all []string) {
		archives, err := s.Archives(t.Context())
		require.NoError(t, err)
		for _, a := range archives {
			h, err := s.Archived(t.Context(), a.Name)
			require.NoError(t, err)
			var said strings.Builder
			fmt.Fprint(&said, a.Name, a.Abstract, a.Overview, a.Messages, a.Extracted, a.Owner)
			for _, m := range h.Messages {
				said.WriteString(m.Text())
			}
			all = append(all, said.String())
		}
		return all
	}
	for i := range 3 {
		turn(fmt.Sprint("before ", i))
		done, err := s.Commit(t.Context(), &session.CommitOptions{KeepHistory: i == 1})
		require.NoError(t, err)
		if i == 0 {
			add(t, s, transcript.Extracted{Commit: done.Entry, Counts: map[string]transcript.ExtractedCount{"events": {Added: 1}}})
		}
		turn(strings.Repeat("after all is said ", 2_000))
		_, err = s.Compact(t.Context(), nil)
		require.NoError(t, err)
	}
	var lines bytes.Buffer
	require.NoError(t, exchange.Lines(t.Context(), s, &lines))
	files := fstest.MapFS{"agents/main/sessions/" + s.ID() + ".jsonl": {Data: lines.Bytes()}}
	to := inMemory()
	im := importAll(t, to, sessionsIn(t, files), nil)[0]
	again, err := to.Get(t.Context(), im.Session)
	require.NoError(t, err)
	require.Equal(t, archives(s), archives(again))
	require.Equal(t, s.Stats(), again.Stats())
	for _, s := range []*session.Session{s, again} {
		done, err := s.Commit(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, "archive_004", done.Archive)
		require.Equal(t, 2, done.Messages)
	}
}
