package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A flaky driver refuses appends after one that it wrote and could not sync,
// until a Flush that cures has succeeded.
type flaky struct {
	driver.Driver
	fail, failed, stuck bool
}

func (f *flaky) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	if f.failed {
		return driver.Result{}, &session.NotDurableError{Refused: true, Err: errors.New("no")}
	}
	res, err := f.Driver.Append(ctx, ref, lines, at, decide)
	if f.fail && err == nil {
		f.failed = true
		return driver.Result{}, &session.NotDurableError{Err: errors.New("no")}
	}
	return res, err
}

func (f *flaky) Flush(ctx context.Context, ref driver.Ref, cure bool) error {
	switch {
	case cure && f.stuck:
		return errors.New("still no")
	case cure:
		f.failed = false
	case f.failed:
		return &session.NotDurableError{Refused: true, Err: errors.New("no")}
	}
	return f.Driver.Flush(ctx, ref, cure)
}

func TestRecover(t *testing.T) {
	drv := &flaky{Driver: memdriver.New(nil)}
	st := session.OpenDriver(drv, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	drv.fail = true
	_, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("two"))
	if e, ok := errors.AsType[*session.NotDurableError](err); !ok || e.Refused {
		t.Fatalf("Append = %v", err)
	}
	drv.fail = false
	_, err = s.Append(t.Context(), transcript.UserText("no"))
	require.Error(t, err, "an append was not refused")
	drv.stuck = true
	err = s.Recover(t.Context())
	if e, ok := errors.AsType[*session.Error](err); !ok || e.Op != "recover" || e.Session != s.Ref() {
		t.Errorf("Recover that fails = %v", err)
	}
	drv.stuck = false
	require.NoError(t, s.Recover(t.Context()))
	// The state was read anew, before any other call.
	require.Equal(t, 2, storetest.Info(t, s).Turns)
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("two"))
	if err != nil || !done.Repeated {
		t.Errorf("the same append under its key = %+v, %v", done, err)
	}
	storetest.Add(t, s, transcript.UserText("three"))
	h := storetest.History(t, s)
	require.Equal(t, 1, strings.Count(h, "two"))
	require.Contains(t, h, "three")
	require.NoError(t, st.Close())
}

func TestRecoverOtherDrivers(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	require.NoError(t, storetest.Load(t, st, storetest.CLI).Recover(t.Context()))
	require.NoError(t, st.Close())
	st = storetest.Open(t, t.TempDir(), nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	require.NoError(t, s.Recover(t.Context()))
	storetest.Add(t, s, transcript.UserText("two"))
	require.NoError(t, st.Close())
	require.ErrorIs(t, s.Recover(t.Context()), session.ErrClosed)
}
