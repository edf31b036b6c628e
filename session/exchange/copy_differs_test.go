package exchange_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
)

func say(t testing.TB, s *session.Session, texts ...string) []string {
	t.Helper()
	var items []transcript.Item
	for _, text := range texts {
		items = append(items, transcript.UserText(text))
	}
	ids, err := s.Append(t.Context(), items...)
	require.NoError(t, err)
	return ids
}

// picture is a message with an image that becomes a blob, if the store has them.
func picture(n byte) transcript.Message {
	data := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 15_000))
	image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: data}}
	return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{image}}
}

// A session that differs from its copy is an error that names it, and changes
// nothing; the others are copied.
func TestCopyDiverged(t *testing.T) {
	for name, differ := range map[string]func(t *testing.T, from, to *session.Store, s *session.Session, ids []string){
		"continued": func(t *testing.T, _, to *session.Store, s *session.Session, _ []string) {
			copy, err := to.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			say(t, copy, "said to the copy")
		},
		"continued in both": func(t *testing.T, _, to *session.Store, s *session.Session, _ []string) {
			copy, err := to.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			say(t, copy, "said to the copy")
			say(t, s, "said here", "and here")
		},
		"erased": func(t *testing.T, from, _ *session.Store, s *session.Session, ids []string) {
			p, err := erase.Preview(t.Context(), from, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[1:2]}}})
			require.NoError(t, err)
			_, err = erase.Run(t.Context(), from, p)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := inMemory(), folderOf(t, t.TempDir())
			s := load(t, from)
			ids := say(t, s, "one", "two", "three")
			copied(t, from, to)
			differ(t, from, to, s, ids)
			before := textOf(t, to)
			_, err := copyAll(t.Context(), from, to, nil)
			require.ErrorIs(t, err, exchange.ErrDiverged)
			require.ErrorContains(t, err, s.Ref().ID)
			require.Equal(t, before, textOf(t, to))

			other, err := from.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "other"}, nil)
			require.NoError(t, err)
			report, err := copyAll(t.Context(), from, to, nil)
			require.ErrorIs(t, err, exchange.ErrDiverged)
			require.Equal(t, exchange.CopyReport{Sessions: 2, Created: 1, Changed: 1, Lines: 1, Failed: 1}, report)
			_, err = to.Get(t.Context(), other.Ref())
			require.NoError(t, err)

			require.NoError(t, to.Delete(t.Context(), s.Ref()), "the way out that the error names")
			copied(t, from, to)
			require.Equal(t, textOf(t, from), textOf(t, to))
		})
	}
}

// Sessions that only the copy has stay, unless they are in the way.
func TestCopyOthers(t *testing.T) {
	from, to := inMemory(), inMemory()
	mine := load(t, from)
	theirs := load(t, to) // the first one of the same key
	_, err := copyAll(t.Context(), from, to, nil)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, theirs.Ref().ID)
	_, err = to.Get(t.Context(), mine.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)

	second, err := to.Create(t.Context(), cli, nil)
	require.NoError(t, err)
	require.NoError(t, to.Delete(t.Context(), theirs.Ref()), "the way out that the error names")
	theirs = second
	for n := range 3 { // theirs has the gen of the first of these
		later, err := from.Create(t.Context(), cli, nil)
		require.NoError(t, err)
		if n < 2 {
			require.NoError(t, from.Delete(t.Context(), later.Ref()))
		}
	}
	require.NoError(t, mine.MakeCurrent(t.Context())) // its gen is now above theirs
	copied(t, from, to)
	now, err := storetest.Current(t.Context(), to, cli)
	require.NoError(t, err)
	require.Equal(t, mine.Ref().ID, now.Ref().ID)
	require.NoError(t, theirs.MakeCurrent(t.Context()))
	_, err = copyAll(t.Context(), from, to, nil)
	require.ErrorContains(t, err, theirs.Ref().ID)
	require.ErrorContains(t, err, mine.Ref().ID)
}

// transcripts returns the names of the transcripts in a folder.
func transcripts(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "agents", "*", "sessions", "*.jsonl"))
	require.NoError(t, err)
	return names
}

