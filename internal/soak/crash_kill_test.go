//go:build linux && (amd64 || arm64)

package soak_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("crowd", crowdChild) }

// record is the text of the n-th record of a writer. Its beginning determines
// the rest, so that a reader can check it.
func record(writer, n, size int) string {
	head := fmt.Sprintf("%d %d %d ", writer, n, size)
	return head + strings.Repeat(string(rune('a'+(writer+n)%26)), max(0, size-len(head)))
}

// intact reports whether a record is whole, and returns its writer and number.
func intact(text string) (writer, n int, ok bool) {
	var size int
	if _, err := fmt.Sscan(text, &writer, &n, &size); err != nil {
		return 0, 0, false
	}
	return writer, n, text == record(writer, n, size)
}

// crowdChild opens the session and appends records of 200 B to 1 MiB for ever,
// some as batches. It announces that it is open, and each append before and
// after. It begins at the end of its input, so that the first writer does not
// fill the transcript before the last one is open.
func crowdChild(args []string, stdin io.Reader, stdout io.Writer) error {
	var writer int
	var seed uint64
	if _, err := fmt.Sscan(strings.Join(args[1:], " "), &writer, &seed); err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	s, err := st.Load(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, uint64(writer)))
	out := json.NewEncoder(stdout)
	if err := out.Encode(storetest.Report{Did: "open"}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stdin); err != nil {
		return err
	}
	for n := 0; ; n++ {
		items := []transcript.Item{transcript.UserText(record(writer, n, 200<<rnd.IntN(13)+rnd.IntN(200)))}
		if rnd.IntN(4) == 0 {
			n++
			items = append(items, transcript.UserText(record(writer, n, 300)))
		}
		if err := out.Encode(storetest.Report{Did: "append"}); err != nil {
			return err
		}
		ids, err := s.Append(storetest.Background, items...)
		if err != nil {
			return err
		}
		if err := out.Encode(storetest.Report{Did: "appended", IDs: ids}); err != nil {
			return err
		}
	}
}

// A doomed is a writer that is going to be killed.
type doomed struct {
	cmd   *exec.Cmd
	out   *bufio.Scanner
	start io.Closer     // lets it begin
	here  chan struct{} // closed when it has opened the session
	after int           // appends before it may be killed
	due   chan struct{} // closed when it may be killed
	acked []string
}

// read reads the announcements of the writer until it is dead.
func (d *doomed) read() error {
	ready := sync.OnceFunc(func() { close(d.due) })
	defer ready()
	here := sync.OnceFunc(func() { close(d.here) })
	defer here()
	n := 0
	for d.out.Scan() {
		var e storetest.Report
		if json.Unmarshal(d.out.Bytes(), &e) != nil {
			continue // the kill cut it
		}
		if here(); e.Did == "open" {
			continue
		}
		d.acked = append(d.acked, e.IDs...)
		if n++; n > 2*d.after {
			ready()
		}
	}
	if err := d.cmd.Wait(); err == nil || d.cmd.ProcessState.Exited() {
		return fmt.Errorf("a writer ended by itself: %w", err)
	}
	return nil
}

// killAll kills writers while the transcript is growing, so that some kills tear
// a line.
func killAll(t *testing.T, dir string, all []*doomed) {
	t.Helper()
	for _, d := range all {
		<-d.due
	}
	paths, err := filepath.Glob(filepath.Join(dir, "agents/main/sessions/*.jsonl"))
	require.NoError(t, err)
	if len(paths) == 1 {
		// A transcript that grows twice in a row grows in one long write.
		var first, last int64
		for try, grown := 0, 0; grown < 2 && last < first+4<<20 && try < 1<<20; try++ {
			now, err := os.Stat(paths[0])
			require.NoError(t, err)
			if first = cmp.Or(first, now.Size()); now.Size() == last {
				grown = -1
			}
			last = now.Size()
			grown++
		}
	}
	for _, d := range all {
		require.NoError(t, d.cmd.Process.Kill())
	}
}

// Four processes write to one session and are killed while they do. All
// acknowledged records are there, whole, once and in order, and torn ones are
// reported as damage.
func TestKillCrowd(t *testing.T) {
	const writers = 4
	t.Parallel()
	kills := storetest.Extent(*storetest.Faults, 8, 60, 1000)
	rnd := rand.New(rand.NewPCG(3, 4))
	torn, cut, done := 0, 0, 0
	for done < kills || torn == 0 && *storetest.Faults == "long" { // a write is to be torn
		dir := storetest.Scratch(t)
		var acked [][]string
		for round := range 2 {
			var all []*doomed
			for w := range writers {
				cmd := storetest.Child(t, "crowd", dir, fmt.Sprint(round*writers+w), fmt.Sprint(rnd.Uint32()))
				out, err := cmd.StdoutPipe()
				require.NoError(t, err)
				in, err := cmd.StdinPipe()
				require.NoError(t, err)
				d := &doomed{cmd: cmd, out: bufio.NewScanner(out), start: in, here: make(chan struct{}), after: 1 + rnd.IntN(3), due: make(chan struct{})}
				all = append(all, d)
			}
			var wg sync.WaitGroup
			for _, d := range all {
				require.NoError(t, d.cmd.Start())
				wg.Go(func() {
					if err := d.read(); err != nil {
						t.Error(err)
					}
				})
			}
			for _, d := range all {
				<-d.here
			}
			for _, d := range all {
				require.NoError(t, d.start.Close())
			}
			killAll(t, dir, all)
			wg.Wait()
			done += writers
			for _, d := range all {
				acked = append(acked, d.acked)
			}
			tears, cuts := checkCrowd(t, dir, acked)
			if tears > len(acked) {
				t.Errorf("%d kills left %d torn lines", len(acked), tears)
			}
			if round == 1 {
				torn, cut = torn+tears, cut+cuts
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d kills left %d torn lines and %d cut batches", done, torn, cut)
}

// checkCrowd opens the session, checks every record and appends one.
func checkCrowd(t *testing.T, dir string, acked [][]string) (torn, cut int) {
	t.Helper()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	at := map[string]int{}
	last := map[int]int{}
	n := 0
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		n++
		if _, twice := at[e.ID]; twice {
			t.Errorf("entry %s is there twice", e.ID)
		}
		at[e.ID] = n
		f, ok := e.Body.(transcript.MessageLine)
		if !ok || f.Message().Text() == "checked" {
			continue
		}
		writer, no, ok := intact(f.Message().Text())
		if before, known := last[writer]; !ok || known && no <= before {
			t.Errorf("entry %s is not what was written, or not in order: %.60q", e.ID, f.Message().Text())
		}
		last[writer] = no
	}
	for _, ids := range acked {
		if !slices.IsSortedFunc(ids, func(a, b string) int { return at[a] - at[b] }) {
			t.Error("the entries of a writer are not in order")
		}
		for _, id := range ids {
			if at[id] == 0 {
				t.Errorf("entry %s was acknowledged and is not there", id)
			}
		}
	}
	storetest.Add(t, s, transcript.UserText("checked"))
	h, err := s.Health(t.Context())
	require.NoError(t, err)
	for _, d := range h.Damage {
		if d.Kind != transcript.DamageTorn {
			t.Errorf("a kill left %v", d)
		}
		torn++
	}
	for _, r := range h.Repairs {
		if r.Rule == "incomplete-batch" {
			cut++
		}
	}
	return torn, cut
}
