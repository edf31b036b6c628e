package token_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/internal/token"
)

// A link in the place of the token's file is neither written through nor read.
func TestPlantedLink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "id_rsa"), filepath.Join(dir, "store", "server-1933.token")
	require.NoError(t, os.Mkdir(filepath.Dir(link), 0o700))
	require.NoError(t, os.WriteFile(victim, []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(victim, link))
	at, err := url.Parse("http://127.0.0.1:1933")
	require.NoError(t, err)
	require.Empty(t, token.Find(filepath.Dir(link), at))

	made, file, err := token.Leave(filepath.Dir(link), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1933})
	require.NoError(t, err)
	require.Equal(t, link, file)
	require.Equal(t, made, token.Find(filepath.Dir(link), at))
	data, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
}
