package exchange_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

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
		st := session.OpenDriver(memdriver.Reopen(drv), nil)
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
	st := session.OpenDriver(memdriver.Reopen(drv), nil)
	cur, err := storetest.Current(ctx, st, key)
	require.NoError(t, err)
	require.Equal(t, report[0].Session, cur.Ref())
	im := importAll(t, st, sessionsIn(t, flatFolder(flatSource)), nil)[0]
	require.False(t, im.Created)
	require.Equal(t, 2, im.Appended)
	cur, err = storetest.Current(ctx, st, key)
	require.NoError(t, err)
	require.Equal(t, own.Ref(), cur.Ref())
}