// A part of a batch that a kill has left in the copy does not stay there.
func TestCopyTorn(t *testing.T) {
	from, dir := inMemory(), t.TempDir()
	s := load(t, from)
	say(t, s, "one", "two", "three")
	to := folderOf(t, dir)
	copied(t, from, to)
	require.NoError(t, to.Close())
	name := transcripts(t, dir)[0]
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	want := textOf(t, from)
	for size := bytes.IndexByte(whole, '\n') + 1; size < len(whole); size += 7 {
		require.NoError(t, os.WriteFile(name, whole[:size], 0o600))
		to := folderOf(t, dir)
		_, err := to.Get(t.Context(), s.Ref()) // ends the part of a line
		require.NoError(t, err)
		copied(t, from, to)
		require.Equal(t, want, textOf(t, to), size)
		require.NoError(t, to.Close())
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(whole)), strings.TrimSpace(string(got)), size)
	}
}

func linesIn(t testing.TB, st *session.Store, ref session.Ref) string {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	var sb strings.Builder
	require.NoError(t, exchange.Lines(t.Context(), s, &sb))
	return sb.String()
}

// Damaged places are reported and left out, and nothing is deleted when a folder is
// copied to itself.
func TestCopyDamage(t *testing.T) {
	dir := t.TempDir()
	from := folderOf(t, dir)
	s := load(t, from)
	for _, text := range []string{"one", "two", "three"} {
		say(t, s, text)
	}
	require.NoError(t, from.Close())
	name := transcripts(t, dir)[0]
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	at := bytes.Index(text, []byte(`"two"`))
	text[at] = 'x'
	require.NoError(t, os.WriteFile(name, text, 0o600))

	from = folderOf(t, dir)
	want := linesIn(t, from, s.Ref())
	require.NotContains(t, want, "two")
	var seen []exchange.CopyResult
	each := func(c exchange.CopyResult, err error) {
		require.NoError(t, err)
		seen = append(seen, c)
	}
	to := memoryOf(nil)
	for range 2 {
		report, err := copyAll(t.Context(), from, to, &exchange.CopyOptions{Each: each})
		require.NoError(t, err)
		require.Equal(t, 1, report.Damage)
		require.Equal(t, want, linesIn(t, to, s.Ref()))
	}
	require.Equal(t, 3, seen[0].Appended)
	require.Zero(t, seen[1].Appended)
	require.Equal(t, "two", string(text[at+1:at+4]))
	require.Equal(t, int64(bytes.LastIndexByte(text[:at], '\n')+1), seen[0].Damage[0].Offset)

	copied(t, from, folderOf(t, dir))
	now, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(text), string(now))
}

// Lines that are appended during a copy come with the next one.
func TestCopyGrowing(t *testing.T) {
	from, to := folderOf(t, t.TempDir()), memoryOf(nil)
	a := load(t, from)
	b, err := from.Create(t.Context(), cli, nil)
	require.NoError(t, err)
	_, err = copyAll(t.Context(), from, to, &exchange.CopyOptions{Each: func(exchange.CopyResult, error) {
		say(t, a, "more")
		say(t, b, "more")
		require.NoError(t, a.MakeCurrent(t.Context()))
		require.NoError(t, b.MakeCurrent(t.Context()))
	}})
	require.NoError(t, err)
	copied(t, from, to)
	require.Equal(t, textOf(t, from), textOf(t, to))
}

// A session of many chunks is copied, a part of it first.
func TestCopyLong(t *testing.T) {
	from, to := memoryOf(nil), folderOf(t, t.TempDir())
	s := load(t, from)
	long := strings.Repeat("long ", 40_000)
	for range 2 {
		for range 3 {
			say(t, s, long, long, "short")
		}
		require.Positive(t, copied(t, from, to).Lines)
		require.Equal(t, textOf(t, from), textOf(t, to))
	}
}

// Stores without a place for blobs, scopes, and drivers that cannot take sessions over.
func TestCopyRefuses(t *testing.T) {
	from := filled(t, 1, 60)
	_, err := load(t, from).Append(t.Context(), picture(1))
	require.NoError(t, err)
	_, err = copyAll(t.Context(), from, inMemory(), nil)
	require.ErrorContains(t, err, "CopyOptions.To")
	_, err = exchange.Copy(t.Context(), from, inMemory(), nil)
	require.ErrorContains(t, err, "outside of its lines")

	scope, err := memoryOf(nil).Scope("ada")
	require.NoError(t, err)
	_, err = copyAll(t.Context(), from, scope, nil)
	require.ErrorContains(t, err, "another owner")

	theirs, err := from.Scope("ada")
	require.NoError(t, err)
	keptBy.Store(theirs, keptOf(from))
	to := memoryOf(nil)
	copied(t, theirs, to)
	require.NotEmpty(t, textOf(t, to))
	require.Equal(t, textOf(t, theirs), textOf(t, to))
	back := memoryOf(nil)
	scope, err = back.Scope("ada")
	require.NoError(t, err)
	keptBy.Store(scope, keptOf(back))
	copied(t, theirs, scope)
	require.Equal(t, textOf(t, theirs), textOf(t, scope))
}

