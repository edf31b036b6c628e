package filedriver_test

import (
	"testing"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/sessiontest"
)

func TestDriver(t *testing.T) {
	sessiontest.TestDriver(t, func(t *testing.T) sessiontest.Storage {
		dir := t.TempDir()
		return sessiontest.Storage{
			Open: func() (driver.Driver, error) {
				return filedriver.Open(dir, &filedriver.Options{Sync: filelog.SyncNever, OpenFiles: 3})
			},
			Shared: true,
		}
	})
}
