package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

var discard = slog.New(slog.DiscardHandler)

// Appends are written in order of arrival. Waiting ones are written together,
// unless one depends on more than its idempotency key or is large.
func TestQueue(t *testing.T) {
	big := func(t *testing.T, id string) *live.Job {
		j := job(t, id)
		j.Entries[0].Body = transcript.Custom{Name: "note", Data: []byte(`"` + strings.Repeat("x", 64<<10) + `"`)}
		return j
	}
	deciding := func(t *testing.T, id string) *live.Job {
		j := job(t, id)
		j.Decide = func(context.Context) error { return nil }
		return j
	}
	for name, test := range map[string]struct {
		jobs func(t *testing.T) []*live.Job
		want []string
	}{
		"plain": {
			func(t *testing.T) []*live.Job { return []*live.Job{job(t, "b"), job(t, "c", "d"), job(t, "e")} },
			[]string{"b c d e"},
		},
		"keys": {
			func(t *testing.T) []*live.Job {
				return []*live.Job{keyed(t, "K", "b"), keyed(t, "L", "c"), job(t, "d"), keyed(t, "K", "e"), job(t, "f")}
			},
			[]string{"b c d", "e f"}, // e is a repeat of b
		},
		"decisions": {
			func(t *testing.T) []*live.Job {
				return []*live.Job{job(t, "b"), deciding(t, "c"), deciding(t, "d"), job(t, "e"), job(t, "f")}
			},
			[]string{"b", "c", "d", "e f"},
		},
		"large": {
			func(t *testing.T) []*live.Job {
				return []*live.Job{job(t, "b"), big(t, "c"), job(t, "d"), job(t, "e")}
			},
			[]string{"b", "c", "d e"},
		},
		"many": {
			func(t *testing.T) (jobs []*live.Job) {
				for range 130 {
					jobs = append(jobs, job(t, "x"))
				}
				return jobs
			},
			[]string{strings.TrimSpace(strings.Repeat("x ", 128)), "x x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, ref := one(t)
				p.hold = make(chan struct{})
				done := []<-chan error{p.begin(ref, job(t, "a"))}
				synctest.Wait()
				jobs := test.jobs(t)
				for _, j := range jobs {
					done = append(done, p.begin(ref, j))
					synctest.Wait()
				}
				close(p.hold)
				for _, d := range done {
					require.NoError(t, <-d)
				}
				writes := p.taken()
				require.Equal(t, "a", writes[0])
				if name == "keys" { // the fake gets only the line of the repeat's neighbour
					require.Equal(t, []string{"b c d", "f"}, writes[1:])
					require.True(t, jobs[3].Done.Hit)
					require.False(t, jobs[0].Done.Hit)
					require.Equal(t, "a b c d f", p.lines(ref))
				} else {
					require.Equal(t, test.want, writes[1:])
					require.Equal(t, strings.Join(writes, " "), p.lines(ref))
				}
				for _, j := range jobs {
					require.Equal(t, j.Done.Hit, j.Done.Bytes == 0)
				}
				if name != "large" && name != "many" {
					require.Equal(t, p.lines(ref), p.shown(ref))
				}
			})
		})
	}
}

// An append whose context ends while it waits is not written; one that is being written is.
func TestQueueIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ref := one(t)
		p.hold = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		first, second := job(t, "a"), job(t, "b")
		first.Ctx, second.Ctx = ctx, ctx
		done := p.begin(ref, first)
		synctest.Wait()
		s := p.Acquire(context.Background(), ref)
		tried := make(chan bool)
		go func() { tried <- s.Submit(second) }()
		third := p.begin(ref, job(t, "c"))
		synctest.Wait()
		cancel()
		require.False(t, <-tried)
		require.ErrorIs(t, second.Done.Err, context.Canceled)
		require.False(t, s.Submit(second), "before it waits")
		close(p.hold)
		if err := <-done; err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, <-third)
		require.NotContains(t, p.lines(ref), "b")
		p.Release(s)
	})
}

// The context of a group ends with the context of any of its appends. Then the others
// are written alone.
func TestGroupContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ref := one(t)
		p.hold = make(chan struct{})
		first := p.begin(ref, job(t, "a"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		second, third, fourth := job(t, "b"), job(t, "c"), job(t, "d")
		third.Ctx = ctx
		var done []<-chan error
		for _, j := range []*live.Job{second, third, fourth} {
			done = append(done, p.begin(ref, j))
			synctest.Wait()
		}
		p.hold <- struct{}{}
		require.NoError(t, <-first)
		synctest.Wait() // the group is being written
		cancel()
		synctest.Wait()
		close(p.hold)
		require.NoError(t, <-done[0])
		require.ErrorIs(t, <-done[1], context.Canceled)
		require.NoError(t, <-done[2])
		require.Equal(t, "a b d", p.lines(ref))
		require.Equal(t, []string{"a", "b c d", "b", "c", "d"}, p.taken())
	})
}

var errDisk = errors.New("the disk is gone")

