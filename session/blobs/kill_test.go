package blobs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("painter", painterChild) }

// stroke is a report of a painter.
type stroke struct {
	Did     string // that is acknowledged: "appended", "deleted", or the phase it is in
	Session string
	Seed    uint64 // of the picture
}

// painterChild appends pictures to sessions, forks and deletes them, and reports
// that. It announces the steps of a blob, and waits a little in each for a kill.
func painterChild(args []string, _ io.Reader, out io.Writer) error {
	say := func(s stroke) {
		line, _ := json.Marshal(s)
		_, _ = out.Write(append(line, '\n'))
	}
	kept := &announced{blobs.Folder(args[0]), func(phase string) {
		say(stroke{Did: phase})
		time.Sleep(2 * time.Millisecond)
	}}
	st, err := session.Open(args[0], with(kept, nil))
	if err != nil {
		return err
	}
	var seed uint64
	if _, err := fmt.Sscan(args[1], &seed); err != nil {
		return err
	}
	for rnd := rand.New(rand.NewPCG(seed, 2)); ; {
		s, err := st.Load(storetest.Background, storetest.CLI)
		if err != nil {
			return err
		}
		n := rnd.Uint64N(6)
		ids, err := s.Append(storetest.Background, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(15_000, n)}})
		if err != nil {
			return err
		}
		say(stroke{Did: "appended", Session: s.Ref().ID, Seed: n})
		switch rnd.IntN(5) {
		case 0:
			if _, err := s.Fork(storetest.Background, ids[0], nil); err != nil {
				return err
			}
		case 1:
			say(stroke{Did: "deleting", Session: s.Ref().ID})
			if err := st.Delete(storetest.Background, s.Ref()); err != nil {
				return err
			}
			say(stroke{Did: "deleted", Session: s.Ref().ID})
		}
	}
}

// announced announces the steps of a Store.
type announced struct {
	blobs.Store
	say func(phase string)
}

func (a *announced) Put(ctx context.Context, ref session.Ref, hash string, data []byte) error {
	a.say("put")
	defer a.say("put done")
	return a.Store.Put(ctx, ref, hash, data)
}

func (a *announced) Make(ctx context.Context, ref session.Ref) error {
	a.say("make")
	defer a.say("make done")
	return a.Store.(blobs.Maker).Make(ctx, ref)
}

func (a *announced) Delete(ctx context.Context, ref session.Ref, hashes ...string) error {
	a.say("delete")
	defer a.say("delete done")
	return a.Store.Delete(ctx, ref, hashes...)
}

// A SIGKILL between any two steps with blobs: every acknowledged picture is there, whole,
// and no other one after an erase. After the next append of media, unfinished sessions
// have no blobs.
func TestBlobsKill(t *testing.T) {
	t.Parallel()
	kills := storetest.Extent(*storetest.Faults, 8, 40, 2000)
	rnd := rand.New(rand.NewPCG(7, 7))
	var dir string
	acked, gone := map[string][]uint64{}, map[string]bool{}
	for n := range kills {
		if n%8 == 0 {
			dir = t.TempDir()
			clear(acked)
			clear(gone)
		}
		paintAndKill(t, dir, rnd.Uint64(), 1+rnd.IntN(25), acked, gone)
		checkPictures(t, dir, acked, gone)
	}
}

// paintAndKill kills a painter after n reports.
func paintAndKill(t *testing.T, dir string, seed uint64, n int, acked map[string][]uint64, gone map[string]bool) {
	t.Helper()
	cmd := storetest.Child(t, "painter", dir, fmt.Sprint(seed))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for said := 0; lines.Scan(); said++ {
		var s stroke
		if json.Unmarshal(lines.Bytes(), &s) == nil {
			switch s.Did {
			case "appended":
				acked[s.Session] = append(acked[s.Session], s.Seed)
			case "deleting":
				gone[s.Session] = true // from now on it may be
			case "deleted":
				delete(acked, s.Session)
			}
		}
		if said == n {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
}

func checkPictures(t *testing.T, dir string, acked map[string][]uint64, gone map[string]bool) {
	t.Helper()
	st := storetest.Open(t, dir, with(blobs.Folder(dir), nil))
	defer storetest.Close(t, st)
	// The next write to the index finishes the work.
	require.NoError(t, storetest.ErrOf(st.Create(t.Context(), storetest.CLI, nil)))
	for id, seeds := range acked {
		s, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: id})
		if errors.Is(err, fs.ErrNotExist) && gone[id] {
			continue
		}
		require.NoError(t, err)
		h := storetest.History(t, s)
		for _, seed := range seeds {
			require.Contains(t, h, storetest.Screenshot(15_000, seed).Source.Data)
		}
	}
	infos, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	there := map[string]bool{}
	for _, info := range infos {
		there[info.ID] = true
		s, err := st.Get(t.Context(), info.Ref)
		require.NoError(t, err)
		require.NotContains(t, storetest.History(t, s), "not there any more")
		ids := storetest.Add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(15_000, 99)}}, transcript.UserText("erased"))
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: info.Ref, Entries: ids[1:]}}})
		require.NoError(t, err)
		require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
		named := map[string]bool{}
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			if f, ok := e.Body.(transcript.MessageLine); ok {
				for _, b := range f.Content {
					if image, ok := b.(transcript.ImageBlock); ok {
						named[image.Source.Blob.SHA256] = true
					}
				}
			}
		}
		files, err := os.ReadDir(filepath.Join(dir, "agents/main/blobs", info.ID))
		require.NoError(t, err)
		for _, f := range files {
			require.True(t, named[f.Name()], "%s is in the folder of %s, and no line names it", f.Name(), info.ID)
		}
		require.Len(t, files, len(named))
		require.NoError(t, s.Rewind(t.Context(), ids[0]))
	}
	folders, err := os.ReadDir(filepath.Join(dir, "agents/main/blobs"))
	require.NoError(t, err)
	for _, f := range folders {
		require.True(t, there[f.Name()], "%s has blobs, and is no session: %s", f.Name(), strings.Join(names(folders), " "))
	}
}

func names(entries []os.DirEntry) (all []string) {
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
