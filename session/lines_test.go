package session_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// ready returns user texts as entries that are already complete.
func ready(first int, texts ...string) (entries []transcript.Entry) {
	for i, text := range texts {
		entries = append(entries, transcript.Entry{
			ID: fmt.Sprintf("e%d", first+i), Time: time.Unix(int64(1_700_000_000+first+i), 0).UTC(),
			Body: transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(transcript.TextBlock{Text: text}),
		}.WithSource([]byte(text)))
	}
	return entries
}

// Entries that are appended as lines are read as they are, here, by another
// store and after a restart, mixed with those of Append.
func TestAppendLines(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("before"))
	at, err := s.AppendLines(t.Context(), storetest.End(t, s), ready(1, "one", "two")...)
	require.NoError(t, err)
	require.Equal(t, storetest.End(t, s), at)
	_, err = s.AppendLines(t.Context(), at, ready(3, "three")...)
	require.NoError(t, err)
	storetest.Add(t, s, transcript.UserText("after"))
	want := storetest.History(t, s)
	require.Equal(t, 5, storetest.Info(t, s).Messages)
	var sources []string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if source, ok := e.Source(); ok {
			sources = append(sources, e.ID+" "+string(source))
		}
	}
	require.Equal(t, []string{"e1 one", "e2 two", "e3 three"}, sources)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	require.Equal(t, want, storetest.History(t, storetest.Load(t, st, storetest.CLI)))
}

// A writer that died has left a line without an end. Nothing was appended since a caller
// has read it, so entries can be appended there.
func TestAppendLinesBehindATornLine(t *testing.T) {
	for name, torn := range map[string]string{"torn": `{"id":"torn`, "whole": string(ready(9, "whole")[0].Line())} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, nil)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("before"))
			storetest.AppendText(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), torn)
			at := int64(0)
			for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
				require.NoError(t, err)
				at = rec.End
			}
			at, err := s.AppendLines(t.Context(), at, ready(1, "one")...)
			require.NoError(t, err)
			require.Equal(t, storetest.End(t, s), at)
		})
	}
}

// An append that must not be leaves the session as it was.
func TestAppendLinesRefused(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := storetest.Load(t, st, storetest.CLI)
	for _, item := range []transcript.Item{transcript.UserText("hi"), transcript.System{Text: "Be brief."}} {
		at := storetest.End(t, s)
		storetest.Add(t, s, item)
		require.ErrorIs(t, storetest.ErrOf(s.AppendLines(t.Context(), at, ready(1, "late")...)), session.ErrConflict)
	}
	require.ErrorIs(t, storetest.ErrOf(s.AppendLines(t.Context(), -1, ready(1, "anywhere")...)), session.ErrConflict)
	before := storetest.History(t, s)
	for _, bad := range []transcript.Entry{
		ready(2, "x")[0].WithLine(make([]byte, transcript.DefaultMaxLine+1)),
		ready(2, "x")[0].WithLine([]byte(`{"type":`)),
	} {
		_, err := s.AppendLines(t.Context(), storetest.End(t, s), ready(1, "good")[0], bad)
		require.ErrorContains(t, err, "entry 2 of 2")
		require.ErrorContains(t, err, "nothing was written")
	}
	require.Equal(t, before, storetest.History(t, s))
	require.NoError(t, s.MakeCurrent(t.Context()))
	_, err := s.AppendLines(t.Context(), storetest.End(t, s), ready(1, "good")...)
	require.NoError(t, err)
}

