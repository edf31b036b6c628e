package session_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

const cutBatch = `{"type":"assistant","id":"A","ts":"2026-11-20T08:00:00Z","batch":2,"content":[{"type":"text","text":"half of an answer"}]}` + "\n"

// A cut batch that another process leaves while this one reads: the next read
// shows the same as a restart.
func TestCutBatchOfAnother(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	require.Equal(t, `[u:q]`, shape(t, s))
	storetest.AppendText(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), cutBatch)
	require.Equal(t, `[u:q][a:half of an answer]`, shape(t, s))
	tokens := storetest.Info(t, s).Tokens
	storetest.Close(t, st)

	// After the loss of the index the row counts the cut batch.
	require.NoError(t, os.Remove(filepath.Join(dir, "agents/main/sessions.jsonl")))
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 1)
	require.Equal(t, tokens, infos[0].Tokens)
	require.Equal(t, 2, infos[0].Messages)
}

// A reader takes what a dead writer has left as it is, and writes nothing: neither an
// unterminated line nor a batch that was cut is ended before the next append.
func TestReadersWriteNothing(t *testing.T) {
	for name, left := range map[string]struct{ text, shape, then string }{
		"nothing":     {"", `[u:q]`, `[u:q u:next]`},
		"a cut batch": {cutBatch, `[u:q][a:half of an answer]`, `[u:q][a:half of an answer][u:next]`},
		"a line":      {`{"type":"user","id":"U","ts":"2026-11-20T08:00:00Z","content":"whole"}`, `[u:q u:whole]`, `[u:q u:whole u:next]`},
		"half a line": {`{"type":"user","id":"U","ts":"2026-11-2`, `[u:q]`, `[u:q u:next]`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			drv, err := filedriver.Open(dir, &filedriver.Options{Sync: storetest.Unsynced.Sync})
			require.NoError(t, err)
			st := session.OpenDriver(drv, storetest.Unsynced)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("q"))
			path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
			storetest.AppendText(t, path, left.text)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, left.shape, shape(t, s))
			require.NoError(t, storetest.ErrOf(st.List(t.Context(), nil)))
			for _, err := range s.Entries(t.Context(), "") {
				require.NoError(t, err)
			}
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			storetest.Add(t, s, transcript.UserText("next"))
			require.Equal(t, left.then, shape(t, s))
		})
	}
}

// An append directly after the first lines of another one, whose writer holds the append
// lock when they are read: both are in the history in their order.
func TestAppendBehindAnOpenBatch(t *testing.T) {
	dir := t.TempDir()
	drv, err := filedriver.Open(dir, &filedriver.Options{Sync: storetest.Unsynced.Sync})
	require.NoError(t, err)
	st := session.OpenDriver(drv, storetest.Unsynced)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	release := storetest.HoldAppends(t, dir, s)
	storetest.AppendText(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), cutBatch)
	require.Equal(t, `[u:q]`, shape(t, s))
	release()
	storetest.Add(t, s, transcript.UserText("next"))
	require.Equal(t, `[u:q][a:half of an answer][u:next]`, shape(t, s))
}

// bareRows is a driver whose index holds the part of a row that row keeps, and
// whose scans from the beginning fail after some records while fails is set.
type bareRows struct {
	driver.Driver
	row   func(driver.Row) driver.Row
	fails bool
	puts  []driver.Row
}

func (d *bareRows) Put(ctx context.Context, row driver.Row) error {
	d.puts = append(d.puts, row)
	return d.Driver.Put(ctx, row)
}

func (d *bareRows) Get(ctx context.Context, ref driver.Ref) (driver.Row, error) {
	row, err := d.Driver.Get(ctx, ref)
	return d.row(row), err
}