// In the copy the same sessions are current for each owner of a key, and those that are
// set aside are none.
func TestCopyOfOwners(t *testing.T) {
	ctx := t.Context()
	for name, to := range map[string]*session.Store{"memory": memoryOf(nil), "files": storetest.Open(t, t.TempDir(), nil)} {
		keptBy.Store(to, blobs.Memory())
		from := memoryOf(nil)
		var given *session.Session
		for _, owner := range []string{"ada", "", "bert", "ada", "eve"} {
			s, err := from.Create(ctx, cli, &session.CreateOptions{Owner: owner})
			require.NoError(t, err)
			id := add(t, s, transcript.UserText("of "+owner))
			if given, err = s.Fork(ctx, id[0], &session.CreateOptions{Owner: "dora"}); owner != "eve" {
				require.NoError(t, err)
				require.NoError(t, from.Delete(ctx, given.Ref()))
			}
		}
		for range 2 {
			copied(t, from, to)
			require.Equal(t, textOf(t, from), textOf(t, to), name)
			for _, owner := range []string{"ada", "", "bert", "eve", "dora"} {
				opts := &session.ListOptions{Key: cli, Owner: owner, Current: true}
				require.Equal(t, storetest.ListIDs(t, from, opts), storetest.ListIDs(t, to, opts), "%s: %s", name, owner)
			}
			there, err := to.Get(ctx, given.Ref())
			require.NoError(t, err)
			require.False(t, storetest.Info(t, there).Current)
		}
		require.NoError(t, to.Close())
	}
}

// Blobs are counted once, and a missing blob is missing in the copy as well.
func TestCopyBlobs(t *testing.T) {
	kept := blobs.Memory()
	from, to := over(memdriver.New(nil), kept), memoryOf(nil)
	s := load(t, from)
	_, err := s.Append(t.Context(), picture(1), picture(1), picture(2), picture(3))
	require.NoError(t, err)
	hashes, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	require.NoError(t, kept.Delete(t.Context(), s.Ref(), hashes[0]))
	report := copied(t, from, to)
	require.Equal(t, 2, report.Blobs)
	require.Equal(t, 1, report.Missing)
	require.Equal(t, textOf(t, from), textOf(t, to))
	_, err = s.Append(t.Context(), picture(4))
	require.NoError(t, err)
	report = copied(t, from, to)
	require.Equal(t, 1, report.Blobs)
	require.Equal(t, 1, report.Missing, "it still is")
}

// Blobs that were not there when their lines were copied come with the next copy.
func TestCopyBringsBlobs(t *testing.T) {
	d, kept := memdriver.New(nil), blobs.Memory()
	full, bare := over(d, kept), over(d, blobs.Memory())
	to := memoryOf(nil)
	_, err := load(t, full).Append(t.Context(), picture(1), picture(2))
	require.NoError(t, err)
	require.Equal(t, 2, copied(t, bare, to).Missing)
	report := copied(t, full, to)
	require.Equal(t, 2, report.Blobs)
	require.Zero(t, report.Missing)
	require.Equal(t, exchange.CopyReport{Sessions: 1}, copied(t, full, to))
}

// able is what the memory driver can do.
type able interface {
	driver.Driver
	driver.Rewriter
	driver.Watcher
}

// A busy driver has others do something before a session is deleted or scanned.
type busy struct {
	able
	scans                    sync.Once
	beforeScan, beforeDelete func() // the first scan, and each deletion
	beforeRewrite            func()
}

func (d *busy) Rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	if d.beforeRewrite != nil {
		d.beforeRewrite()
	}
	return d.able.Rewrite(ctx, ref, change)
}

func (d *busy) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	if d.beforeScan != nil {
		d.scans.Do(d.beforeScan)
	}
	return d.able.Scan(ctx, ref, from, dir, keep)
}

func (d *busy) Delete(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
	if d.beforeDelete != nil {
		d.beforeDelete()
	}
	return d.able.Delete(ctx, at, refs...)
}

