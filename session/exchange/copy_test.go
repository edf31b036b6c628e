package exchange_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/copytest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func init() { storetest.Register("copier", copier) }

// copier copies a folder and reports each session.
func copier(dirs []string, _ io.Reader, stdout io.Writer) error {
	var stores []*session.Store
	for _, dir := range dirs {
		st, err := openFolder(dir)
		if err != nil {
			return err
		}
		stores = append(stores, st)
	}
	_, err := copyAll(context.Background(), stores[0], stores[1], &exchange.CopyOptions{Each: func(c exchange.CopyResult, _ error) { fmt.Fprintln(stdout, c.ID) }})
	return err
}

// keptBy has where stores keep blobs: *session.Store -> blobs.Store.
var keptBy sync.Map

// with returns options with a filter that keeps blobs.
func with(b blobs.Store) *session.Options {
	return &session.Options{Filters: []session.Filter{blobs.Filter(b, nil)}}
}

func keptOf(st *session.Store) blobs.Store {
	b, _ := keptBy.Load(st)
	kept, _ := b.(blobs.Store)
	return kept
}

// copyAll is exchange.Copy with the blobs of the stores.
func copyAll(ctx context.Context, from, to *session.Store, opts *exchange.CopyOptions) (exchange.CopyReport, error) {
	o := *cmp.Or(opts, new(exchange.CopyOptions))
	o.From, o.To = keptOf(from), keptOf(to)
	return exchange.Copy(ctx, from, to, &o)
}

func openFolder(dir string) (*session.Store, error) {
	kept := blobs.Folder(dir)
	opts := with(kept)
	opts.Sync = session.SyncNever
	st, err := session.Open(dir, opts)
	keptBy.Store(st, kept)
	return st, err
}

// over opens a store with blobs.
func over(drv driver.Driver, kept blobs.Store) *session.Store {
	st := session.OpenDriver(drv, with(kept))
	keptBy.Store(st, kept)
	return st
}

// folderOf opens a store in a folder, with blobs.
func folderOf(t testing.TB, dir string) *session.Store {
	t.Helper()
	st, err := openFolder(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() }) // a test may have closed it
	return st
}

func memoryOf(opts *memdriver.Options) *session.Store {
	return over(memdriver.New(opts), blobs.Memory())
}

// filled returns a folder with sessions.
func filled(t testing.TB, seed uint64, n int) *session.Store {
	t.Helper()
	st := folderOf(t, t.TempDir())
	require.NoError(t, copytest.Fill(t.Context(), st, seed, n))
	return st
}

func textOf(t testing.TB, st *session.Store) string {
	t.Helper()
	text, err := copytest.Text(t.Context(), st)
	require.NoError(t, err)
	return text
}

func copied(t testing.TB, from, to *session.Store) exchange.CopyReport {
	t.Helper()
	report, err := copyAll(t.Context(), from, to, nil)
	require.NoError(t, err)
	return report
}

// Everything is the same in a copy, in a copy of the copy, and after the source has
// grown.
func TestCopy(t *testing.T) {
	for seed := range uint64(storetest.Few(storetest.Extent(*storetest.Faults, 1, 4, 40))) {
		from, middle, end := filled(t, seed, 60), memoryOf(nil), folderOf(t, t.TempDir())
		for round := range uint64(3) {
			want := textOf(t, from)
			plan, err := copyAll(t.Context(), from, middle, &exchange.CopyOptions{DryRun: true})
			require.NoError(t, err)
			require.Equal(t, plan, copied(t, from, middle), "the dry run says something else")
			require.Equal(t, want, textOf(t, middle), seed)
			copied(t, middle, end)
			require.Equal(t, want, textOf(t, end), seed)
			require.Equal(t, exchange.CopyReport{Sessions: plan.Sessions}, copied(t, from, end), "a second copy brings nothing")
			require.NoError(t, copytest.Grow(t.Context(), from, 100*seed+round, 20))
		}
	}
}

// A copy that fails at any write continues when repeated.
func TestCopyFails(t *testing.T) {
	from := filled(t, 3, 40)
	want := textOf(t, from)
	errDisk := errors.New("the disk is full")
	for fail, failed := 1, true; failed; fail++ {
		writes := 0
		failed = false
		to := memoryOf(&memdriver.Options{Fail: func(op string, _ driver.Ref) error {
			if op == "Put" {
				return nil // a row only repeats the lines
			}
			if writes++; writes >= fail && !failed {
				failed = true
				return errDisk
			}
			return nil
		}})
		if report, err := copyAll(t.Context(), from, to, nil); failed {
			require.ErrorIs(t, err, errDisk)
			require.Equal(t, 1, report.Failed)
		}
		copied(t, from, to)
		require.Equal(t, want, textOf(t, to), "after a failure of write %d", fail)
	}
}

// A copy that is killed anywhere continues when repeated.
func TestCopyKilled(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	from := folderOf(t, folder)
	require.NoError(t, copytest.Fill(t.Context(), from, 5, 120))
	want := textOf(t, from)
	infos, err := from.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.NoError(t, from.Close())
	r := rand.New(rand.NewPCG(1, 2))
	for range storetest.Extent(*storetest.Faults, 4, 8, 40) {
		cmd := storetest.Child(t, "copier", folder, dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(len(infos)) {
			lines.Scan()
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	from, to := folderOf(t, folder), folderOf(t, dir)
	copied(t, from, to)
	require.Equal(t, want, textOf(t, to))
}

// Copy counts the sessions in the trash and the ledgers, which it leaves out.
func TestCopyLeavesTheTrash(t *testing.T) {
	t.Parallel()
	from, to := session.OpenDriver(memdriver.New(nil), nil), session.OpenDriver(memdriver.New(nil), nil)
	for range 3 {
		storetest.Add(t, storetest.Load(t, from, storetest.CLI), transcript.UserText("Hello."))
		s, err := from.Create(t.Context(), storetest.CLI, nil)
		require.NoError(t, err)
		require.NoError(t, retain.Trash(t.Context(), from, s.Ref()))
		s, err = from.Create(t.Context(), storetest.CLI, nil)
		require.NoError(t, err)
		require.NoError(t, retain.Delete(t.Context(), from, s.Ref()))
	}
	report, err := exchange.Copy(t.Context(), from, to, nil)
	require.NoError(t, err)
	require.Equal(t, 4, report.Left)
	require.Equal(t, 1, report.Sessions)
	require.Len(t, storetest.ListIDs(t, to, nil), 1)
	storetest.Close(t, from)
	storetest.Close(t, to)
}
