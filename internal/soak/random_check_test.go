//go:build linux && (amd64 || arm64)

package soak_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// A world is the union of the announcements of all processes.
type world struct {
	entries map[string][]string // acknowledged, by session
	word    map[string]string   // of an entry
	done    map[string]bool     // by operation and session or entry
	tried   map[string]bool
	gone    map[string]string // erased words, and the reason
	erasing bool              // whether any erase was tried
	acts    []act
}

func (w *world) add(a act) {
	w.acts = append(w.acts, a)
	what := a.Session
	if a.Did == "erase" {
		what, w.erasing = a.IDs[0], true
	}
	w.tried[a.Did+" "+what] = true
	if !a.Done {
		return
	}
	w.done[a.Did+" "+what] = true
	switch a.Did {
	case "erase":
		for _, word := range a.Words {
			w.gone[word] = "entry " + what + " was erased"
		}
	case "append":
		w.entries[a.Session] = append(w.entries[a.Session], a.IDs...)
		for i, id := range a.IDs {
			w.word[id] = a.Words[i]
		}
	}
}

// Processes with several goroutines each run random operations on one store, and half of
// them are killed. Nothing acknowledged is missing or there twice, deleted and erased
// words are in no file, and every session is sound.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	rounds := storetest.Extent(*storetest.Faults, 1, 20, 7000)
	const perStore = 4 // rounds
	seed := storetest.Extent(*storetest.Faults, 41, 42, rand.Uint64())
	rnd := rand.New(rand.NewPCG(seed, 0))
	var dir string
	var w *world
	appended := 0
	for round := range rounds {
		if round%perStore == 0 {
			dir = storetest.Scratch(t)
			w = &world{entries: map[string][]string{}, word: map[string]string{}, done: map[string]bool{}, tried: map[string]bool{}, gone: map[string]string{}}
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for p := range 2 + rnd.IntN(2) {
			cmd := storetest.Child(t, "random", dir, fmt.Sprintf("r%dp%d", round, p), fmt.Sprint(rnd.Uint64()), fmt.Sprint(1+rnd.IntN(4)), "30")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			killed := -1
			if rnd.IntN(2) == 0 {
				killed = rnd.IntN(60)
			}
			require.NoError(t, cmd.Start())
			wg.Go(func() {
				lines := bufio.NewScanner(out)
				for n := 0; lines.Scan(); n++ {
					var a act
					if json.Unmarshal(lines.Bytes(), &a) != nil {
						continue // the kill cut it
					}
					mu.Lock()
					w.add(a)
					mu.Unlock()
					if n == killed {
						_ = cmd.Process.Kill()
					}
				}
				if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
					t.Errorf("round %d: a process failed: %v", round, err)
				}
			})
		}
		wg.Wait()
		w.check(t, dir)
		if t.Failed() {
			for _, a := range w.acts {
				t.Logf("%s %+v", a.At.Format("05.000000"), a)
			}
			t.Fatalf("round %d of seed %d failed", round, seed)
		}
		if (round+1)%perStore == 0 || round == rounds-1 {
			appended += len(w.word)
		}
	}
	require.NotZero(t, appended)
	t.Logf("%d rounds, %d entries", rounds, appended)
}

// check compares the store with the announcements.
func (w *world) check(t *testing.T, dir string) {
	t.Helper()
	ctx := t.Context()
	st := storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	require.NoError(t, erase.Resume(ctx, st))
	there := map[string]session.Info{}
	current := map[string]string{}
	for _, state := range []session.State{session.AnyState, session.Trashed} {
		infos := storetest.List(t, st, &session.ListOptions{State: state})
		for _, i := range infos {
			if _, twice := there[i.ID]; twice {
				t.Errorf("session %s is listed twice", i.ID)
			}
			there[i.ID] = i
			if name := i.Owner + "|" + i.Key; i.Current {
				if current[name] != "" {
					t.Errorf("sessions %s and %s are both current for %s", current[name], i.ID, name)
				}
				current[name] = i.ID
			}
		}
	}
	gone := maps.Clone(w.gone)
	for id, entries := range w.entries {
		info, ok := there[id]
		switch {
		case !ok && !w.tried["delete "+id] && (!w.erasing || !w.tried["trash "+id]):
			t.Errorf("session %s is gone, and nothing deleted it", id)
		case ok && w.done["delete "+id]:
			t.Errorf("session %s was deleted and is there", id)
		case ok && info.State != session.Trashed:
			w.checkSession(t, st, info, entries)
		}
		for _, e := range entries {
			if w.done["delete "+id] && !w.tried["fork "+id] {
				gone[w.word[e]] = "session " + id + " was deleted"
			}
		}
	}
	checkGone(t, dir, gone)
}

// checkSession checks that the entries of a session are there once, with their words, and
// that its history is valid and the same as a new fold makes it.
func (w *world) checkSession(t *testing.T, st *session.Store, info session.Info, acked []string) {
	t.Helper()
	s, err := st.Get(t.Context(), info.Ref)
	require.NoError(t, err)
	texts := map[string]string{}
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if _, twice := texts[e.ID]; twice {
			t.Errorf("session %s: the entry %s is there twice", info.ID, e.ID)
		}
		texts[e.ID] = string(e.Line())
	}
	for _, id := range acked {
		text, ok := texts[id]
		if !ok {
			t.Errorf("session %s lacks the acknowledged entry %s", info.ID, id)
		} else if !strings.Contains(text, w.word[id]) && !w.tried["erase "+id] {
			t.Errorf("session %s: the entry %s has lost its text: %.200s", info.ID, id, text)
		}
	}
	whole := storetest.CompareWithWhole(t, "session "+info.ID, s, rebuild.SummaryUser)
	if len(whole.History().Messages) > 0 {
		storetest.CheckRequest(t, s)
	}
	health, err := s.Health(t.Context())
	require.NoError(t, err)
	for _, d := range health.Damage {
		if d.Kind != transcript.DamageTorn {
			t.Errorf("session %s: a kill left %v", info.ID, d)
		}
	}
}

var wordOf = regexp.MustCompile(`wr\d+p\d+g\d+x\d+w`)

// checkGone looks for words in all files, packed ones included.
func checkGone(t *testing.T, dir string, gone map[string]string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			zip, err := gzip.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			data, err = io.ReadAll(zip)
			require.NoError(t, err, name)
		}
		for _, word := range wordOf.FindAllString(string(data), -1) {
			if why := gone[word]; why != "" {
				t.Errorf("%s has %s: %s", name, word, why)
			}
		}
		return nil
	}))
}
