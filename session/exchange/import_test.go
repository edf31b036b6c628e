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
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

var cli = session.Key{Agent: "main", Channel: "cli", Peer: "user"}

func open(t *testing.T, dir string) *session.Store {
	t.Helper()
	st, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
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
func sourceHistory(t *testing.T, s exchange.Source, opts *rebuild.Options) string {
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
	f, err := exchange.FullHistory(t.Context(), s)
	require.NoError(t, err)
	return historyText(t, h), historyText(t, f)
}

// Every session of every program has the history of its source, even after a
// restart, and importing it again changes no byte.
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

// checkImported checks the times of a session, its original lines, and that its history
// makes a valid request at every step.
func checkImported(t *testing.T, st *session.Store, im exchange.Imported) {
	t.Helper()
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	info := storetest.Info(t, s)
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
	for e, err := range s.Entries(t.Context(), "") {
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
	cur, err := storetest.Current(ctx, st, key)
	require.NoError(t, err)
	require.Equal(t, own.Ref().ID, cur.Ref().ID)
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

// A newer import takes the place of an older one as the current session.
func TestImportCurrent(t *testing.T) {
	ctx := t.Context()
	st := inMemory()
	newer := strings.NewReplacer("0123456789ab", "ba9876543210", "2026-02-24", "2026-03-24").Replace(flatSource)
	files := fstest.MapFS{"a_0123456789ab.jsonl": {Data: []byte(newer)}, "b.jsonl": {Data: []byte(flatSource)}}
	report := importAll(t, st, sessionsIn(t, files), nil)
	cur, err := storetest.Current(ctx, st, session.Key{Agent: "main", Channel: "cli", Peer: "ann"})
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
			for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
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

// A header with a wrong checksum is still the header: its data about the session
// is imported.
func TestImportDamagedHeader(t *testing.T) {
	from := inMemory()
	s, err := from.Create(t.Context(), cli, &session.CreateOptions{Owner: "ada", Labels: []string{"word"}})
	require.NoError(t, err)
	add(t, s, transcript.UserText("hi"))
	var lines bytes.Buffer
	require.NoError(t, exchange.Lines(t.Context(), s, &lines))
	changed := bytes.Replace(lines.Bytes(), []byte(`"word"`), []byte(`"ward"`), 1)
	files := fstest.MapFS{"agents/main/sessions/" + s.Ref().ID + ".jsonl": {Data: changed}}
	to := inMemory()
	im := importAll(t, to, sessionsIn(t, files), nil)[0]
	require.Equal(t, 1, im.Lost["damage"])
	got, err := to.Get(t.Context(), im.Session)
	require.NoError(t, err)
	require.Equal(t, "ada", storetest.Info(t, got).Owner)
	require.Equal(t, []string{"ward"}, storetest.Info(t, got).Labels)
	header, _, _ := bytes.Cut(changed, []byte("\n"))
	for rec, err := range got.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		src, _ := rec.Entry.Source()
		require.Equal(t, string(header), string(src))
		break
	}
}

// Commits, and their outcomes, are the same in an imported session.
func TestImportCommits(t *testing.T) {
	from := inMemory()
	s := load(t, from)
	turn := func(text string) {
		add(t, s, transcript.UserText(text), transcript.AssistantText(text))
		require.NoError(t, memory.RecordUse(t.Context(), s, memory.Use{URI: "u"}))
	}
	chaptersOf := func(s *session.Session) (all []string) {
		chapters, err := memory.Chapters(t.Context(), s)
		require.NoError(t, err)
		for _, a := range chapters {
			h, err := memory.ReadChapter(t.Context(), s, a.Name)
			require.NoError(t, err)
			var said strings.Builder
			fmt.Fprint(&said, a.Name, a.Abstract, a.Overview, a.Messages, a.Extracted)
			for _, m := range h.Messages {
				said.WriteString(m.Text())
			}
			all = append(all, said.String())
		}
		return all
	}
	for i := range 3 {
		turn(fmt.Sprint("before ", i))
		done, err := memory.Commit(t.Context(), s, &memory.CommitOptions{KeepHistory: i == 1})
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
	files := fstest.MapFS{"agents/main/sessions/" + s.Ref().ID + ".jsonl": {Data: lines.Bytes()}}
	to := inMemory()
	im := importAll(t, to, sessionsIn(t, files), nil)[0]
	again, err := to.Get(t.Context(), im.Session)
	require.NoError(t, err)
	require.Equal(t, chaptersOf(s), chaptersOf(again))
	require.Equal(t, stats(t, s), stats(t, again))
	for _, s := range []*session.Session{s, again} {
		done, err := memory.Commit(t.Context(), s, nil)
		require.NoError(t, err)
		require.Equal(t, "chapter_004", done.Chapter)
		require.Equal(t, 2, done.Messages)
	}
}

func stats(t *testing.T, s *session.Session) memory.Stats {
	t.Helper()
	sum, err := memory.ReadStats(t.Context(), s)
	require.NoError(t, err)
	return sum
}
