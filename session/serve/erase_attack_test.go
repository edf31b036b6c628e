package serve_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/serve/zyhive/convlog"
	"github.com/convolog/convolog/transcript"
)

// After the erase of a person no file of the store has a word of them, those of memories,
// channel logs, archives, the trash and the ledger included; another person's words stay.
func TestErasePersonEverywhere(t *testing.T) {
	const word = "kumquatzebra"
	dir, ctx := t.TempDir(), t.Context()
	left := func() (found []string) {
		require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			if zip, zipErr := gzip.NewReader(bytes.NewReader(data)); zipErr == nil {
				more, zipErr := io.ReadAll(zip)
				data, err = append(append(data, more...), zip.Extra...), zipErr
			}
			if bytes.Contains(data, []byte(word)) || strings.Contains(name, word) {
				found = append(found, name)
			}
			return err
		}))
		return found
	}
	st, err := session.Open(dir, nil)
	require.NoError(t, err)
	known, err := memory.Open(memory.Folder(filepath.Join(dir, "memories")), nil)
	require.NoError(t, err)
	for _, owner := range []string{"alice", "bob"} {
		scope, err := st.Scope(owner)
		require.NoError(t, err)
		said := map[string]string{"alice": word, "bob": "persimmon"}[owner]
		var refs []session.Ref
		for range 4 {
			s, err := scope.Create(ctx, session.Key{Agent: "main", Channel: "t", Peer: said}, &session.CreateOptions{Title: said, Labels: []string{said}})
			require.NoError(t, err)
			answer := transcript.AssistantText("A " + said + ".")
			_, err = s.AppendIf(ctx, session.Cond{Idem: said}, transcript.UserText("My "+said+"."), answer)
			require.NoError(t, err)
			refs = append(refs, s.Ref())
		}
		require.NoError(t, scope.SetState(ctx, refs[0], session.Archived, -1))
		require.NoError(t, retain.Trash(ctx, scope, refs[1]))
		require.NoError(t, retain.Delete(ctx, scope, refs[2]))
		_, err = known.Add(ctx, memory.Scope{Agent: "main", Owner: owner}, "preferences", said, "Likes "+said+".")
		require.NoError(t, err)
		w, err := convlog.OpenWriter(dir, nil)
		require.NoError(t, err)
		require.NoError(t, w.Append(ctx, convlog.Channel{Agent: "main", Type: "t", Chat: owner}, convlog.Entry{Role: "user", Content: "My " + said, Sender: owner}))
		require.NoError(t, w.Close())
	}
	log, err := convlog.Open(dir)
	require.NoError(t, err)
	require.Greater(t, len(left()), 5)
	before := len(left())
	plan, err := erase.Preview(ctx, st, erase.Erasure{Owner: "alice"}, known, log)
	require.NoError(t, err)
	require.Len(t, left(), before, "a plan changes nothing")
	receipt, err := erase.Run(ctx, st, plan, known, log)
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, p := range receipt.Places {
		kinds[p.Kind]++
	}
	require.Equal(t, 2, kinds["archive"], "one in the trash: %v", kinds)
	require.Equal(t, 2, kinds["transcript"], "one of the ledger: %v", kinds)
	require.Positive(t, kinds["memory"]*kinds["channel"], "%v", kinds)
	require.Empty(t, left())
	require.Empty(t, receipt.Kept)
	removed, err := retain.Removals(ctx, st)
	require.NoError(t, err)
	require.Len(t, removed, 1)
	require.Equal(t, "bob", removed[0].Owner)
	require.NoError(t, log.Close())
	require.NoError(t, st.Close())
	require.Empty(t, left())
}
