package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// held is a driver that writes appends and returns from them when the test
// allows it. It counts the other calls.
type held struct {
	driver.Driver
	holds chan error // an append takes its error from it, unless it is nil
	wrong string     // no append with this text is written

	mu      sync.Mutex // guards the fields below
	appends [][]string // the IDs of the lines of each
	scans   int
	puts    []driver.Row
	fails   error // of every Put
}

func (h *held) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	var ids []string
	for _, l := range lines {
		if h.wrong != "" && bytes.Contains(l.Data, []byte(h.wrong)) {
			return driver.Result{}, errWrong
		}
		ids = append(ids, l.ID)
	}
	res, err := h.Driver.Append(ctx, ref, lines, at, decide)
	h.mu.Lock()
	if err == nil {
		h.appends = append(h.appends, ids)
	}
	h.mu.Unlock()
	if h.holds != nil {
		err = errors.Join(err, <-h.holds)
	}
	return res, err
}

var errWrong = errors.New("a line is wrong")

func (h *held) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	h.mu.Lock()
	h.scans++
	h.mu.Unlock()
	return h.Driver.Scan(ctx, ref, from, dir, keep)
}

func (h *held) Put(ctx context.Context, row driver.Row) error {
	h.mu.Lock()
	h.puts = append(h.puts, row)
	fails := h.fails
	h.mu.Unlock()
	if fails != nil {
		return fails
	}
	return h.Driver.Put(ctx, row)
}

func (h *held) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scans, h.puts, h.appends = 0, nil, nil
}

// appended is the outcome of an append.
type appended struct {
	ids []string
	err error
}

// start starts an append and returns when it waits.
func (h *held) start(ctx context.Context, s *session.Session, cond session.Cond, text string) <-chan appended {
	end := make(chan appended, 1)
	go func() {
		done, err := s.AppendIf(ctx, cond, transcript.UserText(text), storetest.Answer("done"))
		end <- appended{done.IDs, err}
	}()
	synctest.Wait()
	return end
}

func newHeld(t *testing.T) (*held, *session.Session) {
	t.Helper()
	h := &held{Driver: memdriver.New(nil)}
	st := session.OpenDriver(h, nil)
	t.Cleanup(func() { storetest.Close(t, st) })
	return h, storetest.Load(t, st, storetest.CLI)
}

// checkRow checks that the index agrees with the transcript.
func (h *held) checkRow(t *testing.T, s *session.Session, messages int) {
	t.Helper()
	row, err := h.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	end := int64(0)
	for rec, err := range h.Scan(t.Context(), s.Ref(), 0, driver.Forward, nil) {
		require.NoError(t, err)
		end = rec.End
	}
	require.Equal(t, []int64{int64(messages), int64(messages) / 2, end}, []int64{int64(row.Messages), int64(row.Turns), row.Size},
		"messages, turns and size")
}

// Appends that arrive while another one is on its way, keyed ones included, become one
// append of the driver, in order of arrival. None of them reads.
func TestAppendsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHeld(t)
		h.forget()
		h.holds = make(chan error)
		ends := []<-chan appended{h.start(t.Context(), s, session.Cond{}, "0")}
		for i := range 8 {
			cond := session.Cond{}
			if i%2 == 0 {
				cond.Idem = fmt.Sprint("key ", i)
			}
			ends = append(ends, h.start(t.Context(), s, cond, fmt.Sprint(i)))
		}
		close(h.holds)
		var ids []string
		for _, end := range ends {
			done := <-end
			require.NoError(t, done.err)
			ids = append(ids, done.ids...)
		}
		require.Equal(t, [][]string{ids[:2], ids[2:]}, h.appends)
		require.Zero(t, h.scans)
		require.Empty(t, h.puts)
		h.holds = nil
		_, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		h.checkRow(t, s, 18)
		again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key 2"}, transcript.UserText("2"), storetest.Answer("done"))
		require.NoError(t, err)
		require.Equal(t, session.Appended{IDs: ids[6:8], Repeated: true}, again)
		fresh := session.OpenDriver(h.Driver, nil)
		require.Equal(t, storetest.History(t, storetest.Load(t, fresh, storetest.CLI)), storetest.History(t, s))
	})
}

