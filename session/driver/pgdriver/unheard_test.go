package pgdriver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// A cutter is a proxy between a driver and its server. It breaks one connection:
// when a message with a text passes, or when the server has answered it.
type cutter struct {
	port string
	mu   sync.Mutex // guards the rest
	text string     // of the message; empty is none
	late bool       // once the server has answered
	cuts int
}

// cutterTo starts a cutter in front of the server.
func cutterTo(t *testing.T, port uint16) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, own, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	c := &cutter{port: own}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
			if err != nil {
				_ = client.Close()
				continue
			}
			cut := make(chan struct{})
			go c.ask(client, up, cut)
			go answer(client, up, cut)
		}
	}()
	return c
}

// arm has the next message with a text cut its connection.
func (c *cutter) arm(text string, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.late = text, late
}

// cutOff reports whether a message cuts its connection, and how.
func (c *cutter) cutOff(message []byte) (now, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == "" || !bytes.Contains(message, []byte(c.text)) {
		return false, false
	}
	c.text = ""
	c.cuts++
	return true, c.late
}

// ask passes messages of the client on.
func (c *cutter) ask(client, up net.Conn, cut chan struct{}) {
	defer up.Close()
	for first := true; ; first = false {
		message, err := readMessage(client, !first)
		if err != nil {
			return
		}
		if now, late := c.cutOff(message); now && !late {
			_ = client.Close()
			return
		} else if now {
			close(cut)
		}
		if _, err := up.Write(message); err != nil {
			return
		}
	}
}

