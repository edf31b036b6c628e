package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// held is a driver whose appends, once written, return when they are told to,
// and which counts what else is asked of it.
type held struct {
	driver.Driver
	written chan string // an append's first text line was written, by entry ID

	mu    sync.Mutex // guards what follows
	holds map[string]chan error
	hold  bool
	scans int
	puts  []driver.Row
	put   chan struct{} // if not nil, a put waits for a value
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
	wait := h.put
	h.mu.Unlock()
	if wait != nil {
		<-wait
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
			_, err := s.Append(bg, transcript.UserText(fmt.Sprint("text ", i)), answer("done"))
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
	t.Cleanup(func() { closed(t, st) })
	return h, load(t, st, cli)
}

// checkRow holds that the index says what the transcript says.
func (h *held) checkRow(t *testing.T, s *session.Session, messages int) {
	t.Helper()
	row, err := h.Get(t.Context(), s.Ref())
	must(t, err)
	end, err := h.Settle(t.Context(), s.Ref())
	must(t, err)
	if row.Messages != messages || row.Turns != messages/2 || row.Size != int64(end) {
		t.Errorf("the row has %d messages, %d turns and size %d, want %d, %d and %d", row.Messages, row.Turns, row.Size, messages, messages/2, end)
	}
}

// Appends that return in another order than that of their lines are taken in
// the order of the lines, without reading them; the row is put when the last
// is there.
func TestAppendsReturnOutOfOrder(t *testing.T) {
	for _, looks := range []bool{false, true} {
		t.Run(fmt.Sprint("looks=", looks), func(t *testing.T) {
			h, s := newHeld(t)
			ids, ended := h.begin(t, s, 8)
			h.forget()
			for i, id := range slices.Backward(ids) {
				h.holds[id] <- nil
				must(t, <-ended[i])
				if looks && i == 5 {
					if n := s.Turns(); n != 8 {
						t.Errorf("%d turns, want all 8 that are written", n)
					}
				}
			}
			if !looks && (h.scans != 0 || len(h.puts) != 1) {
				t.Errorf("%d scans and %d puts, want none and one", h.scans, len(h.puts))
			}
			h.checkRow(t, s, 16)
			fresh := session.OpenDriver(h.Driver, nil)
			if got, want := history(t, s), history(t, load(t, fresh, cli)); got != want {
				t.Errorf("the history is\n%s\nand read anew\n%s", got, want)
			}
		})
	}
}

// What waits for lines that another append was to bring is read when that one
// fails, and when others have written the lines.
func TestAppendsWaitForOneThatFails(t *testing.T) {
	h, s := newHeld(t)
	ids, ended := h.begin(t, s, 3)
	h.holds[ids[2]] <- nil
	must(t, <-ended[2])
	h.holds[ids[0]] <- errors.New("failed")
	if err := <-ended[0]; err == nil {
		t.Error("no error")
	}
	h.holds[ids[1]] <- errors.New("failed too")
	if err := <-ended[1]; err == nil {
		t.Error("no error")
	}
	h.checkRow(t, s, 6) // they were written, whatever their callers were told
}

// While a row is put, other appends do not queue up behind it: one waits, and
// puts what all have added.
func TestAppendsShareRows(t *testing.T) {
	h, s := newHeld(t)
	h.forget()
	h.put = make(chan struct{})
	ended := make(chan error, 10)
	for range cap(ended) {
		go func() {
			_, err := s.Append(bg, transcript.UserText("q"), answer("a"))
			ended <- err
		}()
	}
	for range cap(ended) - 2 {
		select {
		case err := <-ended:
			must(t, err)
		case <-time.After(time.Minute):
			t.Fatal("more than two appends wait for the index")
		}
	}
	h.put <- struct{}{}
	must(t, <-ended)
	h.put <- struct{}{}
	must(t, <-ended)
	if len(h.puts) != 2 {
		t.Errorf("%d puts, want 2", len(h.puts))
	}
	h.checkRow(t, s, 20)
}
