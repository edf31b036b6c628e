package memory

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func init() {
	storetest.Register("learner", func(args []string, stdin io.Reader, stdout io.Writer) error {
		return learner(args[0], stdin, stdout)
	})
}

var (
	key = session.Key{Agent: "main", Channel: "cli", Peer: "anna"}

	// lessons are the memories from two chapters, by their first words.
	lessons = map[string][]Candidate{
		"one": {
			candidate(profile, "", "Is called Anna", ""), candidate(preferences, "editor", "Uses vim", ""),
			candidate(events, "release", "Released version 1", ""), candidate("other", "", "x", ""),
		},
		"two": {
			candidate(profile, "", "Lives in Porto", ""), candidate(preferences, "editor", "Uses emacs now", ""),
			candidate(preferences, "editor", "Uses emacs with evil mode", ""),
			candidate(events, "release", "Released version 1", ""), candidate(cases, "disk", "The disk was full", ""),
		},
	}
)

// learner extracts pending chapters, and announces each step on a line: "step" and
// its name, or "paid" and the chapter.
func learner(dir string, stdin io.Reader, stdout io.Writer) error {
	ctx := context.Background()
	fmt.Fprintln(stdout, "ready")
	if _, err := bufio.NewReader(stdin).ReadString('\n'); err != nil {
		return err
	}
	st, err := session.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return err
	}
	scope, err := st.Scope("anna")
	if err != nil {
		return err
	}
	s, err := scope.Load(ctx, key)
	if err != nil {
		return err
	}
	m, err := Open(Folder(filepath.Join(dir, "memory")), &Options{Extractor: extractorFunc(func(_ context.Context, in Input) ([]Candidate, error) {
		fmt.Fprintln(stdout, "paid", in.Source.Chapter)
		return lessons[in.Messages[0].Text()], nil
	})})
	if err != nil {
		return err
	}
	m.announce = func(step string) { fmt.Fprintln(stdout, "step", step) }
	pending, err := m.Pending(ctx, s)
	if err != nil {
		return err
	}
	for _, name := range pending {
		if _, err := m.Extract(ctx, s, name); err != nil {
			return err
		}
	}
	fmt.Fprintln(stdout, "done")
	return st.Close()
}

// planted returns a folder with a store of one session with two chapters.
func planted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	st, err := session.Open(filepath.Join(dir, "store"), nil)
	require.NoError(t, err)
	s, err := st.Create(t.Context(), key, &session.CreateOptions{Owner: "anna"})
	require.NoError(t, err)
	for _, text := range []string{"one", "two"} {
		_, err = s.Append(t.Context(), transcript.UserText(text), transcript.AssistantText("noted"))
		require.NoError(t, err)
		done, err := Commit(t.Context(), s, &CommitOptions{KeepHistory: true})
		require.NoError(t, err)
		require.True(t, done.Chapter != "")
	}
	require.NoError(t, st.Close())
	return dir
}

// A run is one child, and its output.
type run struct {
	dir   string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	said  []string
}

func start(t *testing.T, dir string) *run {
	t.Helper()
	r := &run{dir: dir, cmd: storetest.Child(t, "learner", dir)}
	var err error
	r.in, err = r.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	r.lines = bufio.NewScanner(out)
	require.True(t, r.lines.Scan(), "ready")
	return r
}

// listen reads n lines, or all of them if n is less than 0.
func (r *run) listen(n int) {
	for ; n != 0 && r.lines.Scan(); n-- {
		r.said = append(r.said, r.lines.Text())
	}
}

