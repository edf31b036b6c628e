package turn_test

import (
	"testing"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// fresh returns a session of a new store in memory.
func fresh(t *testing.T) *session.Session {
	t.Helper()
	st := session.OpenDriver(memdriver.New(nil), nil)
	t.Cleanup(func() { storetest.Close(t, st) })
	return storetest.Load(t, st, storetest.CLI)
}
