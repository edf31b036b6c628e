package filedriver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// Rows that are put during appends, by this process and by another, never make
// a list miss an appended line.
func TestPutRacingAppend(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, described(new([]string))), open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	reader := open(t, dir, described(new([]string)))
	for round := range 30 {
		var wg sync.WaitGroup
		for _, writer := range []*filedriver.Driver{d, other} {
			wg.Go(func() {
				for i := range 5 {
					_, err := writer.Append(t.Context(), ref, []driver.Line{note(fmt.Sprint(round, i))}, driver.Anywhere, nil)
					require.NoError(t, err)
				}
			})
			wg.Go(func() {
				for range 3 {
					rows, err := writer.List(t.Context(), "main", driver.Position{}, 0)
					require.NoError(t, err)
					require.NoError(t, writer.Put(t.Context(), rows[0]))
				}
			})
		}
		wg.Wait()
		require.Equal(t, 10*(round+1), list(t, reader)[0].Messages, "round %d", round)
	}
	for _, d := range []*filedriver.Driver{d, other, reader} {
		require.NoError(t, d.Close())
	}
}

// One process makes sessions under an ID that another one deletes. In either
// order, the index and the folder agree afterwards.
func TestCreateRacingDelete(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	expected := func(err error) bool {
		return err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, driver.ErrReplaced)
	}
	for round := range 60 {
		errs := make([]error, 4)
		var wg sync.WaitGroup
		wg.Go(func() { errs[0] = other.Delete(t.Context(), driver.Anywhere, ref) })
		wg.Go(func() { _, errs[1] = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("a", "k")) })
		wg.Go(func() {
			_, errs[2] = other.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("a", "k"))
		})
		wg.Go(func() { _, errs[3] = d.Append(t.Context(), ref, []driver.Line{note("1")}, driver.Anywhere, nil) })
		wg.Wait()
		for i, err := range errs {
			require.True(t, expected(err), "round %d, call %d: %v", round, i, err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "agents/main/sessions/*"))
		require.NoError(t, err)
		for _, d := range []*filedriver.Driver{d, other} {
			require.Len(t, list(t, d), len(files), "round %d: %v", round, files)
			_, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, nil)
			require.Equal(t, len(files) > 0, err == nil, "round %d: %v", round, err)
		}
	}
}

// An agent whose folder has a hashed name is listed, read and deleted from like
// others, by a process that does not know its name.
func TestAgentsWithHashedNames(t *testing.T) {
	dir := t.TempDir()
	names := []string{"short", strings.Repeat("Long name/", 30), strings.Repeat("Long name/", 30) + "2"}
	d := open(t, dir, described(new([]string)))
	for _, name := range names {
		for _, id := range []string{"a", strings.Repeat("B", 100)} { // the second one is hashed too
			_, err := d.Create(t.Context(), driver.KeyRef{Agent: name, Key: "k"}, header(id, "k"))
			require.NoError(t, err)
		}
	}
	require.NoError(t, d.Close())
	for _, opts := range []*filedriver.Options{{ReadOnly: true}, nil} {
		d = open(t, dir, opts)
		got, err := agentsOf(t.Context(), d)
		require.NoError(t, err)
		require.ElementsMatch(t, names, got)
		for _, name := range names {
			rows, err := d.List(t.Context(), name, driver.Position{}, 0)
			require.NoError(t, err)
			require.Len(t, rows, 2)
			require.Equal(t, name, rows[0].Agent)
		}
		require.NoError(t, d.Close())
	}

	// A kill inside Delete: opening alone finishes it.
	folder := filepath.Join(dir, "agents", filename.Encode(names[1]))
	index := filepath.Join(folder, "sessions.jsonl")
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, append(text, `{"delete":"a"}`+"\n"...), 0o600))
	require.NoError(t, os.Chmod(index, 0o600|fs.ModeSticky))
	d = open(t, dir, nil)
	require.NoFileExists(t, filepath.Join(folder, "sessions/a.jsonl"))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, driver.Ref{Agent: names[2], ID: "a"}, driver.Ref{Agent: names[2], ID: strings.Repeat("B", 100)}))
	got, err := agentsOf(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, got, 2, "an agent without sessions is none")
	rows, err := d.List(t.Context(), names[1], driver.Position{}, 0)
	require.NoError(t, err)
	require.Equal(t, []string{strings.Repeat("B", 100)}, ids(rows))
}

