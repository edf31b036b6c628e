package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
)

// A foreign ID names one session for ever, so its form is fixed.
func TestForeignID(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	made := map[string]string{}
	for text, want := range map[string]string{
		"a-1.b_C":                "a-1.b_C",
		strings.Repeat("x", 128): strings.Repeat("x", 128),
		strings.Repeat("x", 129): "0ec9eb33-e745-80bc-9d1f-2ea55206e82f",
		"":                       "e3b0c442-98fc-8c14-9afb-f4c8996fb924",
		"../etc":                 "",
		"user@example.org/1":     "",
		"汉字":                     "",
		"\xff\x00":               "",
		"-a":                     "",
		"a ":                     "",
	} {
		id := session.ForeignID(text)
		if want != "" {
			require.Equal(t, want, id, "%.20q", text)
		}
		require.Equal(t, id, session.ForeignID(text))
		require.Equal(t, id, session.ForeignID(id), "a valid ID is unchanged")
		require.Empty(t, made[id], "%.20q", text)
		made[id] = "made of " + text
		_ = storetest.Create(t, st, session.Key{}, &session.CreateOptions{ID: id})
	}
	require.NoError(t, st.Close())
}
