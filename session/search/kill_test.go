//go:build unix

package search_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("searched", searchedChild) }

// childTB fails a child process.
type childTB struct{ testing.TB }

func (childTB) Helper()                  {}
func (childTB) Context() context.Context { return storetest.Background }

func (childTB) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (childTB) FailNow()                          { os.Exit(2) }
func (t childTB) Fatal(args ...any)               { t.Errorf("%s", fmt.Sprint(args...)); t.FailNow() }

// searchedChild writes until it is killed, and prints acknowledged lines.
func searchedChild(args []string, _ io.Reader, stdout io.Writer) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	all := searchSessions(childTB{}, st)
	// IDs of calls and foreign entries continue after the last child's.
	w := &searchWorld{Rand: rand.New(rand.NewPCG(seed, 11)), calls: int(seed) * 1_000_000}
	for {
		n := len(w.docs)
		w.write(childTB{}, all[w.IntN(len(all))])
		for _, d := range w.docs[n:] {
			fmt.Fprintln(stdout, d.ref.ID, d.id)
		}
	}
}

// docsOf reads the documents of a session line by line.
func docsOf(t *testing.T, s *session.Session) (docs []*searchDoc) {
	tools := map[string]string{}
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		f, ok := rec.Entry.Body.(transcript.MessageLine)
		if !ok {
			continue
		}
		for _, b := range f.Content {
			d := &searchDoc{ref: s.Ref(), id: rec.Entry.ID, role: string(f.Role), kind: transcript.BlockType(b), acked: true}
			switch b := b.(type) {
			case transcript.TextBlock:
				d.text = b.Text
			case transcript.ToolCallBlock:
				d.tool, tools[b.ID] = b.Name, b.Name
				n, _ := jsontext.Member(b.Input, "n")
				q, _ := jsontext.Member(b.Input, "q")
				text, _ := jsontext.String(q)
				d.text = string(n) + "\n" + text
			case transcript.ToolResultBlock:
				d.role, d.tool, d.text = "tool", tools[b.CallID], b.Text()
			}
			docs = append(docs, d)
		}
	}
	return docs
}

// After a writer was killed a search finds the same as a naive search of the
// existing lines, including all acknowledged ones.
func TestSearchNaiveKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	all := searchSessions(t, st)
	r := rand.New(rand.NewPCG(3, 3))
	each := storetest.Extent(*storetest.Soak, 12, 25, 25) // queries after a kill
	acked := map[string]bool{}
	for round := range searchQueries() / each {
		cmd := storetest.Child(t, "searched", dir, strconv.Itoa(round))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(20) {
			require.True(t, lines.Scan())
			acked[lines.Text()] = true
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() {
			if strings.Count(lines.Text(), " ") == 1 {
				acked[lines.Text()] = true
			}
		}
		_ = cmd.Wait() // reports the kill
		w := &searchWorld{Rand: rand.New(rand.NewPCG(uint64(round), 13))}
		there := map[string]bool{}
		for _, s := range all {
			w.docs = append(w.docs, docsOf(t, s)...)
		}
		for _, d := range w.docs {
			there[d.ref.ID+" "+d.id] = true
		}
		for id := range acked {
			require.True(t, there[id], "an acknowledged entry is not there: %s", id)
		}
		for range each {
			compareSearch(t, st, w, w.query())
		}
	}
}
