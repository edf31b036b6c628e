package pgdriver_test

import (
	"testing"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/sessiontest"
)

func TestDriver(t *testing.T) {
	pool := poolOf(t, server)
	sessiontest.TestDriver(t, func(t *testing.T) sessiontest.Storage {
		schema := newSchema(t, pool)
		return sessiontest.Storage{
			Open: func() (driver.Driver, error) {
				return pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
			},
			Shared: true,
		}
	})
}
