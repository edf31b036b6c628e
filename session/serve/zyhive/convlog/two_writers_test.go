package convlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve/zyhive/convlog"
)

// Two writers each get every message from two deliveries, while the end of the log
// is torn: each entry is written once.
func TestTwoWritersAndTornTails(t *testing.T) {
	dir := t.TempDir()
	c := convlog.Channel{Agent: "main", Type: "web", Chat: "1"}
	l := reader(t, dir)
	writers := []*convlog.Writer{writer(t, dir), writer(t, dir)}
	const n = 30
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range n {
				e := convlog.Entry{Role: "user", Content: fmt.Sprint(i), MessageID: fmt.Sprint("m\xff", i)}
				if err := writers[g%2].Append(t.Context(), c, e, e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	name := filepath.Join(dir, "agents", "main", "convlogs", "web-1.jsonl")
	group.Wait()
	require.Len(t, texts(t, l, c, convlog.Query{}), n)
	for i, tail := range []string{
		`{"ts":"2026-02-19T08:00:04Z","role":"user","content":"whole","channelId":"web-1","channelType":"web","id":"w"}`,
		`{"ts":"2026-`, `{"id":"m`, "\x00\x00",
	} {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(tail)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		e := convlog.Entry{Role: "user", Content: fmt.Sprint("after ", i), MessageID: fmt.Sprint("a", i)}
		for _, w := range writers {
			require.NoError(t, w.Append(t.Context(), c, e, convlog.Entry{Content: "whole", MessageID: "w"}))
		}
	}
	all := texts(t, l, c, convlog.Query{})
	require.Len(t, all, n+5, "%q", all)
	require.ErrorContains(t, writers[0].Append(t.Context(), convlog.Channel{Agent: "main", Type: "web", Chat: "\xff"}, convlog.Entry{}), "UTF-8")
}
