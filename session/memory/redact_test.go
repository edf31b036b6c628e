package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/redact"
)

// No secret gets into a file, whether from a person, another program or a model.
func TestRedact(t *testing.T) {
	dir := t.TempDir()
	m := openStore(t, dir, &Options{Redact: redact.Secrets})
	const secret = "Hunter27zebra"
	learn(t, m, newTalk(t, "anna"), candidate(preferences, "password: "+secret, "The password is "+secret, "password="+secret),
		candidate(entities, "db", "The database", "postgres://app:"+secret+"@db/main"))
	mem, err := m.Add(t.Context(), anna, preferences, "login", "The password is "+secret+"\n")
	require.NoError(t, err)
	require.Equal(t, "The password is [masked]", mem.Abstract)
	again, err := m.Add(t.Context(), anna, preferences, "login", "The password is "+secret+"\n")
	require.NoError(t, err)
	require.Equal(t, mem, again)
	require.Len(t, memories(t, m, anna), 3)
	require.Empty(t, filesWith(t, dir, secret))
	require.Empty(t, filesWith(t, dir, "hunter27"))
}
