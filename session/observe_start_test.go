package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// An operations observer notes each start and the end of each operation.
type operations struct {
	open  map[int]session.EventKind // operations that have begun and not ended
	all   []string                  // "kind in parent"
	count int
}

// number is the context key of the operation in progress.
type number struct{}

var ends = map[session.EventKind]session.EventKind{
	session.EventAppend:           session.EventAppendStart,
	session.EventCompactionDone:   session.EventCompactionStart,
	session.EventCompactionFailed: session.EventCompactionStart,
}

func (o *operations) observe(ctx context.Context, e session.Event) context.Context {
	n, _ := ctx.Value(number{}).(int)
	if e.Kind == session.EventAppendStart || e.Kind == session.EventCompactionStart {
		o.count++
		o.all = append(o.all, fmt.Sprintf("%s in %s", e.Kind, o.open[n]))
		o.open[o.count] = e.Kind
		return context.WithValue(ctx, number{}, o.count)
	}
	if start := ends[e.Kind]; start != "" {
		if o.open[n] != start {
			panic(fmt.Sprintf("%s ends %q", e.Kind, o.open[n]))
		}
		delete(o.open, n)
	}
	return ctx
}

// seeing is a driver that notes the operations of its appends.
type seeing struct {
	driver.Driver
	o    *operations
	seen *[]string
	err  error
}

func (d *seeing) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, after driver.Cursor, more func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	n, _ := ctx.Value(number{}).(int)
	*d.seen = append(*d.seen, "driver in "+string(d.o.open[n]))
	if d.err != nil {
		return driver.Result{}, d.err
	}
	return d.Driver.Append(ctx, ref, lines, after, more)
}

// Filters, the driver and the summarizer receive the context that Observe returns for a
// start, and each start has one end, whatever fails.
func TestObserveStart(t *testing.T) {
	boom := errors.New("boom")
	o, seen := &operations{open: map[int]session.EventKind{}}, []string{}
	note := func(ctx context.Context, name string) {
		n, _ := ctx.Value(number{}).(int)
		seen = append(seen, name+" in "+string(o.open[n]))
	}
	var refused, failed error
	drv := &seeing{Driver: memdriver.New(nil), o: o, seen: &seen}
	st := session.OpenDriver(drv, &session.Options{
		Observe: o.observe,
		Filters: []session.Filter{{Write: func(ctx context.Context, _ session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
			note(ctx, "filter")
			return entries, refused
		}}},
		Compact: compact.Options{Keep: compact.Keep{Turns: 1}, Timeout: -1, Summarizer: compact.SummarizerFunc(func(ctx context.Context, _ compact.Input) (string, error) {
			note(ctx, "summarizer")
			return "short", failed
		})},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 4)
	request := storetest.Request(t, s)

	want := func(err error, is error, starts, inside []string) {
		t.Helper()
		require.ErrorIs(t, err, is)
		require.Empty(t, o.open)
		require.Equal(t, starts, o.all)
		require.Equal(t, inside, seen)
		o.all, seen = nil, nil
	}
	o.all, seen = nil, nil
	add := func() error { return storetest.ErrOf(s.Append(t.Context(), transcript.UserText("hello"))) }
	plain := []string{"append-start in "}
	written := []string{"filter in append-start", "driver in append-start"}

	refused = boom
	want(add(), boom, plain, written[:1])
	refused, drv.err = nil, boom
	want(add(), boom, plain, written)
	drv.err = nil
	done, cancel := context.WithCancel(t.Context())
	cancel()
	want(storetest.ErrOf(s.Append(done, transcript.UserText("hello"))), context.Canceled, plain, written[:1])
	want(storetest.ErrOf(s.Update(t.Context(), "look", func(*session.View) ([]transcript.Item, error) { return nil, boom })),
		boom, plain, nil)
	failed = boom
	want(storetest.ErrOf(s.Compact(t.Context(), nil)), boom,
		[]string{"compaction-start in ", "append-start in compaction-start"},
		[]string{"summarizer in compaction-start", "filter in append-start", "driver in append-start"})
	require.Equal(t, request, storetest.Request(t, s))
	failed = nil
	want(storetest.ErrOf(s.Compact(t.Context(), nil)), nil,
		[]string{"compaction-start in ", "append-start in compaction-start"},
		[]string{"summarizer in compaction-start", "filter in compaction-start", "filter in append-start", "driver in append-start"})
	end := int64(0)
	require.NoError(t, s.View(t.Context(), func(v *session.View) error { end = v.End(); return nil }))
	entries, err := transcript.NewBatch(time.Unix(1_790_000_000, 0).UTC(), func() string { return "E1" }, transcript.UserText("copied"))
	require.NoError(t, err)
	_, err = s.AppendLines(t.Context(), end, entries...)
	want(err, nil, plain, written)
}

// An observer that returns no context changes none.
func TestObserveNil(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), &session.Options{
		Observe: func(context.Context, session.Event) context.Context { return nil },
	})
	defer storetest.Close(t, st)
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("hello"))
}
