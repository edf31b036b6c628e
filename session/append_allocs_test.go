package session_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// noIndex is a driver that keeps no rows.
type noIndex struct{ driver.Driver }

func (noIndex) Put(context.Context, driver.Row) error { return nil }

// The allocations of an append, rows of the index left out. Four are the
// caller's: the list of items, the message, its content and its text. The others
// are the list of entries, the entry's content, body, ID and line, and the list of
// IDs that is returned.
func TestAppendAllocs(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	drv, err := filedriver.Open(t.TempDir(), &filedriver.Options{Sync: storetest.Unsynced.Sync})
	require.NoError(t, err)
	st := session.OpenDriver(noIndex{drv}, storetest.Unsynced)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	const most = 10
	got := testing.AllocsPerRun(1000, func() {
		_, err = s.Append(storetest.Background, transcript.UserText(storetest.KibText))
	})
	require.NoError(t, err)
	if got > most {
		t.Errorf("%v allocations, want %v at most", got, most)
	}
}