// If two appends under one key wait together, one is a repeat of the other.
func TestOneKeyTwiceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHeld(t)
		h.holds = make(chan error)
		before := h.start(t.Context(), s, session.Cond{}, "before")
		one := h.start(t.Context(), s, session.Cond{Idem: "key"}, "q")
		two := h.start(t.Context(), s, session.Cond{Idem: "key"}, "q")
		other := h.start(t.Context(), s, session.Cond{Idem: "key"}, "another text")
		close(h.holds)
		require.NoError(t, (<-before).err)
		first := <-one
		require.NoError(t, first.err)
		require.Equal(t, first, <-two)
		require.ErrorIs(t, (<-other).err, session.ErrIdemMismatch)
		require.Equal(t, 4, storetest.Info(t, s).Messages)
	})
}

// An append that fails does not fail the others that were written together with it.
func TestErrorOfOneInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHeld(t)
		h.wrong, h.holds = "wrong", make(chan error)
		ends := []<-chan appended{h.start(t.Context(), s, session.Cond{}, "0")}
		for _, text := range []string{"1", "wrong", "3", "4"} {
			ends = append(ends, h.start(t.Context(), s, session.Cond{}, text))
		}
		close(h.holds)
		for i, end := range ends {
			if done := <-end; i == 2 {
				require.ErrorIs(t, done.err, errWrong)
			} else {
				require.NoError(t, done.err, i)
			}
		}
		require.Equal(t, 8, storetest.Info(t, s).Messages)
	})
}

// The caller of an Update gets a panic of its function. The queue continues.
func TestPanicInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHeld(t)
		h.holds = make(chan error)
		first := h.start(t.Context(), s, session.Cond{}, "0")
		panicked := make(chan any)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = s.Update(t.Context(), "test", func(*session.View) ([]transcript.Item, error) { panic("no") })
		}()
		synctest.Wait()
		last := h.start(t.Context(), s, session.Cond{Idem: "key"}, "1")
		close(h.holds)
		require.Equal(t, "no", <-panicked)
		require.NoError(t, (<-first).err)
		require.NoError(t, (<-last).err)
		require.Equal(t, 4, storetest.Info(t, s).Messages)
	})
}

// If a caller gives up while its append waits, nothing of that append is written. The
// others are written.
func TestCallerLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHeld(t)
		h.holds = make(chan error)
		first := h.start(t.Context(), s, session.Cond{}, "0")
		ctx, cancel := context.WithCancel(t.Context())
		left := h.start(ctx, s, session.Cond{}, "never written")
		last := h.start(t.Context(), s, session.Cond{}, "1")
		cancel()
		require.ErrorIs(t, (<-left).err, context.Canceled)
		close(h.holds)
		require.NoError(t, (<-first).err)
		require.NoError(t, (<-last).err)
		require.Equal(t, 4, storetest.Info(t, s).Messages)
	})
}

// Appends of one goroutine are folded as they were written: nothing is read.
func TestAppendsReadNothing(t *testing.T) {
	h, s := newHeld(t)
	h.forget()
	storetest.Talk(t, s, 0, 20)
	require.Zero(t, h.scans)
	require.Empty(t, h.puts)
	require.Equal(t, 20, storetest.Info(t, s).Turns)
}

// An append that was written, but reported as failed, is read.
func TestAppendFailsAfterItWasWritten(t *testing.T) {
	h, s := newHeld(t)
	for _, err := range []error{errors.New("failed"), nil, errors.New("failed")} {
		h.holds = make(chan error, 1)
		h.holds <- err
		_, got := s.Append(t.Context(), transcript.UserText("q"), storetest.Answer("done"))
		require.Equal(t, err == nil, got == nil)
	}
	h.holds = nil
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	h.checkRow(t, s, 6)
}
