package memdriver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/sessiontest"
	"github.com/convolog/convolog/transcript"
)

func TestDriver(t *testing.T) {
	for name, shared := range map[string]bool{"shared": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			sessiontest.TestDriver(t, func(*testing.T) sessiontest.Storage {
				d := memdriver.New(nil)
				return sessiontest.Storage{
					Open:   func() (driver.Driver, error) { return memdriver.Reopen(d), nil },
					Shared: shared,
				}
			})
		})
	}
}

var errFull = errors.New("no space left on device")

// Each method that writes can be made to fail, and then nothing has changed.
func TestFail(t *testing.T) {
	full, asked := false, ""
	d := memdriver.New(&memdriver.Options{Fail: func(op string, ref driver.Ref) error {
		asked = op + " " + ref.Agent + " " + ref.ID
		if full {
			return errFull
		}
		return nil
	}})
	ctx := t.Context()
	ref := create(t, d, "a").Ref()
	create(t, d, "b")
	before := state(t, d)
	full = true
	for name, call := range map[string]func() error{
		"Append main a": func() error {
			_, err := d.Append(ctx, ref, []driver.Line{user("1"), user("2")}, driver.Anywhere, nil)
			return err
		},
		"Load main c": func() error {
			_, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "new key"}, header("c"))
			return err
		},
		"Create main c": func() error {
			_, err := d.Create(ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("c"))
			return err
		},
		"SetCurrent main a": func() error {
			_, err := d.SetCurrent(ctx, ref, 0, func(int64) driver.Line { return user("3") })
			return err
		},
		"Put main a":    func() error { return d.Put(ctx, driver.Row{Agent: "main", ID: "a", Title: "title"}) },
		"Delete main a": func() error { return d.Delete(ctx, driver.Anywhere, ref) },
	} {
		if err := call(); !errors.Is(err, errFull) || asked != name {
			t.Errorf("%s: error %v, and Fail was asked about %q; want %q", name, err, asked, errFull)
		}
		if now := state(t, d); now != before {
			t.Errorf("%s failed, and the storage is\n%s\nwant\n%s", name, now, before)
		}
	}
	asked = ""
	_, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("c"))
	require.NoError(t, err)
	require.Empty(t, asked)
	full = false
	end, err := d.Append(ctx, ref, nil, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) { return nil, nil })
	require.NoError(t, err)
	_, err = d.Append(ctx, ref, []driver.Line{user("1")}, end.End, nil)
	require.NoError(t, err)
}

func TestNewerGenAfterDelete(t *testing.T) {
	d := memdriver.New(nil)
	create(t, d, "a")
	b := create(t, d, "b")
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, b.Ref()))
	if c := create(t, d, "c"); c.Gen <= b.Gen {
		t.Errorf("gen %d was given after the session with gen %d was deleted", c.Gen, b.Gen)
	}
}

// A line without an entry is damage and counts as a line.
func TestDamage(t *testing.T) {
	d := memdriver.New(nil)
	ref := create(t, d, "a").Ref()
	ctx := t.Context()
	first := driver.Line{ID: "1", Data: []byte(`{"type":"user","id":"1","batch":2,"idem":"key","content":"a"}`)}
	second := driver.Line{ID: "2", Data: []byte(`{"type":"user","id":"2","part":2,"content":"b"}`)}
	lines := []driver.Line{first, {Data: []byte(`{"torn`)}, second, {Data: []byte(`{"no":"type"}`)}}
	added, err := d.Append(ctx, ref, lines, driver.Anywhere, nil)
	require.NoError(t, err)
	var got []string
	for rec, err := range d.Scan(ctx, ref, added.Start, driver.Forward, nil) {
		require.NoError(t, err)
		if rec.Damage != nil {
			got = append(got, rec.Damage.String())
			continue
		}
		got = append(got, rec.Entry.ID)
	}
	want := fmt.Sprintf(`1|torn: 6 bytes at offset %d|2|malformed: 13 bytes at offset %d (no type)`, added.Start+1, added.Start+3)
	require.Equal(t, want, strings.Join(got, "|"))
}