// If neither the folder nor its index names the agent of a deletion, opening the
// store logs that, and the first call for that agent finishes it.
func TestDeletionOfANamelessAgent(t *testing.T) {
	dir, name := t.TempDir(), strings.Repeat("Long name/", 30)
	d := open(t, dir, nil)
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: name, Key: "k"}, header("a", "k"))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	path := filepath.Join(dir, "agents", filename.Encode(name), "sessions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("damage\n"+`{"delete":"a"}`+"\n"), 0o600))
	require.NoError(t, os.Chmod(path, 0o600|fs.ModeSticky))

	var log bytes.Buffer
	d = open(t, dir, &filedriver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Contains(t, log.String(), "the name of its agent is not known")
	require.Contains(t, log.String(), filename.Encode(name))
	rows, err := d.List(t.Context(), name, driver.Position{}, 0)
	require.NoError(t, err)
	require.Empty(t, rows)
	require.NoFileExists(t, d.Path(row.Ref()))
}

// Looking for the name of an agent whose folder has a hashed name leaves its sessions
// usable, even one with a torn line of a dead writer.
func TestSessionsOfAHashedName(t *testing.T) {
	for what, index := range map[string]func(text string) string{
		"after a boot": func(text string) string {
			before, rest, _ := strings.Cut(text, `"boot":"`)
			return before + `"boot":"another` + rest
		},
		"without a first line": func(text string) string {
			_, rest, _ := strings.Cut(text, "\n")
			return rest
		},
		"after a kill inside Delete": func(text string) string {
			return text + fmt.Sprintf(`{"open":%d}`+"\n"+`{"delete":"b"}`+"\n", deadWriter)
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, name := t.TempDir(), strings.Repeat("Long name/", 30)
			opts := described(new([]string))
			d := open(t, dir, opts)
			var refs []driver.Ref
			for _, id := range []string{"a", "b"} {
				row, err := d.Create(t.Context(), driver.KeyRef{Agent: name, Key: "k"}, header(id, "k"))
				require.NoError(t, err)
				refs = append(refs, row.Ref())
			}
			require.NoError(t, d.Close())
			torn := note("torn").Data
			appendRaw(t, d.Path(refs[0]), torn[:20])
			info, err := os.Stat(d.Path(refs[0]))
			require.NoError(t, err)
			require.NoError(t, os.Truncate(d.Path(refs[0]), info.Size()-1))
			path := filepath.Join(dir, "agents", filename.Encode(name), "sessions.jsonl")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, []byte(index(string(text))), 0o600))
			require.NoError(t, os.Chmod(path, 0o600|fs.ModeSticky))

			opts.Describe = func(row driver.Row, _ filedriver.Scan) (driver.Row, error) {
				row.Agent = name // a header has the key, which names the agent
				return row, nil
			}
			d = open(t, dir, opts)
			got, err := agentsOf(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, []string{name}, got)
			add(t, d, refs[0], "1", "2")
			for _, err := range d.Scan(t.Context(), refs[0], 0, driver.Forward, nil) {
				require.NoError(t, err)
			}
		})
	}
}

func ids(rows []driver.Row) (all []string) {
	for _, row := range rows {
		all = append(all, row.ID)
	}
	slices.Sort(all)
	return all
}

// An index that is removed while a process appends is made again, and lists
// still show the lines of that process.
func TestIndexRemovedUnderAnAppender(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, described(new([]string))), open(t, dir, described(new([]string)))
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	loseIndex(t, dir)
	create(t, other, "b", "other key") // makes the index again
	add(t, d, ref, "2", "3")
	for _, row := range list(t, other) {
		if row.ID == "a" {
			require.Equal(t, 4, row.Messages)
		}
	}
	loseIndex(t, dir)
	create(t, d, "c", "other key")
	add(t, d, ref, "4") // names the process again
	require.Contains(t, indexText(t, dir), `{"open":`)
}

// A call that looks for a session of an agent does not keep others from making the
// agent's first session, in whatever order they run.
func TestFirstSessionOfAnAgent(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), &filedriver.Options{Sync: filelog.SyncNever})
	rounds := 200
	if *faults == "short" {
		rounds = 20
	}
	for n := range rounds {
		agent := fmt.Sprint("a", n)
		var readers sync.WaitGroup
		created := make(chan struct{})
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-created:
						return
					default:
						if _, err := d.Get(t.Context(), driver.Ref{Agent: agent, ID: "s"}); err != nil && !errors.Is(err, fs.ErrNotExist) {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		_, err := d.Create(t.Context(), driver.KeyRef{Agent: agent, Key: "k"}, header("s", "k"))
		close(created)
		readers.Wait()
		require.NoError(t, err)
	}
}

// A folder with a name that this package does not give is not an agent's, and does not
// keep agents from being listed, even if it cannot be opened.
func TestFolderOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents"), 0o700))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "agents/lost+found"))) // a way out of the store
	d := open(t, dir, nil)
	create(t, d, "a", "k")
	got, err := agentsOf(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, []string{"main"}, got)
}
