package adkstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	adk "google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/adkstore"
	"github.com/convolog/convolog/session/driver/memdriver"
)

// ADK's own suite, on files and in memory.
func TestSuite(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *session.Store{
		"files": func(t *testing.T) *session.Store {
			st, err := session.Open(t.TempDir(), nil)
			require.NoError(t, err)
			return st
		},
		"memory": func(*testing.T) *session.Store { return session.OpenDriver(memdriver.New(nil), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			sessiontestsuite.RunServiceTests(t, sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}, func(t *testing.T) adk.Service {
				st := open(t)
				t.Cleanup(func() { require.NoError(t, st.Close()) })
				return adkstore.New(st)
			})
		})
	}
}
