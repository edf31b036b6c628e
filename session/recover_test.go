package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// After a failed sync a session refuses appends until Recover has succeeded.
func TestRecover(t *testing.T) {
	fail, failed, stuck := false, false, false
	refuse := func() error {
		if failed {
			return &session.NotDurableError{Refused: true, Err: errors.New("no")}
		}
		return nil
	}
	st := session.OpenDriver(&storetest.Between{
		Driver:       memdriver.New(nil),
		BeforeAppend: func(session.Ref) error { return refuse() },
		AfterAppend: func(session.Ref) error {
			if failed = fail; failed {
				return &session.NotDurableError{Err: errors.New("no")}
			}
			return nil
		},
		BeforeFlush: func(cure bool) error {
			if cure && stuck {
				return errors.New("still no")
			}
			failed = failed && !cure
			return refuse()
		},
	}, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	fail = true
	_, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("two"))
	if e, ok := errors.AsType[*session.NotDurableError](err); !ok || e.Refused {
		t.Fatalf("Append = %v", err)
	}
	fail = false
	_, err = s.Append(t.Context(), transcript.UserText("no"))
	require.Error(t, err, "an append was not refused")
	stuck = true
	err = s.Recover(t.Context())
	if e, ok := errors.AsType[*session.Error](err); !ok || e.Op != "recover" || e.Session != s.Ref() {
		t.Errorf("Recover that fails = %v", err)
	}
	stuck = false
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
