package turn_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// One turn at a time, over stores; appends continue.
func TestBeginTurn(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s, other := storetest.Load(t, a, storetest.CLI), storetest.Load(t, b, storetest.CLI)
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	_, err = turn.TryBegin(t.Context(), other)
	require.ErrorIs(t, err, session.ErrBusy)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := turn.Begin(ctx, other)
		done <- err
	}()
	storetest.Add(t, other, transcript.UserText("an append goes on"))
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, session.ErrBusy)
	_, err = turn.Begin(ctx, other)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, session.ErrBusy)
	require.NoError(t, tn.End())
	require.NoError(t, tn.End())
	tn, err = turn.Begin(t.Context(), other)
	require.NoError(t, err)
	require.NoError(t, tn.End())
	require.NoError(t, s.Flush(t.Context()))
}

func init() { storetest.Register("holder", holderChild) }

// holderChild begins a turn and never ends it.
func holderChild(args []string, stdin io.Reader, stdout io.Writer) error {
	_, s, err := storetest.OpenSession(args[0])
	if err != nil {
		return err
	}
	if _, err := turn.Begin(storetest.Background, s); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "held")
	select {}
}

// A turn lock ends with the process that holds it.
func TestTurnOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	cmd := storetest.Child(t, "holder", dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	_, err = turn.TryBegin(t.Context(), s)
	require.ErrorIs(t, err, session.ErrBusy)
	require.NoError(t, cmd.Process.Kill())
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, tn.End())
	_ = cmd.Wait() // it was killed
}
