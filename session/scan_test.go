package session_test

import (
	"bytes"
	"context"
	"io/fs"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A scan of a session's own lines leaves out the copied ones, in both directions, and
// nothing if the session is not a fork.
func TestScanOwn(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
	fork := storetest.Fork(t, s, ids[1], nil)
	own := storetest.Add(t, fork, transcript.UserText("three"))
	for _, backward := range []bool{false, true} {
		texts := func(s *session.Session) (found []string) {
			for rec, err := range s.Scan(t.Context(), session.ScanOptions{Own: true, Backward: backward}) {
				require.NoError(t, err)
				if _, ok := rec.Entry.Body.(transcript.MessageLine); ok {
					found = append(found, rec.Entry.ID)
				}
			}
			return found
		}
		require.Equal(t, own, texts(fork))
		require.ElementsMatch(t, ids, texts(s))
	}
}

// A scan yields the records that its options select among all, in both directions.
func TestScanOptions(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"), transcript.UserText("one more"), storetest.Answer("three"))
		odd, err := transcript.ParseEntry([]byte(`{"type":"custom","id":"a\"b","t":"2026-11-20T08:00:00Z","name":"x","data":"` + ids[0] + `"}`))
		require.NoError(t, err)
		_, err = s.AppendLines(t.Context(), storetest.End(t, s), odd)
		require.NoError(t, err)
		fork := storetest.Fork(t, s, ids[1], nil)
		storetest.Add(t, fork, transcript.UserText("one"), storetest.Answer("four"))
		for _, s := range []*session.Session{s, fork} {
			var all []transcript.Record
			places := []int64{0}
			for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
				require.NoError(t, err)
				all = append(all, rec)
				places = append(places, rec.Offset, rec.End)
			}
			header, ok := all[0].Entry.Body.(transcript.Header)
			require.True(t, ok)
			one := func(lines []byte) bool { return bytes.Contains(lines, []byte("one")) }
			for _, o := range scanOptions(slices.Compact(places), append(ids, `a"b`, "nobody"), one) {
				var want []int64
				for i, rec := range all {
					in := rec.Offset >= o.From && (o.To == 0 || rec.Offset < o.To)
					copied := o.Own && header.Base.Lines > 0 && i <= header.Base.Lines
					if in && !copied && (o.ID == "" || rec.Entry.ID == o.ID) && (o.Keep == nil || one(rec.Entry.Line())) {
						want = append(want, rec.Offset)
					}
				}
				if o.Backward {
					slices.Reverse(want)
				}
				var got []int64
				for rec, err := range s.Scan(t.Context(), o) {
					require.NoError(t, err)
					if o.Keep == nil || one(rec.Entry.Line()) { // backward it may let their neighbours through
						got = append(got, rec.Offset)
					}
				}
				if !slices.Equal(want, got) {
					t.Errorf("%d to %d, backward %v, own %v, keep %v, ID %q: want %v, got %v", o.From, o.To, o.Backward, o.Own, o.Keep != nil, o.ID, want, got)
				}
			}
		}
	})
}

// scanOptions returns every combination of options.
func scanOptions(places []int64, ids []string, keep func([]byte) bool) (all []session.ScanOptions) {
	for _, from := range places {
		for _, to := range places {
			for n := range 4 {
				o := session.ScanOptions{From: from, To: to, Backward: n&1 != 0, Own: n&2 != 0}
				all = append(all, o)
				o.Keep = keep
				all = append(all, o)
				o.Keep = nil
				for _, id := range ids {
					o.ID = id
					all = append(all, o)
				}
			}
		}
	}
	return all
}

// A scan reads only the owner's sessions, and ends with its loop.
func TestScanEnds(t *testing.T) {
	drv := memdriver.New(nil)
	st := session.OpenDriver(drv, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 3)
	scope, err := st.Scope("ann")
	require.NoError(t, err)
	for _, o := range []session.ScanOptions{{}, {Backward: true}, {Own: true}, {Own: true, Backward: true}, {ID: "x"}} {
		n := 0
		for _, err := range s.Scan(t.Context(), o) {
			require.NoError(t, err)
			n++
			break
		}
		require.LessOrEqual(t, n, 1)
		n = 0
		for _, err := range scope.Scan(t.Context(), s.Ref(), o) {
			require.ErrorIs(t, err, fs.ErrNotExist)
			n++
		}
		require.Equal(t, 1, n)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range s.Scan(gone, o) {
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, s.Ref().ID)
		}
	}
}
