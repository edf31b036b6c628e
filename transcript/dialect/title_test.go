package dialect_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

// A title and labels that a session was created with are its own, until a later
// line gives others, and the indexes of other programs list them.
func TestTitleOfHeader(t *testing.T) {
	const (
		header  = `{"type":"session","v":1,"id":"s1","ts":"2026-03-01T09:00:00Z","key":"main:cli:ana","gen":1,"created":"2026-03-01T09:00:00Z","title":"my-project","labels":["a"]}` + "\n"
		user    = `{"type":"user","id":"u1","ts":"2026-03-01T09:00:01Z","content":"Tell me about generators"}` + "\n"
		renamed = `{"type":"meta","id":"m1","ts":"2026-03-01T09:00:02Z","title":"another"}` + "\n"
	)
	for data, want := range map[string]string{header + user: "my-project", header + user + renamed: "another"} {
		folder, err := dialect.ReadFolder(fstest.MapFS{"agents/main/sessions/s1.jsonl": {Data: []byte(data)}})
		require.NoError(t, err)
		for s := range folder.Sessions() {
			require.Equal(t, want, s.Title)
			require.True(t, s.Titled)
			require.Equal(t, []string{"a"}, s.Labels)
		}
		for _, d := range []dialect.Dialect{dialect.Claw0, dialect.ZyHive} {
			files, _ := write(t, d, folder.Sessions(), entriesOf)
			back, err := dialect.ReadFolder(files)
			require.NoError(t, err)
			n := 0
			for s := range back.Sessions() {
				n++
				require.Equal(t, want, s.Title, d)
			}
			require.Equal(t, 1, n)
		}
	}
}
