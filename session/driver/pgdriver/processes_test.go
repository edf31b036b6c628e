package pgdriver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// An event is a call on a driver that has succeeded.
type event struct {
	Op, Session, Key string
	Gen              int64
	Lines            []string // that were appended, IDs
}

// A mixer makes all calls on sessions that others use as well.
type mixer struct {
	d    *pgdriver.Driver
	rnd  *rand.Rand
	name string
	n    int
	say  func(event) error
}

// mix runs two mixers.
func mix(ctx context.Context, d *pgdriver.Driver, seed uint64, steps int, say func(event) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for i := range uint64(2) {
		m := &mixer{d: d, rnd: rand.New(rand.NewPCG(seed, i)), name: fmt.Sprintf("m%d-%d", seed, i), say: func(e event) error {
			mu.Lock()
			defer mu.Unlock()
			return say(e)
		}}
		all.Go(func() {
			for range steps {
				err := m.step(ctx)
				if err == nil || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrReplaced) || errors.Is(err, driver.ErrBusy) ||
					errors.Is(err, driver.ErrArchived) || errors.Is(err, fs.ErrNotExist) {
					continue // others were there first
				}
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
				mu.Unlock()
				return
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (m *mixer) id() string {
	m.n++
	return fmt.Sprintf("%s-%d", m.name, m.n)
}

// header returns a new session's header.
func (m *mixer) header(key string) func(gen int64) (driver.Row, driver.Line) {
	id := m.id()
	return func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Body: transcript.Header{Version: transcript.Version, Key: key, Gen: gen}}
		return driver.Row{ID: id}, driver.Line{ID: id, Data: e.Line()}
	}
}

// user returns a line that can be a head, and that names the head before it.
func (m *mixer) user(before string) driver.Line {
	id := m.id()
	return driver.Line{ID: id, Data: fmt.Appendf(nil, `{"type":"user","id":%q,"content":%q}`, id, before)}
}

func (m *mixer) step(ctx context.Context) error {
	key := fmt.Sprint("key", m.rnd.IntN(3))
	list, err := m.d.List(ctx, "main", driver.Position{}, 0)
	if err != nil {
		return err
	}
	what := m.rnd.IntN(20)
	if len(list) == 0 || what < 2 {
		row, err := m.d.Load(ctx, driver.KeyRef{Agent: "main", Key: key}, m.header(key))
		return m.did(err, event{Op: "load", Session: row.ID, Key: key, Gen: row.Gen})
	}
	row := list[m.rnd.IntN(len(list))]
	ref := row.Ref()
	switch what {
	case 2:
		row, err := m.d.Create(ctx, driver.KeyRef{Agent: "main", Key: key}, m.header(key))
		return m.did(err, event{Op: "create", Session: row.ID, Key: key, Gen: row.Gen})
	case 3:
		row, err := m.d.SetCurrent(ctx, ref, 0, func(int64) driver.Line { return m.user("-") })
		return m.did(err, event{Op: "current", Session: row.ID, Key: row.Key, Gen: row.Gen})
	case 4:
		return m.did(m.d.Delete(ctx, driver.Anywhere, ref), event{Op: "delete", Session: ref.ID})
	case 5:
		end := driver.Cursor(0)
		for rec, err := range m.d.Scan(ctx, ref, 0, driver.Forward, nil) {
			if err != nil {
				return m.did(err, event{Op: "delete", Session: ref.ID})
			}
			end = driver.Cursor(rec.End)
		}
		err := m.d.Delete(ctx, end, ref)
		return m.did(err, event{Op: "delete", Session: ref.ID})
	case 6, 7:
		return m.did(m.d.Archive(ctx, ref, driver.Anywhere), event{Op: "archive"})
	case 8, 9:
		return m.did(m.d.Restore(ctx, ref), event{Op: "restore"})
	case 10, 11:
		return m.did(m.d.Rewrite(ctx, ref, again), event{Op: "rewrite"})
	case 12, 13:
		release, err := m.d.LockTurn(ctx, ref, false)
		if err != nil {
			return err
		}
		defer func() { _ = release() }()
		turn := m.id()
		for _, what := range []string{"begin", "end"} {
			line := m.user(what + " " + turn)
			_, err := m.d.Append(ctx, ref, []driver.Line{line}, driver.Anywhere, nil)
			if err := m.did(err, event{Op: "append", Session: ref.ID, Lines: []string{line.ID}}); err != nil {
				return err
			}
		}
		return nil
	case 14, 15:
		e := transcript.Entry{ID: m.id(), Idem: fmt.Sprint("idem", m.rnd.IntN(5)), IdemHash: "hash", Body: transcript.Custom{Name: "n"}}
		var ids []string
		_, err := m.d.Append(ctx, ref, nil, driver.Anywhere, func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
			ids = nil
			for rec, err := range m.d.Scan(ctx, ref, 0, driver.Forward, nil) {
				if err != nil || rec.Entry.Idem == e.Idem {
					return nil, err
				}
			}
			ids = []string{e.ID}
			return []driver.Line{{ID: e.ID, Data: e.Line()}}, nil
		})
		return m.did(err, event{Op: "append", Session: ref.ID, Lines: ids})
	case 16, 17:
		head, end := noHead, driver.Cursor(0)
		for rec, err := range m.d.Scan(ctx, ref, 0, driver.Backward, nil) {
			if err != nil {
				return err
			}
			end = max(end, driver.Cursor(rec.End))
			if transcript.IsHead(rec.Entry.Type()) {
				head = rec.Entry.ID
				break
			}
		}
		line := m.user("after " + head)
		_, err := m.d.Append(ctx, ref, []driver.Line{line}, end, nil)
		return m.did(err, event{Op: "append", Session: ref.ID, Lines: []string{line.ID}})
	}
	var lines []driver.Line
	var ids []string
	first := m.id()
	for i := range 1 + m.rnd.IntN(4) {
		line := m.user(fmt.Sprintf("of %s %d", first, i))
		lines, ids = append(lines, line), append(ids, line.ID)
	}
	_, err = m.d.Append(ctx, ref, lines, driver.Anywhere, nil)
	return m.did(err, event{Op: "append", Session: ref.ID, Lines: ids})
}

func (m *mixer) did(err error, e event) error {
	if err == nil {
		err = m.say(e)
	}
	return err
}

// again rewrites a session as it is, under the next rev.
func again(recs iter.Seq2[transcript.Record, error], write func([]byte) error) error {
	for rec, err := range recs {
		if err != nil {
			return err
		}
		line := rec.Entry.Line()
		if h, ok := rec.Entry.Body.(transcript.Header); ok {
			h.Rev++
			line = transcript.Entry{ID: rec.Entry.ID, Body: h}.Line()
		}
		if err := write(line); err != nil {
			return err
		}
	}
	return nil
}

// Two processes make all calls at once on the same sessions, and the database has the
// acknowledged results of both.
func TestTwoProcesses(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	steps := extent(150, 1500, 15_000)
	cmd := exec.CommandContext(t.Context(), os.Args[0], schema, "mixer", "15s", "2", strconv.Itoa(steps))
	cmd.Env = append(os.Environ(), "CONVOLOG_CHILD="+server.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var events []event
	heard := make(chan error, 1)
	var theirs []event
	go func() {
		for dec := json.NewDecoder(out); ; {
			var e event
			if err := dec.Decode(&e); err != nil {
				heard <- err
				return
			}
			theirs = append(theirs, e)
		}
	}()
	require.NoError(t, mix(t.Context(), d, 1, steps, func(e event) error {
		events = append(events, e)
		return nil
	}))
	require.ErrorIs(t, <-heard, io.EOF)
	require.NoError(t, cmd.Wait())
	require.NoError(t, d.Close())
	d, err = pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema}) // one that knows no cursors
	require.NoError(t, err)
	checkEvents(t, d, append(events, theirs...))
	require.NoError(t, d.Close())
}

