//go:build linux && (amd64 || arm64)

package soak_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("random", randomChild) }

// An act is an operation that a process announces before it, and again when it succeeded.
type act struct {
	Did     string // append, delete, trash, fork or erase
	Done    bool
	Session string
	Words   []string // of an append, one for each entry; of an erase
	IDs     []string // of the entries of an append
}

// An actor runs random operations in one goroutine of a process.
type actor struct {
	st    *session.Store
	rnd   *rand.Rand
	name  string
	n     int // words so far
	tell  func(act) error
	acked map[string][]string // entries by session
	words map[string]string   // by entry
}

// randomChild runs operations of several goroutines on the store, which other processes
// use as well.
func randomChild(args []string, _ io.Reader, stdout io.Writer) error {
	var name string
	var seed uint64
	var goroutines, ops int
	if _, err := fmt.Sscan(strings.Join(args[1:], " "), &name, &seed, &goroutines, &ops); err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(stdout)
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		a := &actor{
			st: st, rnd: rand.New(rand.NewPCG(seed, uint64(g))), name: fmt.Sprintf("%sg%d", name, g),
			acked: map[string][]string{}, words: map[string]string{},
			tell: func(a act) error {
				mu.Lock()
				defer mu.Unlock()
				return out.Encode(a)
			},
		}
		wg.Go(func() {
			for range ops {
				if op, err := a.step(); err != nil && !expected(err) {
					errs[g] = fmt.Errorf("%s: %w", op, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, st.Close())...)
}

// expected reports whether an operation may fail so because of the operations of others.
func expected(err error) bool {
	for _, is := range []error{
		fs.ErrNotExist, session.ErrBusy, session.ErrConflict, session.ErrReplaced, session.ErrArchived, session.ErrNoEntry,
		compact.ErrNotSmaller, rebuild.ErrFewTurns,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

func (a *actor) step() (op string, err error) {
	infos, err := a.st.List(storetest.Background, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return "list", err
	}
	if len(infos) == 0 || len(infos) < 12 && a.rnd.IntN(12) == 0 {
		return "create", a.create()
	}
	info := infos[a.rnd.IntN(len(infos))]
	s, err := a.st.Get(storetest.Background, info.Ref)
	if err != nil {
		return "get", err
	}
	ops := []struct {
		name   string
		weight int
		do     func() error
	}{
		{"append", 30, func() error { return a.append(s, "") }},
		{"append with a key", 12, func() error { return a.append(s, fmt.Sprintf("%s-%d", a.name, a.n)) }},
		{"read", 10, func() error { return a.read(s) }},
		{"compact", 6, func() error {
			_, err := s.Compact(storetest.Background, &compact.Options{Keep: compact.Keep{Turns: 1}})
			return err
		}},
		{"rewind", 4, func() error {
			return a.entry(s, 10, func(e transcript.Entry) error { return s.Rewind(storetest.Background, e.ID) })
		}},
		{"pin", 3, func() error {
			return a.entry(s, 10, func(e transcript.Entry) error { return turn.Pin(storetest.Background, s, e.ID) })
		}},
		{"hide", 3, func() error {
			return a.entry(s, 10, func(e transcript.Entry) error { _, err := turn.Hide(storetest.Background, s, e.ID); return err })
		}},
		{"value", 3, func() error {
			_, err := turn.SetValue(storetest.Background, s, "n", json.RawMessage(fmt.Sprint(a.n)), "")
			return err
		}},
		{"title", 4, func() error {
			title := fmt.Sprintf("title %d of %s", a.n, a.name)
			return s.SetMeta(storetest.Background, transcript.Meta{Title: &title})
		}},
		{"fork", 4, func() error { return a.entry(s, 10, func(e transcript.Entry) error { return a.fork(s, e.ID) }) }},
		{"make current", 3, func() error { return s.MakeCurrent(storetest.Background) }},
		{"archive or restore", 8, func() error {
			to := session.Archived
			if info.State == session.Archived {
				to = session.Live
			}
			return a.st.SetState(storetest.Background, info.Ref, to, -1)
		}},
		{"trash", 2, func() error {
			return a.told(act{Did: "trash", Session: info.ID}, func(*act) error { return retain.Trash(storetest.Background, a.st, info.Ref) })
		}},
		{"restore from the trash", 4, a.restore},
		{"delete", 2, func() error {
			return a.told(act{Did: "delete", Session: info.ID}, func(*act) error { return a.st.Delete(storetest.Background, info.Ref) })
		}},
		{"erase", 4, func() error {
			return a.entry(s, 1000, func(e transcript.Entry) error { return a.erase(info.Ref, e) })
		}},
	}
	sum := 0
	for _, o := range ops {
		sum += o.weight
	}
	n := a.rnd.IntN(sum)
	for _, o := range ops {
		if n -= o.weight; n < 0 {
			return o.name, o.do()
		}
	}
	panic("unreachable")
}

// told announces an operation before and after it.
func (a *actor) told(what act, do func(*act) error) error {
	if err := a.tell(what); err != nil {
		return err
	}
	if err := do(&what); err != nil {
		return err
	}
	what.Done = true
	return a.tell(what)
}

func (a *actor) create() error {
	key := session.Key{Agent: "main", Channel: "cli", Peer: fmt.Sprint("peer", a.rnd.IntN(3))}
	owner := []string{"", "ann", "bob"}[a.rnd.IntN(3)]
	_, err := a.st.Create(storetest.Background, key, &session.CreateOptions{Owner: owner})
	return err
}

// append appends entries, each with a word of its own. With a key it appends them twice.
func (a *actor) append(s *session.Session, key string) error {
	var items []transcript.Item
	var words []string
	for range 1 + a.rnd.IntN(3) {
		a.n++
		word := fmt.Sprintf("w%sx%dw", a.name, a.n)
		words = append(words, word)
		text := word + strings.Repeat(" talks of the weather", a.rnd.IntN(60))
		if len(items)%2 == 0 {
			items = append(items, transcript.UserText(text))
		} else {
			items = append(items, storetest.Answer(text))
		}
	}
	return a.told(act{Did: "append", Session: s.Ref().ID, Words: words}, func(what *act) error {
		done, err := s.AppendIf(storetest.Background, session.Cond{Idem: key}, items...)
		if err != nil {
			return err
		}
		what.IDs = done.IDs
		a.acked[s.Ref().ID] = append(a.acked[s.Ref().ID], done.IDs...)
		if key == "" {
			return nil
		}
		again, err := s.AppendIf(storetest.Background, session.Cond{Idem: key}, items...)
		if err == nil && (!again.Repeated || !slices.Equal(again.IDs, done.IDs)) {
			return fmt.Errorf("session %s: the key %s was appended as %v, then as %+v", s.Ref().ID, key, done.IDs, again)
		}
		if err != nil && !expected(err) {
			return err
		}
		return nil // the first append was acknowledged
	})
}

// read checks that the entries which the actor appended are there.
func (a *actor) read(s *session.Session) error {
	if _, err := s.History(storetest.Background); err != nil {
		return err
	}
	there := map[string]bool{}
	for e, err := range s.Entries(storetest.Background, "") {
		if err != nil {
			return err
		}
		there[e.ID] = true
	}
	for _, id := range a.acked[s.Ref().ID] {
		if !there[id] {
			return fmt.Errorf("session %s: a read lacks the entry %s", s.Ref().ID, id)
		}
	}
	return nil
}

// entry does something with one of the last n messages of the session.
func (a *actor) entry(s *session.Session, n int, do func(transcript.Entry) error) error {
	var all []transcript.Entry
	for e, err := range s.Entries(storetest.Background, "") {
		if err != nil {
			return err
		}
		if _, ok := e.Body.(transcript.MessageLine); ok {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return do(all[len(all)-1-a.rnd.IntN(min(n, len(all)))])
}

func (a *actor) fork(s *session.Session, id string) error {
	return a.told(act{Did: "fork", Session: s.Ref().ID}, func(*act) error {
		_, err := s.Fork(storetest.Background, id, nil)
		return err
	})
}

func (a *actor) restore() error {
	infos, err := a.st.List(storetest.Background, &session.ListOptions{State: session.Trashed})
	if err != nil || len(infos) == 0 {
		return err
	}
	return retain.Restore(storetest.Background, a.st, infos[a.rnd.IntN(len(infos))].Ref)
}

// erase erases an entry and its copies in forks.
func (a *actor) erase(ref session.Ref, e transcript.Entry) error {
	ctx := storetest.Background
	plan, err := erase.Preview(ctx, a.st, erase.Erasure{Entries: []erase.Selection{{Session: ref, Entries: []string{e.ID}}}})
	if err != nil {
		return err
	}
	return a.told(act{Did: "erase", Session: ref.ID, IDs: []string{e.ID}, Words: wordOf.FindAllString(string(e.Line()), -1)}, func(*act) error {
		_, err := erase.Run(ctx, a.st, plan)
		return err
	})
}

// A world is the union of the announcements of all processes.
type world struct {
	entries map[string][]string // acknowledged, by session
	word    map[string]string   // of an entry
	done    map[string]bool     // by operation and session or entry
	tried   map[string]bool
	gone    map[string]string // erased words, and the reason
	erasing bool              // whether any erase was tried
}

func (w *world) add(a act) {
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
	rounds := storetest.Extent(*storetest.Faults, 1, 20, 2000)
	const perStore = 4 // rounds
	rnd := rand.New(rand.NewPCG(41, 7))
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
			t.Fatalf("round %d failed", round)
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
		infos, err := st.List(ctx, &session.ListOptions{State: state})
		require.NoError(t, err)
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
		case !ok && !w.tried["delete "+id] && !(w.erasing && w.tried["trash "+id]):
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
