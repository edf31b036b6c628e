package pgdriver_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// A process that holds a turn is stopped until its lease has ended and another
// process has had a turn. When it continues it writes nothing.
func TestStoppedHolder(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	const lease = 300 * time.Millisecond
	cmd := exec.CommandContext(t.Context(), os.Args[0], schema, "holder", lease.String())
	cmd.Env = append(os.Environ(), "CONVOLOG_CHILD="+server.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan()) // it holds the turn and has appended

	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema, Lease: lease})
	require.NoError(t, err)
	row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, nil)
	require.NoError(t, err)
	_, err = d.LockTurn(t.Context(), row.Ref(), false)
	require.Error(t, err, "the turn is held")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	release, err := d.LockTurn(t.Context(), row.Ref(), true) // once the lease has ended
	require.NoError(t, err)
	require.NoError(t, release())

	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	_, err = in.Write([]byte("go on\n"))
	require.NoError(t, err)
	require.True(t, lines.Scan())
	require.True(t, strings.Contains(lines.Text(), "lease"), lines.Text())
	require.True(t, lines.Scan(), "after the turn is released")
	require.Equal(t, "<nil>", lines.Text())
	require.NoError(t, cmd.Wait())
	var said []string
	for rec, err := range d.Scan(t.Context(), row.Ref(), 0, driver.Forward, nil) {
		require.NoError(t, err)
		said = append(said, rec.Entry.ID)
	}
	require.Equal(t, []string{"session", "holder-1", "holder-3"}, said)
	require.NoError(t, d.Close())
}

// Appends that belong to no turn go through while turns of the same process begin and
// end.
func TestAppendsBesideTurns(t *testing.T) {
	pool := poolOf(t, server)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: newSchema(t, pool)})
	require.NoError(t, err)
	row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "session", Body: transcript.Header{Version: transcript.Version, Key: "key", Gen: gen}}
		return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
	})
	require.NoError(t, err)
	over, turns := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			release, err := d.LockTurn(t.Context(), row.Ref(), true)
			if err == nil {
				err = release()
			}
			select {
			case <-over:
				turns <- err
				return
			default:
				if err != nil {
					turns <- err
					return
				}
			}
		}
	}()
	var talking errgroup.Group
	for who := range 8 { // some wait for the transaction of others, with the fence they came with
		talking.Go(func() error {
			for n := range 50 {
				e := transcript.Entry{ID: fmt.Sprint(who, "-", n), Body: transcript.Custom{Name: "n"}}
				if _, err := d.Append(t.Context(), row.Ref(), []driver.Line{{ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, talking.Wait())
	close(over)
	require.NoError(t, <-turns)
	require.NoError(t, d.Close())
}
