package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// held is a driver whose appends, once written, return when the test lets them,
// and which counts what else is asked of it.
type held struct {
	driver.Driver
	written chan string // an append's first text line was written, by entry ID

	mu    sync.Mutex // guards what follows
	holds map[string]chan error
	hold  bool
	scans int
	puts  []driver.Row
	fails error // of every Put
}

func (h *held) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
	h.mu.Lock()
	var told chan error
	if h.hold {
		told = make(chan error, 1)
		h.holds[lines[0].ID] = told
	}
	h.mu.Unlock()
	res, err := h.Driver.Append(ctx, ref, lines, cond)
	if told == nil {
		return res, err
	}
	h.written <- lines[0].ID
	return res, errors.Join(err, <-told)
}

func (h *held) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	h.mu.Lock()
	h.scans++
	h.mu.Unlock()
	return h.Driver.Scan(ctx, ref, from, dir)
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
	h.scans, h.puts = 0, nil
}

// begin starts appends one after the other, each written before the next is
// started, and returns their IDs and what waits for the end of one.
func (h *held) begin(t *testing.T, s *session.Session, n int) (ids []string, ended []chan error) {
	t.Helper()
	h.mu.Lock()
	h.hold = true
	h.mu.Unlock()
	for i := range n {
		end := make(chan error, 1)
		go func() {
			_, err := s.Append(storetest.Background, transcript.UserText(fmt.Sprint("text ", i)), storetest.Answer("done"))
			end <- err
		}()
		ids, ended = append(ids, <-h.written), append(ended, end)
	}
	h.mu.Lock()
	h.hold = false
	h.mu.Unlock()
	return ids, ended
}

func newHeld(t *testing.T) (*held, *session.Session) {
	t.Helper()
	h := &held{Driver: memdriver.New(nil), written: make(chan string), holds: map[string]chan error{}}
	st := session.OpenDriver(h, nil)
	t.Cleanup(func() { storetest.Close(t, st) })
	return h, storetest.Load(t, st, storetest.CLI)
}

// checkRow holds that the index says what the transcript says.
func (h *held) checkRow(t *testing.T, s *session.Session, messages int) {
	t.Helper()
	row, err := h.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	end, err := h.Settle(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Equal(t, []int64{int64(messages), int64(messages) / 2, int64(end)}, []int64{int64(row.Messages), int64(row.Turns), row.Size},
		"messages, turns and size")
}

// Appends that return in another order than that of their lines lose nothing.
// None of them reads: the next call that does finds their lines.
func TestAppendsReturnOutOfOrder(t *testing.T) {
	for _, looks := range []bool{false, true} {
		t.Run(fmt.Sprint("looks=", looks), func(t *testing.T) {
			h, s := newHeld(t)
			ids, ended := h.begin(t, s, 8)
			h.forget()
			for i, id := range slices.Backward(ids) {
				h.holds[id] <- nil
				require.NoError(t, <-ended[i])
				if looks && i == 5 {
					require.Equal(t, 8, storetest.Info(t, s).Turns, "all 8 are written")
				}
			}
			if !looks {
				require.Zero(t, h.scans)
			}
			require.Empty(t, h.puts)
			_, err := s.AfterTurn(t.Context())
			require.NoError(t, err)
			h.checkRow(t, s, 16)
			fresh := session.OpenDriver(h.Driver, nil)
			require.Equal(t, storetest.History(t, storetest.Load(t, fresh, storetest.CLI)), storetest.History(t, s))
		})
	}
}

// Appends of one goroutine are taken as they were written: nothing is read.
func TestAppendsReadNothing(t *testing.T) {
	h, s := newHeld(t)
	h.forget()
	storetest.Talk(t, s, 0, 20)
	require.Zero(t, h.scans)
	require.Empty(t, h.puts)
	require.Equal(t, 20, storetest.Info(t, s).Turns)
}

// An append that is reported as failed and was written all the same is read.
func TestAppendFailsAfterItWasWritten(t *testing.T) {
	h, s := newHeld(t)
	ids, ended := h.begin(t, s, 3)
	h.holds[ids[2]] <- nil
	require.NoError(t, <-ended[2])
	for i := range 2 {
		h.holds[ids[i]] <- errors.New("failed")
		require.Error(t, <-ended[i])
	}
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	h.checkRow(t, s, 6)
}