// learned checks the final memories, and returns them.
func learned(t *testing.T, dir string) map[string]string {
	t.Helper()
	st, err := session.Open(filepath.Join(dir, "store"), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	scope, err := st.Scope("anna")
	require.NoError(t, err)
	s, err := scope.Load(t.Context(), key)
	require.NoError(t, err)
	m := openStore(t, filepath.Join(dir, "memory"), nil)
	pending, err := m.Pending(t.Context(), s)
	require.NoError(t, err)
	require.Empty(t, pending)
	ids := map[string]bool{}
	for _, mem := range memories(t, m, anna) {
		require.False(t, ids[mem.ID])
		require.False(t, mem.Edited)
		require.NotEmpty(t, mem.Sources)
		ids[mem.ID] = true
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing outside of the folders")
	left, err := filepath.Glob(filepath.Join(dir, "memory/owners/anna/diffs/*"))
	require.NoError(t, err)
	require.Len(t, left, 2, "the diffs, and no progress")
	commits := map[string]string{}
	chapters, err := Chapters(t.Context(), s)
	require.NoError(t, err)
	for _, a := range chapters {
		require.True(t, a.Extracted)
		commits[a.Entry[len(a.Entry)-12:]] = a.Name
	}
	list := map[string]string{}
	for name, text := range files(t, filepath.Join(dir, "memory")) {
		for id, chapter := range commits {
			name = strings.ReplaceAll(name, id, chapter)
		}
		list[name] = text
	}
	return list
}

// A learner that is killed again and again, at any step, ends with the same
// memories as one that is not.
func TestExtractSIGKILL(t *testing.T) {
	kills := storetest.Extent(*storetest.Faults, 4, 200, 2_000)
	from := planted(t)
	whole := start(t, copied(t, from))
	fmt.Fprintln(whole.in)
	whole.listen(-1)
	require.NoError(t, whole.cmd.Wait())
	require.Equal(t, "done", whole.said[len(whole.said)-1])
	want := learned(t, whole.dir)
	require.Len(t, want, 5)

	steps, twice, rounds := map[string]int{}, 0, 0
	for killed := 0; killed < kills; rounds++ {
		dir := copied(t, from)
		paid, unsure := map[string]int{}, map[string]int{}
		for {
			r := start(t, dir)
			fmt.Fprintln(r.in)
			at := -1
			if killed < kills && rand.IntN(4) > 0 {
				at = 1 + rand.IntN([]int{len(whole.said), 5}[rand.IntN(2)])
			}
			r.listen(at)
			if at > 0 {
				time.Sleep(rand.N(2 * time.Millisecond)) // into the middle of the step
				require.NoError(t, r.cmd.Process.Kill())
				r.listen(-1)
			}
			err := r.cmd.Wait()
			open := ""
			for _, line := range r.said {
				if name, ok := strings.CutPrefix(line, "paid "); ok {
					paid[name]++
					open = name
				} else if line != "step asked" && line != "step planned" && line != "step diff" {
					open = ""
				}
			}
			if err == nil {
				require.Equal(t, "done", r.said[len(r.said)-1])
				break
			}
			require.Positive(t, at)
			killed++
			unsure[open]++
			if n := len(r.said); n > 0 {
				steps[r.said[n-1]]++
			}
		}
		require.Equal(t, want, learned(t, dir))
		for name, n := range paid {
			require.LessOrEqual(t, n, 1+unsure[name], "paid again without a kill before the diff was there")
			twice += n - 1
		}
		require.NoError(t, os.RemoveAll(dir))
	}
	t.Logf("%d kills in %d stores; paid again %d times; killed in %v", kills, rounds, twice, steps)
}

func copied(t *testing.T, from string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

// Two processes that learn at once pay only once.
func TestTwoProcesses(t *testing.T) {
	rounds := storetest.Extent(*storetest.Faults, 1, 20, 100)
	from := planted(t)
	for range rounds {
		dir := copied(t, from)
		runs := []*run{start(t, dir), start(t, dir)}
		for _, r := range runs {
			fmt.Fprintln(r.in)
		}
		var said []string
		for _, r := range runs {
			r.listen(-1)
			require.NoError(t, r.cmd.Wait())
			said = append(said, r.said...)
		}
		for _, name := range []string{"paid chapter_001", "paid chapter_002"} {
			require.Len(t, slices.DeleteFunc(slices.Clone(said), func(l string) bool { return l != name }), 1)
		}
		require.Len(t, learned(t, dir), 5)
	}
}

// stopped simulates a kill in one process.
type stopped struct{}

// extractUntil extracts, and stops like a killed process before a step.
func extractUntil(t *testing.T, m *Store, c *talk, name string, at int) (ended bool) {
	t.Helper()
	n := 0
	m.announce = func(string) {
		if n++; n == at {
			panic(stopped{})
		}
	}
	defer func() {
		if r := recover(); r != nil && r != any(stopped{}) {
			panic(r)
		}
	}()
	_, err := m.Extract(t.Context(), c.Session, name)
	require.NoError(t, err)
	return true
}

// The next extraction finishes one that stops before any step.
func TestStopped(t *testing.T) {
	var want map[string]string
	for at := 0; ; at++ {
		dir, c := t.TempDir(), newTalk(t, "anna")
		ex := &script{found: lessons}
		m := openStore(t, dir, &Options{Extractor: ex})
		require.True(t, extractUntil(t, m, c, c.commit("one"), 0))
		name := c.commit("two")
		ended := extractUntil(t, m, c, name, at)
		if !ended {
			require.True(t, extractUntil(t, m, c, name, 0))
		}
		if at == 0 {
			want = c.files(dir)
		}
		require.Equal(t, want, c.files(dir))
		require.Len(t, c.extracted(), 2)
		left, err := filepath.Glob(filepath.Join(dir, "owners/anna/diffs/*"))
		require.NoError(t, err)
		require.Len(t, left, 2)
		require.LessOrEqual(t, ex.calls, 3)
		r, err := m.Extract(t.Context(), c.Session, name)
		require.NoError(t, err)
		require.True(t, r.Repeated)
		if ended && at > 0 {
			break
		}
	}
}

// A person rewrites, edits, renames or deletes every memory after a kill at each step,
// and no edit is lost.
func TestPersonAfterKill(t *testing.T) {
	stride := storetest.Extent(*storetest.Faults, 8, 1, 1)
	for i, change := range []string{"edit", "rename", "delete", "rewrite"} {
		for at := 1 + i*2%stride; ; at += stride {
			dir, c := t.TempDir(), newTalk(t, "anna")
			ex := &script{found: lessons}
			m := openStore(t, dir, &Options{Extractor: ex})
			require.True(t, extractUntil(t, m, c, c.commit("one"), 0))
			name := c.commit("two")
			ended := extractUntil(t, m, c, name, at)
			before, applied := files(t, dir), map[string]bool{}
			for name := range before {
				file := filepath.Join(dir, name)
				switch change {
				case "rewrite":
					data, err := os.ReadFile(file)
					require.NoError(t, err)
					_, comment, _ := strings.Cut(string(data), "\n"+commentOpen)
					applied[name] = strings.Contains(comment, c.chapters()[1].Entry) && !strings.Contains(name, "editor") // it has two steps
					require.NoError(t, os.WriteFile(file, []byte("Mine\n"+commentOpen+comment), 0o600))
				case "edit":
					data, err := os.ReadFile(file)
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(file, append([]byte("Mine: "), append(data, "by a person\n"...)...), 0o600))
				case "rename":
					if !strings.Contains(file, ".overview") { // the profile keeps its name
						require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), "my "+filepath.Base(file))))
					}
				case "delete":
					require.NoError(t, os.Remove(file))
				}
			}
			if !ended {
				require.True(t, extractUntil(t, m, c, name, 0))
			}
			after := files(t, dir)
			ids := map[string]bool{}
			for _, mem := range memories(t, m, anna) {
				require.False(t, ids[mem.ID], mem.ID)
				ids[mem.ID] = true
			}
			switch change {
			case "edit":
				for file, text := range before {
					first, _, _ := strings.Cut(text, "\n")
					require.Contains(t, after[file], "Mine: "+first, "step %d: %s", at, file)
					data, err := os.ReadFile(filepath.Join(dir, file))
					require.NoError(t, err)
					require.Contains(t, string(data), "by a person", "step %d: %s", at, file)
				}
				require.Len(t, after, 5)
			case "rewrite":
				for file := range before {
					require.True(t, strings.HasPrefix(after[file], "Mine"), "step %d: %s", at, file)
					if applied[file] {
						require.Equal(t, "Mine", strings.TrimSpace(after[file]), "step %d: %s", at, file)
					}
				}
			case "rename":
				require.Len(t, after, 5, "step %d", at)
			case "delete":
				require.LessOrEqual(t, len(after), 4)
			}
			require.LessOrEqual(t, ex.calls, 3)
			if ended {
				break
			}
		}
	}
}
