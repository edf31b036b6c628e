package filedriver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// go test ./internal/filedriver samples kills; -faults=gate makes 1,000,
// -faults=long 10,000 of them.
var faults = flag.String("faults", "short", "how many faults the crash tests make: short, gate or long")

// A child of a test is this binary with a role in the environment.
const roleVar = "CONVOLOG_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) == "mover" {
		if err := mover(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "mover:", err)
			os.Exit(1)
		}
		return
	}
	debug.SetGCPercent(400) // most of the time goes to short-lived lines
	os.Exit(m.Run())
}

// A deed is a step that a mover reports, before or after it.
type deed struct {
	Appended string `json:"appended,omitempty"` // entry
	Deleting bool   `json:"deleting,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
	To       string `json:"to,omitempty"` // session
	Here     string `json:"here,omitempty"`
}

// mover appends to sessions, archives, restores and deletes them, at random. At
// the n-th step it reports its place and waits to be killed.
func mover(args []string, stdin io.Reader, stdout io.Writer) error {
	var n, round int
	var seed uint64
	if _, err := fmt.Sscan(args[1]+" "+args[2]+" "+args[3], &n, &seed, &round); err != nil {
		return err
	}
	ctx := context.Background()
	out := json.NewEncoder(stdout)
	d, err := filedriver.Open(args[0], &filedriver.Options{Sync: filelog.SyncNever})
	if err != nil {
		return err
	}
	d.SetStep(func(name string) {
		if n--; n == 0 {
			_ = out.Encode(deed{Here: name})  // no reader is left if it fails
			_, _ = io.Copy(io.Discard, stdin) // ends with the parent
		}
	})
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := 0; ; i++ {
		id := fmt.Sprint("s", rnd.IntN(4))
		ref := driver.Ref{Agent: "main", ID: id}
		row, err := d.Get(ctx, ref)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_, err = d.Create(ctx, driver.KeyRef{Agent: "main", Key: "k"}, header(id, "k"))
			if err == nil {
				err = out.Encode(deed{To: id, Appended: id})
			}
		case err != nil:
		case rnd.IntN(8) == 0:
			_ = out.Encode(deed{To: id, Deleting: true})
			var end driver.Cursor
			if end, err = endOf(ctx, d, ref); err == nil {
				err = d.Delete(ctx, end, ref)
			}
			if err == nil {
				err = out.Encode(deed{To: id, Deleted: true})
			}
		case row.Archived:
			err = d.Restore(ctx, ref)
		case rnd.IntN(3) == 0:
			err = d.Archive(ctx, ref, driver.Anywhere)
		default:
			e := transcript.Entry{ID: fmt.Sprintf("e%d-%d", round, i), Body: transcript.Custom{Name: "note", Data: []byte("1")}}
			if _, err = d.Append(ctx, ref, []driver.Line{{ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil); err == nil {
				err = out.Encode(deed{To: id, Appended: e.ID})
			}
		}
		if err != nil {
			return err
		}
	}
}

// killed runs a mover until it is killed, and returns the place and the earlier
// reports.
func killed(t *testing.T, dir string, n, round int, seed uint64) (at string, said []deed) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, dir, fmt.Sprint(n), fmt.Sprint(seed), fmt.Sprint(round))
	cmd.Env = append(os.Environ(), roleVar+"=mover")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }() // Wait may have closed it
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var one deed
		require.NoError(t, json.Unmarshal(lines.Bytes(), &one))
		said = append(said, one)
		if one.Here != "" {
			at = one.Here
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
	require.NotEmpty(t, at, "the mover ended by itself")
	return at, said
}

// After a kill between any two steps of an archive, a restore and a delete, every
// session exists once, with all acknowledged lines, or, if it was being deleted,
// not at all. Interrupted calls can be made again.
func TestArchiveKill(t *testing.T) {
	t.Parallel()
	kills := map[string]int{"gate": 100, "long": 10_000}[*faults]
	kills = max(kills, 12)
	rnd := rand.New(rand.NewPCG(7, 7))
	where := map[string]int{}
	var dir string
	var acked map[string][]string
	for round := range kills {
		if round%20 == 0 {
			dir, acked = t.TempDir(), map[string][]string{}
		}
		at, said := killed(t, dir, 1+round%30, round, rnd.Uint64())
		where[at]++
		deleting := ""
		for _, one := range said {
			switch {
			case one.Appended != "":
				acked[one.To] = append(acked[one.To], one.Appended)
			case one.Deleting:
				deleting = one.To
			case one.Deleted:
				delete(acked, one.To)
				deleting = ""
			}
		}
		if rnd.IntN(4) == 0 {
			loseIndex(t, dir)
		}
		survive(t, dir, acked, deleting)
		if t.Failed() {
			t.Fatalf("round %d, killed at %q", round, at)
		}
		if round%20 == 19 {
			require.NoError(t, os.RemoveAll(dir))
		}
		if round%500 == 499 {
			t.Logf("%d kills: %v", round+1, where)
		}
	}
	t.Logf("%d kills: %v", kills, where)
}

// survive opens a store after a kill and checks that every session holds its
// acknowledged lines.
func survive(t *testing.T, dir string, acked map[string][]string, deleting string) {
	t.Helper()
	ro := open(t, dir, &filedriver.Options{ReadOnly: true})
	before := map[string][]string{}
	for id := range acked {
		before[id] = found(t, ro, id)
	}
	require.NoError(t, ro.Close())
	d := open(t, dir, nil)
	rows := map[string]driver.Row{}
	for _, row := range list(t, d) {
		rows[row.ID] = row
	}
	for id, want := range acked {
		got := found(t, d, id)
		require.Equal(t, before[id], got, "before and after the next writer has looked at %s", id)
		row, listed := rows[id]
		require.Equal(t, got != nil, listed, "%s is listed", id)
		if got == nil {
			require.Equal(t, deleting, id, "only what was being deleted may be gone, not %s", id)
			delete(acked, id)
			continue
		}
		// One append may have been written and not acknowledged.
		require.GreaterOrEqual(t, len(got), len(want), id)
		require.Equal(t, want, got[:len(want)], id)
		require.LessOrEqual(t, len(got), len(want)+1, id)
		acked[id] = got
		require.Equal(t, row.Archived, !exists(d.Path(row.Ref())), "the row of %s says where it is", id)
		again(t, d, row, got)
	}
	for id := range rows { // one may have been made and not acknowledged
		if acked[id] == nil {
			acked[id] = found(t, d, id)
			require.Equal(t, []string{id}, acked[id])
		}
	}
	require.NoError(t, d.Close()) // before the next of many rounds
}

// again repeats the calls that may have been interrupted, and undoes them.
func again(t *testing.T, d *filedriver.Driver, row driver.Row, want []string) {
	t.Helper()
	ctx, ref := t.Context(), row.Ref()
	there, back := d.Restore, func(ctx context.Context, ref driver.Ref) error { return d.Archive(ctx, ref, driver.Anywhere) }
	if !row.Archived {
		there, back = back, there
	}
	require.NoError(t, there(ctx, ref))
	require.Equal(t, want, found(t, d, ref.ID))
	require.NoError(t, back(ctx, ref))
	require.Equal(t, want, found(t, d, ref.ID))
}

// found returns the entries of a session, nil if it is not there.
func found(t *testing.T, d *filedriver.Driver, id string) []string {
	t.Helper()
	ref := driver.Ref{Agent: "main", ID: id}
	row, err := d.Get(t.Context(), ref)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	require.Equal(t, id, row.ID)
	return scanned(t, d, ref)
}

// The next writer writes the row of a session that a killed process had archived.
func TestDeadWriterOfAnArchive(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.NoError(t, d.Close())
	addLine(t, dir, `{"change":"a"}`)
	text := indexText(t, dir)
	d = open(t, dir, nil)
	create(t, d, "b", "other key")
	require.Contains(t, indexText(t, dir)[len(text):], `"row":{"id":"a"`)

	// Its row is not written again with every change of the folder.
	before := indexText(t, dir)
	ahead := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Dir(archivePath(dir, "a")), ahead, ahead))
	create(t, d, "c", "other key")
	require.NotContains(t, indexText(t, dir)[len(before):], `"id":"a"`)
}

// For an unreadable archive the next writer makes no row, and reports the reason.
func TestDeadWriterOfADamagedArchive(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	create(t, d, "b", "k")
	require.NoError(t, d.Close())
	require.NoError(t, os.MkdirAll(filepath.Dir(archivePath(dir, "a")), 0o700))
	require.NoError(t, os.WriteFile(archivePath(dir, "a"), []byte("garbage"), 0o600))
	addLine(t, dir, `{"row":{"id":"a","size":1,"gen":1,"archived":true,"key":"k",damage}}`)
	addLine(t, dir, `{"change":"a"}`)
	var log strings.Builder
	d = open(t, dir, &filedriver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	create(t, d, "c", "k")
	require.Contains(t, log.String(), "a transcript cannot be read")
	require.NotContains(t, indexText(t, dir), `"id":""`)
}
