package pgdriver_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
)

// A process that holds a turn is stopped until its lease has ended, and somebody else
// has had a turn. When it goes on it writes nothing.
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
	row, err := d.Current(t.Context(), "main", "key")
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
	for rec, err := range d.Scan(t.Context(), row.Ref(), 0, driver.Forward) {
		require.NoError(t, err)
		said = append(said, rec.Entry.ID)
	}
	require.Equal(t, []string{"session", "holder-1", "holder-3"}, said)
	require.NoError(t, d.Close())
}