func checkEvents(t *testing.T, d *pgdriver.Driver, events []event) {
	t.Helper()
	made, gone, count := map[string]bool{}, map[string]bool{}, map[string]int{}
	gens, appended := map[string]map[int64]string{}, map[string][]string{}
	for _, e := range events {
		count[e.Op]++
		switch e.Op {
		case "load", "create", "current":
			made[e.Session] = true
			if gens[e.Key] == nil {
				gens[e.Key] = map[int64]string{}
			}
			was := gens[e.Key][e.Gen]
			require.True(t, was == "" || was == e.Session, "gen %d of %s is that of %s and of %s", e.Gen, e.Key, was, e.Session)
			gens[e.Key][e.Gen] = e.Session
		case "delete":
			require.False(t, gone[e.Session], "%s was deleted twice", e.Session)
			gone[e.Session] = true
		case "append":
			appended[e.Session] = append(appended[e.Session], e.Lines...)
		}
	}
	list, err := d.List(t.Context(), "main", driver.Position{}, 0)
	require.NoError(t, err)
	there, highest := map[string]bool{}, map[string]driver.Row{}
	for _, row := range list {
		there[row.ID] = true
		checkLines(t, d, row.Ref(), appended[row.ID])
		if h, ok := highest[row.Key]; !row.Archived && (!ok || row.Gen > h.Gen) {
			highest[row.Key] = row
		}
	}
	for _, row := range list {
		require.Equal(t, highest[row.Key].ID == row.ID, row.Current, row.ID)
	}
	for id := range made {
		require.Equal(t, !gone[id], there[id], id)
	}
	for _, op := range []string{"load", "create", "current", "delete", "append", "archive", "restore", "rewrite"} {
		require.Positive(t, count[op], op)
	}
	t.Logf("%d sessions are there; %v", len(list), count)
}

// noHead is the head of a session without one.
const noHead = "-"

// checkLines checks that a session has each acknowledged line once, and that each line
// is where it says.
func checkLines(t *testing.T, d *pgdriver.Driver, ref driver.Ref, want []string) {
	t.Helper()
	seen, idems := map[string]int{}, map[string]bool{}
	head, turn, batch := noHead, "", ""
	for rec, err := range d.Scan(t.Context(), ref, 0, driver.Forward, nil) {
		require.NoError(t, err)
		e := rec.Entry
		if seen[e.ID]++; e.Idem != "" {
			require.False(t, idems[e.Idem], "the key %s was appended twice", e.Idem)
			idems[e.Idem] = true
		}
		f, ok := e.Body.(transcript.MessageLine)
		if !ok {
			batch = ""
			continue
		}
		what, rest, _ := strings.Cut(f.Message().Text(), " ")
		switch what {
		case "after":
			require.Equal(t, head, rest, "the head before %s", e.ID)
		case "begin":
			turn = rest
		case "end":
			require.Equal(t, turn, rest, "two turns at once")
		}
		if what == "of" {
			first, i, _ := strings.Cut(rest, " ")
			require.True(t, i == "0" || batch == first, "%s is not behind the line before it", e.ID)
			batch = first
		} else {
			batch = ""
		}
		head = e.ID
	}
	for _, id := range want {
		require.Equal(t, 1, seen[id], "%s in %s", id, ref.ID)
	}
}
