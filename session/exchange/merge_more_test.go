package exchange_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/redact"
)

func init() { storetest.Register("merger", merger) }

// merger merges a folder into another one and reports each session.
func merger(dirs []string, _ io.Reader, stdout io.Writer) error {
	from, err := openFolder(dirs[0])
	if err != nil {
		return err
	}
	to, err := openFolder(dirs[1])
	if err != nil {
		return err
	}
	_, err = exchange.Merge(context.Background(), from, to, &exchange.CopyOptions{
		From: keptOf(from), To: keptOf(to), Each: func(c exchange.CopyResult, _ error) { fmt.Fprintln(stdout, c.ID) },
	})
	return err
}

// A merge that is killed anywhere is completed by the next one.
func TestMergeKilled(t *testing.T) {
	ofA, ofB := t.TempDir(), t.TempDir()
	a, b := folderOf(t, ofA), folderOf(t, ofB)
	diverged(t, 2, a, b)
	wantA, wantB := contents(t, a), contents(t, b)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	r := rand.New(rand.NewPCG(1, 2))
	for range storetest.Extent(*storetest.Faults, 3, 8, 40) {
		cmd := storetest.Child(t, "merger", ofB, ofA)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(len(wantB)) {
			lines.Scan()
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	a, b = folderOf(t, ofA), folderOf(t, ofB)
	merged(t, b, a)
	holdsBoth(t, a, wantA, wantB)
	require.Zero(t, merged(t, b, a).Lines)
}

// twoEnds returns two stores with a session that both have continued; the second end is
// longer if more is above 0.
func twoEnds(t *testing.T, a, b *session.Store, owner string, more int) (s, theirs *session.Session) {
	t.Helper()
	s, err := a.Create(t.Context(), cli, &session.CreateOptions{Owner: owner})
	require.NoError(t, err)
	say(t, s, "one")
	copied(t, a, b)
	theirs, err = b.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	say(t, s, "of a")
	say(t, theirs, "of b "+planted)
	for range more {
		say(t, theirs, "more")
	}
	return s, theirs
}

// The filters of the store get all lines that come in.
func TestMergeFiltered(t *testing.T) {
	for _, more := range []int{0, 2} {
		kept := blobs.Memory()
		b, a := inMemory(), session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets), blobs.Filter(kept, nil)}})
		keptBy.Store(a, kept)
		s, theirs := twoEnds(t, a, b, "", more)
		_, err := theirs.Append(t.Context(), picture(1))
		require.NoError(t, err)
		say(t, s, "also of a")
		require.Equal(t, 1, merged(t, b, a).Forks)
		require.NotContains(t, textOf(t, a), planted)
		require.Contains(t, textOf(t, a), "of b ")
		require.Zero(t, merged(t, b, a).Lines)
		require.Contains(t, textOf(t, a), "of a")
		say(t, theirs, "later")
		require.Equal(t, 1, merged(t, b, a).Lines)
		require.NotEqual(t, more > 0, bytes.Contains([]byte(linesIn(t, a, s.Ref())), []byte("of a")))
	}
}

// A merge into a scope reaches the sessions of its owner alone.
func TestMergeScope(t *testing.T) {
	a, b := inMemory(), inMemory()
	other, err := a.Create(t.Context(), cli, &session.CreateOptions{Owner: "bert"})
	require.NoError(t, err)
	s, _ := twoEnds(t, a, b, "ada", 2)
	his, err := b.Get(t.Context(), other.Ref())
	require.NoError(t, err)
	say(t, his, "for bert alone")
	before := linesIn(t, a, other.Ref())
	ofAda, err := a.Scope("ada")
	require.NoError(t, err)
	theirs, err := b.Scope("ada")
	require.NoError(t, err)
	report := merged(t, theirs, ofAda)
	require.Equal(t, 1, report.Forks)
	require.Equal(t, 1, report.Sessions)
	require.Equal(t, before, linesIn(t, a, other.Ref()))
	require.Contains(t, linesIn(t, a, s.Ref()), "of b")
	infos, err := ofAda.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, infos, 2)

	_, err = mergeAll(t, b, ofAda, nil) // the session of another owner is refused
	require.Error(t, err)
	require.Equal(t, before, linesIn(t, a, other.Ref()))
}

