package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Plain, keyed, conditional and decided appends of many goroutines in two stores, some of
// which give up: each acknowledged one is there once and in order, each key once.
func TestQueueOfManyCallers(t *testing.T) {
	dir := t.TempDir()
	for _, cached := range []int{1, 256} {
		opts := *storetest.Unsynced
		opts.CachedSessions = cached
		a, b := storetest.Open(t, dir, &opts), storetest.Open(t, dir, &opts)
		key := session.Key{Agent: "main", Channel: "c", Peer: fmt.Sprint(cached)}
		storetest.Load(t, a, key)
		var mu sync.Mutex
		acked := map[string]int{}      // text -> times acknowledged
		byKey := map[string][]string{} // key -> IDs
		var wg sync.WaitGroup
		for g := range 12 {
			st := []*session.Store{a, b}[g%2]
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(g), uint64(cached)))
				for i := range 60 {
					s, err := st.Load(context.Background(), key)
					if err != nil {
						t.Error(err)
						return
					}
					ctx, cancel := context.Background(), func() {}
					if rnd.IntN(3) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(2000))*time.Microsecond)
					}
					text := fmt.Sprintf("%d-%d", g, i)
					var ids []string
					switch rnd.IntN(5) {
					case 0, 1:
						ids, err = s.Append(ctx, transcript.UserText(text))
					case 2:
						k := fmt.Sprint("k", i/3)
						var done session.Appended
						done, err = s.AppendIf(ctx, session.Cond{Idem: k}, transcript.UserText(k))
						if err == nil {
							mu.Lock()
							if was, ok := byKey[k]; ok && fmt.Sprint(was) != fmt.Sprint(done.IDs) {
								t.Errorf("key %s: %v and %v", k, was, done.IDs)
							}
							byKey[k] = done.IDs
							mu.Unlock()
						}
						cancel()
						continue
					case 3:
						ids, err = s.Update(ctx, "test", func(v *session.View) ([]transcript.Item, error) {
							return []transcript.Item{transcript.UserText(text)}, nil
						})
					case 4:
						var head string
						herr := s.View(ctx, func(v *session.View) error { head = v.Fold().Head(); return nil })
						if herr != nil {
							cancel()
							continue
						}
						var done session.Appended
						done, err = s.AppendIf(ctx, session.Cond{Head: head, Empty: head == ""}, transcript.UserText(text))
						ids = done.IDs
						if errors.Is(err, session.ErrConflict) {
							cancel()
							continue
						}
					}
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						if len(ids) != 1 {
							t.Errorf("ids %v", ids)
						}
						acked[text]++
					case !errors.Is(err, context.DeadlineExceeded):
						t.Errorf("%s: %v", text, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		storetest.Close(t, a)
		storetest.Close(t, b)
		c := storetest.Open(t, dir, nil)
		s := storetest.Load(t, c, key)
		seen, last := map[string]int{}, map[string]int{}
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			f, ok := e.Body.(transcript.MessageLine)
			if !ok {
				continue
			}
			text := f.Message().Text()
			seen[text]++
			var g, i int
			if n, _ := fmt.Sscanf(text, "%d-%d", &g, &i); n == 2 {
				if prev, ok := last[fmt.Sprint(g)]; ok && prev >= i {
					t.Errorf("order: %s after %d", text, prev)
				}
				last[fmt.Sprint(g)] = i
			}
		}
		for text := range acked {
			if seen[text] != 1 {
				t.Errorf("%s is there %d times", text, seen[text])
			}
		}
		for text, n := range seen {
			if n != 1 {
				t.Errorf("%s is there %d times", text, n)
			}
		}
		for k := range byKey {
			require.Equal(t, 1, seen[k], k)
		}
		storetest.Close(t, c)
	}
}
