//go:build linux && (amd64 || arm64)

package soak_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

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
	Did     string // append, compact, delete, trash, fork, erase or state
	Done    bool
	Session string
	Words   []string // of an append, one for each entry; of an erase
	IDs     []string // of the entries of an append; the session of a fork
	At      time.Time
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
				a.At = time.Now()
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
			return a.told(act{Did: "compact", Session: info.ID}, func(*act) error {
				_, err := s.Compact(storetest.Background, &compact.Options{Keep: compact.Keep{Turns: 1}})
				return err
			})
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
			return a.told(act{Did: "state", Session: info.ID, Words: []string{string(to)}}, func(*act) error {
				return a.st.SetState(storetest.Background, info.Ref, to, -1)
			})
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
	return a.told(act{Did: "fork", Session: s.Ref().ID}, func(what *act) error {
		f, err := s.Fork(storetest.Background, id, nil)
		if err == nil {
			what.IDs = []string{f.Ref().ID}
		}
		return err
	})
}

func (a *actor) restore() error {
	infos, err := a.st.List(storetest.Background, &session.ListOptions{State: session.Trashed})
	if err != nil || len(infos) == 0 {
		return err
	}
	ref := infos[a.rnd.IntN(len(infos))].Ref
	return a.told(act{Did: "state", Session: ref.ID}, func(*act) error { return retain.Restore(storetest.Background, a.st, ref) })
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