// A transcript with damage keeps its end, which a replacement would lose.
func TestMergeDamage(t *testing.T) {
	dir := t.TempDir()
	a, b := folderOf(t, dir), inMemory()
	s, _ := twoEnds(t, a, b, "", 3)
	say(t, s, "damaged", "intact")
	require.NoError(t, a.Close())
	name := transcripts(t, dir)[0]
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text[bytes.Index(text, []byte(`"damaged"`))] = 'x'
	require.NoError(t, os.WriteFile(name, text, 0o600))
	a = folderOf(t, dir)
	require.Equal(t, 1, merged(t, b, a).Forks)
	now, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(text), string(now))
	require.Contains(t, textOf(t, a), "more")
}

// An archived session stays so unless it gets the longer end.
func TestMergeArchived(t *testing.T) {
	for _, more := range []int{0, 2} {
		a, b := inMemory(), inMemory()
		s, _ := twoEnds(t, a, b, "", more)
		if more == 0 {
			say(t, s, "longer")
		}
		require.NoError(t, a.SetState(t.Context(), s.Ref(), session.Archived, -1))
		for range 2 {
			merged(t, b, a)
			s, err := a.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			want := session.Archived
			if more > 0 {
				want = session.Live
			}
			require.Equal(t, want, storetest.Info(t, s).State)
		}
	}
}

// Messages that others append during a merge are in the store after it.
func TestMergeWhileInUse(t *testing.T) {
	under, b := memdriver.New(nil), inMemory()
	others := session.OpenDriver(memdriver.Reopen(under), nil)
	s, _ := twoEnds(t, others, b, "", 3)
	hooks := &busy{able: under.(able)}
	a := session.OpenDriver(hooks, nil)
	n := 0
	hooks.beforeRewrite = func() {
		if n++; n == 1 {
			say(t, s, "late")
		}
	}
	report := merged(t, b, a)
	require.Equal(t, 2, n, "the first try finds the new message")
	require.Equal(t, 1, report.Forks)
	now := session.OpenDriver(memdriver.Reopen(under), nil) // others get ErrReplaced once
	require.Contains(t, textOf(t, now), "late")
	require.Contains(t, linesIn(t, now, s.Ref()), "more")
}

// A transcript that a kill has damaged stays as it is. It is continued, unless a batch is
// cut: then the other end is a fork.
func TestMergeTorn(t *testing.T) {
	for name, forks := range map[string]int{"a line": 0, "a batch": 1} {
		t.Run(name, func(t *testing.T) {
			under, b := memdriver.New(nil), inMemory()
			s := load(t, b)
			say(t, s, "one")
			a := session.OpenDriver(memdriver.Reopen(under), nil)
			copied(t, b, a)
			say(t, s, "two", "three")
			torn := []driver.Line{{Data: []byte(`{"type":"us`)}}
			if forks > 0 { // the first line of two
				for e, err := range s.Entries(t.Context(), "") {
					require.NoError(t, err)
					if e.Batch == 2 {
						torn = slices.Insert(torn, 0, driver.Line{Data: e.Line()})
					}
				}
				require.Len(t, torn, 2)
			}
			_, err := under.Append(t.Context(), s.Ref(), torn, driver.Anywhere, nil)
			require.NoError(t, err)
			a = session.OpenDriver(memdriver.Reopen(under), nil)
			before := linesIn(t, a, s.Ref())
			require.Equal(t, forks, merged(t, b, a).Forks)
			require.True(t, strings.HasPrefix(linesIn(t, a, s.Ref()), before))
			require.Equal(t, forks == 0, strings.Contains(linesIn(t, a, s.Ref()), "three"))
			require.Contains(t, textOf(t, a), "three")
			require.Zero(t, merged(t, b, a).Lines)
		})
	}
}