func (d *bareRows) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		n := 0
		for rec, err := range d.Driver.Scan(ctx, ref, from, dir, keep) {
			if n++; d.fails && from == 0 && dir == driver.Forward && n > 3 {
				yield(transcript.Record{}, errNoRead)
				return
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

var errNoRead = errors.New("cannot be read")

// compacted makes a session with eight messages, a compaction that keeps none of
// them and one message after it, and returns its Info.
func compacted(t *testing.T, drv driver.Driver) session.Info {
	t.Helper()
	st := session.OpenDriver(drv, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 4)
	kept := storetest.Add(t, s, transcript.UserText("kept"))
	storetest.Add(t, s, transcript.Compaction{Summary: "s", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 4})
	return storetest.Info(t, s)
}

// Lines that the index lacks are counted once, even if a first count has
// failed.
func TestLostRowIsCountedOnce(t *testing.T) {
	mem := memdriver.New(nil)
	want := compacted(t, mem)
	d := &bareRows{Driver: memdriver.Reopen(mem), row: func(r driver.Row) driver.Row { return driver.Row{ID: r.ID, Key: r.Key, Gen: r.Gen} }}
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	d.fails = true
	require.ErrorIs(t, storetest.ErrOf(s.Info(t.Context())), errNoRead)
	d.fails = false
	require.Equal(t, want, storetest.Info(t, s))
	require.Equal(t, want, storetest.Info(t, s))
}

// An append does not read lines that the index has lost to put a row; the end
// of a turn does.
func TestLostRowIsPutAfterTurn(t *testing.T) {
	mem := memdriver.New(nil)
	want := compacted(t, mem)
	d := &bareRows{Driver: memdriver.Reopen(mem), row: func(r driver.Row) driver.Row { return driver.Row{ID: r.ID, Key: r.Key, Gen: r.Gen} }}
	now := time.Now()
	st := session.OpenDriver(d, &session.Options{Now: func() time.Time { return now }})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	for range 3 {
		storetest.Add(t, s, transcript.UserText("q"))
		now = now.Add(time.Minute)
	}
	require.Empty(t, d.puts)
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	require.Len(t, d.puts, 1)
	require.Equal(t, want.Messages+3, d.puts[0].Messages)
}

// A row that covers more than the transcript holds is ignored.
func TestRowAheadOfItsTranscript(t *testing.T) {
	mem := memdriver.New(nil)
	want := compacted(t, mem)
	st := session.OpenDriver(&bareRows{Driver: memdriver.Reopen(mem), row: func(r driver.Row) driver.Row {
		r.Size, r.Messages = r.Size+1000, 99
		return r
	}}, nil)
	defer storetest.Close(t, st)
	require.Equal(t, want, storetest.Info(t, storetest.Load(t, st, storetest.CLI)))
}

// A session whose key is not one of ours is listed unless the filter asks for a
// part of the key.
func TestListForeignKey(t *testing.T) {
	mem := memdriver.New(nil)
	_, err := mem.Create(t.Context(), driver.KeyRef{Agent: "main", Owner: "o", Key: "a key of another program"}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "s", Body: transcript.Header{Version: transcript.Version, Key: "a key of another program", Gen: gen}}
		return driver.Row{ID: "s"}, driver.Line{ID: "s", Data: e.Line()}
	})
	require.NoError(t, err)
	st := session.OpenDriver(mem, nil)
	defer storetest.Close(t, st)
	for _, test := range []struct {
		opts session.ListOptions
		want int
	}{
		{session.ListOptions{Owner: "o"}, 1},
		{session.ListOptions{Owner: "p"}, 0},
		{session.ListOptions{Key: session.Key{Channel: "c"}, Owner: "o"}, 0},
	} {
		infos := storetest.List(t, st, &test.opts)
		require.Len(t, infos, test.want, "%+v", test.opts)
	}
}

// A rewind to the beginning takes back no calibration: a restart finds those
// since the last compaction, and nothing older.
func TestCalibrationBeforeTheBeginning(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.Calibration{Model: "old", Window: 1000})
	kept := storetest.Add(t, s, transcript.UserText("kept"))
	storetest.Add(t, s, transcript.Compaction{Summary: "s", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 1})
	storetest.Add(t, s, transcript.Calibration{Model: "new", Window: 2000})
	storetest.Talk(t, s, 0, 3)
	require.NoError(t, s.Rewind(t.Context(), s.Ref().ID))
	for range 2 {
		for model, want := range map[string]int{"old": 0, "new": 2000} {
			c, err := s.Calibration(t.Context(), model, "")
			require.NoError(t, err)
			require.Equal(t, want, c.Window, model)
		}
		require.Equal(t, ``, shape(t, s))
		storetest.Close(t, st)
		st = storetest.Open(t, dir, storetest.Unsynced)
		s = storetest.Load(t, st, storetest.CLI)
	}
	storetest.Close(t, st)
}

// The folder of an agent with a long name is not named so. After the loss of its
// index the headers give the name.
func TestLongAgentWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	key := session.Key{Agent: strings.Repeat("agent/", 40), Channel: "c", Peer: "p"}
	st := storetest.Open(t, dir, storetest.Unsynced)
	ref := storetest.Load(t, st, key).Ref()
	storetest.Close(t, st)
	indexes, err := filepath.Glob(filepath.Join(dir, "agents/*/sessions.jsonl"))
	require.NoError(t, err)
	require.Len(t, indexes, 1)
	require.NoError(t, os.Remove(indexes[0]))
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 1)
	require.Equal(t, ref, infos[0].Ref)
}

// A reader that is open while a writer dies in the middle of a batch shows its
// whole lines, and the next append is separate.
func TestHalfABatchWhileReading(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"type":"assistant","id":"A","ts":"2026-11-20T08:00:00Z","batch":3,"content":[{"type":"text","text":"half"}]}` + "\n" +
		`{"type":"tool_use","id":"B","ts":"2026-11-20T08:00:00Z","mid":"A","part":2,"tool_use_id":"c","name":"f","input":{}}` + "\n" + `{"type":"tool_u`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	want := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"half"}]}]}`
	require.Equal(t, want, storetest.History(t, s))
	storetest.Add(t, s, transcript.UserText("next"))
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	require.Equal(t, storetest.History(t, s), storetest.History(t, storetest.Load(t, other, storetest.CLI)))
	storetest.CheckRequest(t, s)
}
