package session_test

import (
	"context"
	"testing"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript"
)

// noIndex is a driver that keeps no rows.
type noIndex struct{ driver.Driver }

func (noIndex) Put(context.Context, driver.Row) error { return nil }

// What an append allocates but for the index, whose rows are its own affair:
// three things are the caller's (the message, its content, its text), six are
// the entry, its ID and its line, two are the lists of lines and of IDs, one is
// the name of the file, to look it up, and the rest is what the fold keeps for
// the histories to come.
func TestAppendAllocs(t *testing.T) {
	if brief {
		t.Skip("the race detector allocates too")
	}
	drv, err := filedriver.Open(t.TempDir(), &filedriver.Options{Sync: unsynced.Sync})
	must(t, err)
	st := session.OpenDriver(noIndex{drv}, unsynced)
	defer closed(t, st)
	s := load(t, st, cli)
	const most = 13
	got := testing.AllocsPerRun(1000, func() {
		_, err = s.Append(bg, transcript.UserText(kibText))
	})
	must(t, err)
	if got > most {
		t.Errorf("%v allocations, want %v at most", got, most)
	}
}