// A session that is made with a header takes its data.
func TestCreateWithHeader(t *testing.T) {
	ctx := t.Context()
	st := session.OpenDriver(memdriver.New(nil), nil)
	header := transcript.Entry{
		ID: "given", Time: time.Unix(1_700_000_000, 0).UTC(),
		Body: transcript.Header{Created: time.Unix(1_600_000_000, 0).UTC(), Meta: transcript.Meta{Title: new("a title")}},
	}.WithSource([]byte("original"))
	storetest.Load(t, st, storetest.CLI)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Header: &header})
	info := storetest.Info(t, s)
	require.Equal(t, "given", info.ID)
	require.True(t, info.Current)
	require.Equal(t, storetest.CLI.String(), info.Key)
	require.Equal(t, "a title", info.Title)
	require.Equal(t, int64(1_600_000_000), info.CreatedAt.Unix())
	for e, err := range s.Entries(ctx, "") {
		require.NoError(t, err)
		source, ok := e.Source()
		require.True(t, ok)
		require.Equal(t, "original", string(source))
	}
	storetest.Add(t, s, transcript.UserText("hi"))

	_, err := st.Create(ctx, storetest.CLI, &session.CreateOptions{Header: &header})
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = st.Create(ctx, storetest.CLI, &session.CreateOptions{Header: &transcript.Entry{ID: "other", Body: transcript.Rewind{To: "given"}}})
	require.ErrorContains(t, err, "not a header")
	header.ID = "../out"
	_, err = st.Create(ctx, storetest.CLI, &session.CreateOptions{Header: &header})
	require.Error(t, err)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 2)
}

// A header with a gen is stored as it is. Lines that make the session current do so.
func TestCreateWithGen(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		first := storetest.Load(t, st, storetest.CLI)
		create := func(id string, gen int64) (*session.Session, transcript.Entry, error) {
			at := time.Unix(1_700_000_000, 0).UTC()
			e := transcript.Entry{ID: id, Time: at, Body: transcript.Header{Version: 1, Key: storetest.CLI.String(), Gen: gen, Created: at}}
			s, err := st.Create(ctx, storetest.CLI, &session.CreateOptions{Header: &e})
			return s, e, err
		}
		newer, e, err := create("newer", 9)
		require.NoError(t, err)
		require.Equal(t, []string{string(e.Line())}, storetest.Lines(t, newer), "no checksum was added")
		require.True(t, storetest.Info(t, newer).Current)
		older, _, err := create("older", 5)
		require.NoError(t, err)
		require.False(t, storetest.Info(t, older).Current)
		_, _, err = create("older", 6)
		require.ErrorIs(t, err, fs.ErrExist)
		_, _, err = create("other", 9)
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, "newer")
		_, err = st.Get(ctx, session.Ref{Agent: "main", ID: "other"})
		require.ErrorIs(t, err, fs.ErrNotExist)
		key := storetest.CLI
		key.Peer = "another"
		_, err = st.Create(ctx, key, &session.CreateOptions{Header: &e})
		require.ErrorContains(t, err, "key of the header")

		current := func(gen int64) error {
			e := transcript.Entry{ID: fmt.Sprint("c", gen), Time: e.Time, Body: transcript.Current{Gen: gen}}
			_, err = older.AppendLines(ctx, storetest.End(t, older), e)
			return err
		}
		require.ErrorIs(t, current(9), fs.ErrExist)
		require.False(t, storetest.Info(t, older).Current)
		require.NoError(t, current(20))
		require.True(t, storetest.Info(t, older).Current)
		require.Equal(t, "older", storetest.Load(t, st, storetest.CLI).Ref().ID)
		require.NoError(t, first.MakeCurrent(ctx))
		require.Equal(t, first.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
	})
}

// Lines that are refused because others have appended make no session current.
func TestRefusedLinesMakeNothingCurrent(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		end := storetest.Info(t, s).End
		newer := storetest.Create(t, st, storetest.CLI, nil)
		storetest.Add(t, s, transcript.UserText("in between"))
		current := transcript.Entry{ID: "c", Time: time.Unix(1_790_000_000, 0), Body: transcript.Current{Gen: 9}}
		_, err := s.AppendLines(t.Context(), end, current)
		require.ErrorIs(t, err, session.ErrConflict)
		require.True(t, storetest.Info(t, newer).Current)
		_, err = s.AppendLines(t.Context(), storetest.Info(t, s).End, current)
		require.NoError(t, err)
		require.True(t, storetest.Info(t, s).Current)
	})
}
