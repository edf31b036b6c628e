package filelog_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
)

const childEnv = "FILELOG_TEST_CHILD"

// isChild says whether this process was started by start to run the named part.
func isChild() bool { return os.Getenv(childEnv) != "" }

// childArgs are the arguments of start.
func childArgs() (dir string, args []string) {
	args = strings.Split(os.Getenv(childEnv), "\n")
	return args[0], args[1:]
}

// A child is this test binary running one test as another process.
type child struct {
	*exec.Cmd
	out *bufio.Reader
	in  io.WriteCloser
}

// start runs the current test in a child process, which sees isChild.
func start(t *testing.T, dir string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(append([]string{dir}, args...), "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &child{cmd, bufio.NewReader(out), in}
}

// must ends a child process after an error.
func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return v
}

func TestProcesses(t *testing.T) {
	const processes, goroutines, n = 4, 2, 400
	if isChild() {
		dir, args := childArgs()
		root := must(os.OpenRoot(dir))
		l := must(filelog.Open(root, name, never))
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range n {
					must(0, func() error {
						_, _, err := l.Append(t.Context(), filelog.Lines([]byte(batch(args[0]+"."+strconv.Itoa(g), i))))
						return err
					}())
				}
			})
		}
		wg.Wait()
		must(0, l.Close())
		os.Exit(0)
	}
	root, dir := folder(t)
	l := create(t, root, "first\n", never)
	var children []*child
	for p := range processes {
		children = append(children, start(t, dir, "p"+strconv.Itoa(p)))
	}
	for i := range n { // this process is one of them
		add(t, l, batch("here.0", i))
		add(t, l, batch("here.1", i))
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	got := content(t, root)
	checkBatches(t, got, (processes+1)*goroutines, n)
	reopen(t, root, got)
}

// killRecord is the record i of the child number run: a header that says how
// many bytes follow, so that any tear shows.
func killRecord(run, i int) string {
	size := rand.New(rand.NewPCG(uint64(run), uint64(i))).IntN(1 << 20)
	return fmt.Sprintf("%d %d %d ", run, i, size) + strings.Repeat(string(rune('a'+(run+i)%26)), size) + "\n"
}

func TestKill(t *testing.T) {
	if isChild() {
		dir, args := childArgs()
		run := must(strconv.Atoi(args[0]))
		root := must(os.OpenRoot(dir))
		l := must(filelog.Open(root, name, never))
		record := []byte(killRecord(run, 0))
		for i := 0; ; i++ {
			must(0, func() error { _, _, err := l.Append(t.Context(), filelog.Lines(record)); return err }())
			record = []byte(killRecord(run, i+1)) // so that the kill finds a write
			fmt.Println(i)
		}
	}
	runs := 8
	if flag.Lookup("faults").Value.String() != "short" {
		runs = 60
	}
	root, dir := folder(t)
	l := create(t, root, "first\n", never)
	random := rand.New(rand.NewPCG(1, 2))
	acked := make([]int, runs)
	for run := range runs {
		c := start(t, dir, strconv.Itoa(run))
		for target := 1 + random.IntN(4); ; {
			_, err := c.out.ReadString('\n')
			if err != nil {
				break
			}
			if acked[run]++; acked[run] == target {
				require.NoError(t, c.Process.Kill())
			}
		}
		if err := c.Wait(); err == nil || acked[run] == 0 {
			t.Fatalf("child %d ended by itself after %d acknowledgements", run, acked[run])
		}
	}
	_, err := l.Settle(t.Context())
	require.NoError(t, err)
	got := content(t, root)
	found := make([]int, runs)
	tears := 0
	for line := range strings.Lines(strings.TrimPrefix(got, "first\n")) {
		var run, i, size int
		if n, _ := fmt.Sscanf(line, "%d %d %d ", &run, &i, &size); n == 3 && line == killRecord(run, i) {
			if i != found[run] {
				t.Errorf("record %d of child %d comes where %d should", i, run, found[run])
			}
			found[run]++
			continue
		}
		tears++
		if strings.Count(line, " ") > 3 || strings.ContainsRune(line, 0) {
			t.Errorf("a line of %d bytes that is more than a torn record: %.60q", len(line), line)
		}
	}
	more := 0
	for run := range runs {
		if found[run] < acked[run] {
			t.Errorf("child %d: %d records acknowledged, %d found", run, acked[run], found[run])
		}
		more += found[run] - acked[run]
	}
	if tears > runs {
		t.Errorf("%d tears of %d kills", tears, runs)
	}
	t.Logf("%d kills, %d tears, %d records whole but not acknowledged, %d MiB", runs, tears, more, len(got)>>20)
	reopen(t, root, got)
}

func TestLockEndsWithItsProcess(t *testing.T) {
	if isChild() {
		dir, _ := childArgs()
		l := must(filelog.OpenLockFile(must(os.OpenRoot(dir)), name))
		if err := l.Lock(t.Context(), 0); err != nil {
			panic(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}
	root, dir := folder(t)
	l, err := filelog.OpenLockFile(root, name)
	require.NoError(t, err)
	c := start(t, dir)
	_, err = c.out.ReadString('\n')
	require.NoError(t, err)
	require.ErrorIs(t, l.TryLock(0), filelog.ErrBusy)
	held, err := l.Held(0)
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, c.Process.Kill())
	require.NoError(t, l.Lock(t.Context(), 0))
	_ = c.Wait() // was killed
	require.NoError(t, l.Close())
}