// If a group could not be written, each append is tried alone, unless a part of the
// group may be there.
func TestWriteFails(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		lines string
		tries []string
		errs  []bool // of b, c, d
		due   bool
	}{
		"one of them": {errDisk, "a b d", []string{"b c d", "b", "c", "d"}, []bool{false, true, false}, true},
		"refused": {
			&driver.NotDurableError{Refused: true, Err: errDisk}, "a b d", []string{"b c d", "b", "c", "d"}, []bool{false, true, false}, true,
		},
		"unknown":    {&driver.NotDurableError{Err: errDisk}, "a", []string{"b c d"}, []bool{true, true, true}, true},
		"a fragment": {fmt.Errorf("x: %w", driver.ErrFragment), "a", []string{"b c d"}, []bool{true, true, true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, ref := one(t)
				p.fail = func(ids []string) error {
					if strings.Contains(strings.Join(ids, " "), "c") {
						return test.err
					}
					return nil
				}
				p.hold = make(chan struct{})
				done := []<-chan error{p.begin(ref, job(t, "a"))}
				synctest.Wait()
				for _, id := range []string{"b", "c", "d"} {
					done = append(done, p.begin(ref, keyed(t, id, id)))
					synctest.Wait()
				}
				close(p.hold)
				require.NoError(t, <-done[0])
				for i, failed := range test.errs {
					err := <-done[i+1]
					require.Equal(t, failed, err != nil)
					if failed {
						require.ErrorIs(t, err, test.err)
					}
				}
				require.Equal(t, test.tries, p.taken()[1:])
				require.Equal(t, test.lines, p.lines(ref))
				require.Equal(t, test.lines, p.shown(ref))

				// A failed append does not count as done.
				p.fail = nil
				for _, id := range []string{"b", "c", "d"} {
					require.NoError(t, p.submit(ref, keyed(t, id, id)))
				}
				require.Len(t, strings.Fields(p.lines(ref)), 4)
				p.puts = nil
				p.PutRows(t.Context(), "", true)
				require.Equal(t, []string{"s"}, p.puts)
			})
		})
	}
}

// After an error that leaves open whether lines are there, a row is due.
func TestRowAfterAnUnknownWrite(t *testing.T) {
	for _, refused := range []bool{false, true} {
		p, ref := one(t)
		p.fail = func([]string) error { return &driver.NotDurableError{Refused: refused, Err: errDisk} }
		require.ErrorIs(t, p.submit(ref, job(t, "a")), errDisk)
		p.PutRows(t.Context(), "", true)
		require.Equal(t, refused, len(p.puts) == 0)
	}
}

// If a Build panics, the appends that were to be written with it fail, and the queue
// continues.
func TestWritePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ref := one(t)
		p.hold = make(chan struct{})
		first := p.begin(ref, job(t, "a"))
		synctest.Wait()
		bad, good := job(t, "b"), job(t, "c")
		bad.Build = func() error { panic("no") }
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_ = p.submit(ref, bad)
		}()
		synctest.Wait()
		done := p.begin(ref, good)
		synctest.Wait()
		close(p.hold)
		require.NoError(t, <-first)
		require.Equal(t, "no", <-panicked)
		require.ErrorContains(t, <-done, "panicked")
		require.NoError(t, p.submit(ref, job(t, "d")))
		require.Equal(t, "a d", p.lines(ref))
	})
}

// While the lines of sessions are replaced, no append to one of them is under way. Their
// states are read again.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memdriver.New(nil))
		refs := []driver.Ref{p.create("one", ""), p.create("two", "")}
		for _, ref := range refs {
			require.NoError(t, p.submit(ref, job(t, ref.ID)))
			require.NotEmpty(t, p.shown(ref))
		}
		p.hold = make(chan struct{})
		before := p.begin(refs[1], job(t, "before"))
		synctest.Wait()
		waits := p.begin(refs[1], job(t, "waits"))
		synctest.Wait()
		doing, end := make(chan bool, 1), make(chan error)
		done := make(chan error)
		go func() {
			done <- p.Alone(t.Context(), refs, func() error {
				doing <- true
				return <-end
			})
		}()
		synctest.Wait()
		require.Empty(t, doing)
		p.hold <- struct{}{}
		require.NoError(t, <-before)
		synctest.Wait()
		require.Empty(t, doing)
		p.hold <- struct{}{}
		require.NoError(t, <-waits)
		<-doing
		var after []<-chan error
		for _, ref := range refs {
			after = append(after, p.begin(ref, job(t, "after")))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Alone(ctx, refs, func() error { panic("not alone") }), context.DeadlineExceeded)
		require.Len(t, p.taken(), 4)
		end <- errDisk
		require.ErrorIs(t, <-done, errDisk)
		close(p.hold)
		for i, ref := range refs {
			require.NoError(t, <-after[i])
			require.NoError(t, p.submit(ref, job(t, "last")))
		}
		require.Equal(t, "two before waits after last", p.shown(refs[1]))
	})
}

// Compactions of one session wait for each other.
func TestCompact(t *testing.T) {
	p, ref := one(t)
	s := p.Acquire(context.Background(), ref)
	defer p.Release(s)
	free, err := s.Compact(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Compact(ctx)
	require.ErrorIs(t, err, context.Canceled)
	free()
	free, err = s.Compact(t.Context())
	require.NoError(t, err)
	free()
}