func TestLineBreak(t *testing.T) {
	d := memdriver.New(nil)
	ref := create(t, d, "a").Ref()
	before := state(t, d)
	_, err := d.Append(t.Context(), ref, []driver.Line{user("1"), {Data: []byte("{\n}")}}, driver.Anywhere, nil)
	require.Error(t, err)
	require.Equal(t, before, state(t, d))
}

// A call that waits for a turn ends when the driver is closed, and when the
// session is deleted. The lock outlives both.
func TestTurnWaitEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(d driver.Driver, ref driver.Ref) error
		want error
	}{
		"Close": {func(d driver.Driver, _ driver.Ref) error { return d.Close() }, driver.ErrClosed},
		"Delete": {
			func(d driver.Driver, ref driver.Ref) error {
				return d.Delete(context.Background(), driver.Anywhere, ref)
			},
			fs.ErrNotExist,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := memdriver.New(nil)
			ref := create(t, d, "a").Ref()
			release, err := d.LockTurn(t.Context(), ref, false)
			require.NoError(t, err)
			var waiting sync.WaitGroup
			for range 4 {
				waiting.Go(func() {
					if _, err := d.LockTurn(t.Context(), ref, true); !errors.Is(err, tt.want) {
						t.Errorf("LockTurn that waits: error %v, want %v", err, tt.want)
					}
				})
			}
			require.NoError(t, tt.end(d, ref))
			waiting.Wait()
			require.NoError(t, release())
		})
	}
}

func ExampleReopen() {
	ctx := context.Background()
	d := memdriver.New(nil)
	row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "main:cli:user"}, header("0198f000"))
	if err != nil {
		fmt.Println(err)
	}
	d.Close()

	d = memdriver.Reopen(d) // the restarted application
	defer d.Close()
	again, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "main:cli:user"}, header("0198f001"))
	fmt.Println(again.ID == row.ID, err)
	// Output: true <nil>
}

func ExampleOptions() {
	full := true
	d := memdriver.New(&memdriver.Options{
		Fail: func(op string, ref driver.Ref) error {
			if full && op == "Create" {
				return errors.New("no space left on device")
			}
			return nil
		},
	})
	_, err := d.Create(context.Background(), driver.KeyRef{Agent: "main", Key: "main:cli:user"}, header("0198f000"))
	fmt.Println(err)
	full = false
	_, err = d.Create(context.Background(), driver.KeyRef{Agent: "main", Key: "main:cli:user"}, header("0198f000"))
	fmt.Println(err)
	// Output:
	// memdriver: Create: session "0198f000" of agent "main": no space left on device
	// <nil>
}

func header(id string) func(gen int64) (driver.Row, driver.Line) {
	return func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen}}
		return driver.Row{ID: id}, driver.Line{ID: id, Data: e.Line()}
	}
}

func user(id string) driver.Line {
	return driver.Line{ID: id, Data: fmt.Appendf(nil, `{"type":"user","id":%q,"content":"text"}`, id)}
}

func create(t *testing.T, d driver.Driver, id string) driver.Row {
	t.Helper()
	row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header(id))
	require.NoError(t, err)
	return row
}

// state prints all that a driver stores under one agent.
func state(t *testing.T, d driver.Driver) string {
	t.Helper()
	ctx := t.Context()
	agents, err := d.List(ctx, "", driver.Position{}, 0)
	require.NoError(t, err)
	lines := map[string][]string{}
	rows, err := d.List(ctx, "main", driver.Position{}, 0)
	require.NoError(t, err)
	for _, row := range rows {
		name := fmt.Sprintf("%+v", row)
		for rec, err := range d.Scan(ctx, row.Ref(), 0, driver.Forward, nil) {
			require.NoError(t, err)
			lines[name] = append(lines[name], string(rec.Entry.Line()))
		}
	}
	return fmt.Sprint(agents, lines)
}