// answer passes messages of the server on, until a cut: it waits for the end of the
// answer then.
func answer(client, up net.Conn, cut chan struct{}) {
	defer client.Close()
	for {
		message, err := readMessage(up, true)
		if err != nil {
			return
		}
		select {
		case <-cut:
			if message[0] == 'Z' { // ready for the next query: the commit is done
				return
			}
			continue
		default:
		}
		if message[0] == 'K' { // a pooler's, so that each statement comes with its text
			message[5] ^= 1
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// readMessage reads one message of the protocol. The first of a client has no type.
func readMessage(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 64)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	message := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}

// Connections break before and after every kind of commit. Each write is done once,
// and succeeds.
func TestUnheardCommit(t *testing.T) {
	admin := poolOf(t, server)
	schema := newSchema(t, admin)
	cut := cutterTo(t, admin.Config().ConnConfig.Port)
	port, err := strconv.ParseUint(cut.port, 10, 16)
	require.NoError(t, err)
	pool := poolWith(t, func(c *pgxpool.Config) { c.ConnConfig.Port = uint16(port) })
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	row := func(t *testing.T, ref driver.Ref) driver.Row {
		row, err := d.Get(t.Context(), ref)
		require.NoError(t, err)
		return row
	}
	lines := func(t *testing.T, ref driver.Ref, want ...string) {
		var got []string
		for rec, err := range d.Scan(t.Context(), ref, 0, driver.Forward, nil) {
			require.NoError(t, err)
			got = append(got, rec.Entry.ID)
		}
		require.Equal(t, append([]string{ref.ID, "one"}, want...), got)
	}
	gone := func(t *testing.T, ref driver.Ref) {
		_, err := d.Get(t.Context(), ref)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	for _, op := range []struct {
		name, text string
		do         func(ctx context.Context, ref driver.Ref) error
		check      func(t *testing.T, ref driver.Ref)
	}{
		{"append", ".append(", func(ctx context.Context, ref driver.Ref) error {
			_, err := d.Append(ctx, ref, []driver.Line{lineOf("two"), lineOf("three")}, driver.Anywhere, nil)
			return err
		}, func(t *testing.T, ref driver.Ref) { lines(t, ref, "two", "three") }},
		{"append that is decided", "commit\x00", func(ctx context.Context, ref driver.Ref) error {
			_, err := d.Append(ctx, ref, nil, driver.Anywhere, func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
				for _, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
					if err != nil {
						return nil, err
					}
				}
				return []driver.Line{lineOf("two")}, nil
			})
			return err
		}, func(t *testing.T, ref driver.Ref) { lines(t, ref, "two") }},
		{"create", ".create(", func(ctx context.Context, ref driver.Ref) error {
			_, err := d.Create(ctx, driver.KeyRef{Agent: "main", Key: ref.ID}, func(gen int64) (driver.Row, driver.Line) {
				row, line := headerOf(gen)
				row.ID = ref.ID + "-2"
				return row, line
			})
			return err
		}, func(t *testing.T, ref driver.Ref) {
			require.EqualValues(t, 2, row(t, driver.Ref{Agent: "main", ID: ref.ID + "-2"}).Gen)
		}},
		{"set current", ".set_current(", func(ctx context.Context, ref driver.Ref) error {
			_, err := d.Create(ctx, driver.KeyRef{Agent: "main", Key: ref.ID}, func(gen int64) (driver.Row, driver.Line) {
				row, line := headerOf(gen)
				row.ID = ref.ID + "-2"
				return row, line
			})
			if err == nil {
				_, err = d.SetCurrent(ctx, ref, 0, func(int64) driver.Line { return lineOf("two") })
			}
			return err
		}, func(t *testing.T, ref driver.Ref) {
			lines(t, ref, "two")
			require.EqualValues(t, 3, row(t, ref).Gen)
		}},
		{"delete", ".remove(", func(ctx context.Context, ref driver.Ref) error { return d.Delete(ctx, driver.Anywhere, ref) }, gone},
		{"delete and commit", "commit\x00", func(ctx context.Context, ref driver.Ref) error { return d.Delete(ctx, driver.Anywhere, ref) }, gone},
		{"archive", "commit\x00", func(ctx context.Context, ref driver.Ref) error { return d.Archive(ctx, ref, driver.Anywhere) }, func(t *testing.T, ref driver.Ref) {
			require.True(t, row(t, ref).Archived)
			lines(t, ref)
		}},
		{"restore", "DELETE FROM", func(ctx context.Context, ref driver.Ref) error {
			if err := d.Archive(ctx, ref, driver.Anywhere); err != nil {
				return err
			}
			cut.arm("commit\x00", cut.isLate())
			return d.Restore(ctx, ref)
		}, func(t *testing.T, ref driver.Ref) {
			require.False(t, row(t, ref).Archived)
			lines(t, ref)
		}},
		{"rewrite", "commit\x00", func(ctx context.Context, ref driver.Ref) error {
			return d.Rewrite(ctx, ref, func(recs iter.Seq2[transcript.Record, error], write func([]byte) error) error {
				for rec, err := range recs {
					if err != nil {
						return err
					}
					line := rec.Entry.Line()
					if h, ok := rec.Entry.Body.(transcript.Header); ok {
						h.Rev++
						line = transcript.Entry{ID: ref.ID, Body: h}.Line()
					}
					if err := write(line); err != nil {
						return err
					}
				}
				return nil
			})
		}, func(t *testing.T, ref driver.Ref) {
			require.Equal(t, 1, row(t, ref).Rev)
			for range d.Scan(t.Context(), ref, 0, driver.Forward, nil) {
				break // the cursors are new
			}
			lines(t, ref)
		}},
		{"write a file", ".write_file(", func(ctx context.Context, ref driver.Ref) error {
			return d.Memories().Create(ctx, "a/"+ref.ID, []byte("text"))
		}, func(t *testing.T, ref driver.Ref) {
			data, err := d.Memories().Read(t.Context(), "a/"+ref.ID)
			require.NoError(t, err)
			require.Equal(t, "text", string(data))
		}},
		{"lock a folder", ".locks", func(ctx context.Context, ref driver.Ref) error {
			unlock, err := d.Memories().Lock(ctx, ref.ID)
			if err == nil {
				unlock()
			}
			return err
		}, func(t *testing.T, _ driver.Ref) { require.Zero(t, countOf(t, admin, schema, "locks")) }},
		{"lock the turn", "SET turn =", func(ctx context.Context, ref driver.Ref) error {
			release, err := d.LockTurn(ctx, ref, false)
			if err == nil {
				err = release()
			}
			return err
		}, func(t *testing.T, ref driver.Ref) {
			release, err := d.LockTurn(t.Context(), ref, false)
			require.NoError(t, err)
			require.NoError(t, release())
		}},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late=%t", op.name, late), func(t *testing.T) {
				ref := driver.Ref{Agent: "main", ID: fmt.Sprint("s", cut.count())}
				_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: ref.ID}, func(gen int64) (driver.Row, driver.Line) {
					e := transcript.Entry{ID: ref.ID, Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen}}
					return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
				}, lineOf("one"))
				require.NoError(t, err)
				before := cut.count()
				cut.arm(op.text, late)
				require.NoError(t, op.do(t.Context(), ref))
				require.Positive(t, cut.count()-before)
				op.check(t, ref)
			})
		}
	}
	require.NoError(t, d.Close())
}

func (c *cutter) isLate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}