// A session that becomes the current one, and grows, while it is copied: no line is half
// there, and the next copy brings missing ones.
func TestCopyWhileInUse(t *testing.T) {
	under := memdriver.New(nil)
	others := session.OpenDriver(memdriver.Reopen(under), nil)
	old := load(t, others)
	say(t, old, "one")
	_, err := others.Create(t.Context(), cli, nil)
	require.NoError(t, err)
	hooks := &busy{able: under.(able)}
	from, to := session.OpenDriver(hooks, nil), inMemory()
	hooks.beforeScan = func() {
		require.NoError(t, old.MakeCurrent(t.Context()))
		say(t, old, "two")
	}
	copied(t, from, to)
	copied(t, from, to)
	require.Equal(t, textOf(t, others), textOf(t, to))
}

// A copy that a kill has damaged is not deleted after later appends to it.
func TestCopyTornInUse(t *testing.T) {
	from, under := inMemory(), memdriver.New(nil)
	s := load(t, from)
	say(t, s, "one", "two")
	others := session.OpenDriver(memdriver.Reopen(under), nil)
	copied(t, from, others)
	say(t, s, "three")
	torn := []driver.Line{{Data: []byte(`{"type":"us`)}}
	_, err := under.Append(t.Context(), s.Ref(), torn, driver.Anywhere, nil)
	require.NoError(t, err)
	to := session.OpenDriver(&busy{able: under.(able), beforeDelete: func() {
		theirs, err := others.Get(t.Context(), s.Ref())
		require.NoError(t, err)
		say(t, theirs, "mine")
	}}, nil)
	_, err = copyAll(t.Context(), from, to, nil)
	require.Error(t, err)
	require.Contains(t, linesIn(t, others, s.Ref()), "mine")
}

// A store that is copied to itself loses nothing, even if a writer dies during it.
func TestCopyToItself(t *testing.T) {
	under := memdriver.New(nil)
	from := session.OpenDriver(memdriver.Reopen(under), nil)
	s := load(t, from)
	say(t, s, "one", "two")
	copied(t, from, from)
	to := session.OpenDriver(&busy{able: under.(able), beforeScan: func() {
		_, err := under.Append(t.Context(), s.Ref(), []driver.Line{{Data: []byte(`{"type":"us`)}}, driver.Anywhere, nil)
		require.NoError(t, err)
	}}, nil)
	copied(t, from, to)
	require.Contains(t, linesIn(t, from, s.Ref()), "two")
	copied(t, from, to) // the session itself is damaged
	say(t, s, "three")
	copied(t, from, to)
	require.Contains(t, linesIn(t, from, s.Ref()), "three")
}

// A session is archived in the copy if it is archived, whatever became of the copy.
func TestCopyArchived(t *testing.T) {
	from, to := folderOf(t, t.TempDir()), memoryOf(nil)
	s := load(t, from)
	say(t, s, "one")
	archived := func(st *session.Store) bool {
		infos, err := st.List(t.Context(), &session.ListOptions{State: session.Archived})
		require.NoError(t, err)
		return len(infos) == 1
	}
	for _, change := range []func() error{
		func() error { return nil },
		func() error { return from.SetState(t.Context(), s.Ref(), session.Archived, -1) },
		func() error { return from.SetState(t.Context(), s.Ref(), session.Live, -1) },
		func() error { return to.SetState(t.Context(), s.Ref(), session.Archived, -1) },
		func() error {
			say(t, s, "two")
			return to.SetState(t.Context(), s.Ref(), session.Archived, -1)
		},
		func() error {
			say(t, s, "three")
			return from.SetState(t.Context(), s.Ref(), session.Archived, -1)
		},
		func() error { return to.SetState(t.Context(), s.Ref(), session.Live, -1) },
	} {
		require.NoError(t, change())
		copied(t, from, to)
		require.Equal(t, archived(from), archived(to))
		require.Equal(t, textOf(t, from), textOf(t, to))
	}
}

// Lines without checksums get checksums in a store that writes them. Such a copy is whole,
// and is continued.
func TestCopyAddsChecksums(t *testing.T) {
	from := session.OpenDriver(memdriver.New(nil), &session.Options{NoChecksum: true})
	to := session.OpenDriver(memdriver.New(nil), nil)
	s := storetest.Load(t, from, cli)
	for n := range 3 {
		storetest.Add(t, s, transcript.UserText("q"), transcript.AssistantText("a"))
		report, err := exchange.Copy(t.Context(), from, to, nil)
		require.NoError(t, err)
		require.Equal(t, 2+max(0, 1-n), report.Lines)
	}
	copied, err := to.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	lines := storetest.Lines(t, copied)
	require.Len(t, lines, 7)
	for _, line := range lines[1:] { // the header is the session's
		require.Contains(t, line, `,"crc":"`)
	}
	health, err := copied.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, health.Damage)
}
