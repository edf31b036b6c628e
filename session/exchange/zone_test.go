package exchange_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/exchange"
)

// Times without a zone are taken in the zone that the caller names, never
// replaced by the time of the import, and the report counts them.
func TestImportZone(t *testing.T) {
	line := func(id, at string) string {
		return `{"id":"` + id + `","role":"user","parts":[{"type":"text","text":"hello"}],"created_at":"` + at + `"}` + "\n"
	}
	files := fstest.MapFS{
		"s1/messages.jsonl": {Data: []byte(line("m1", "2026-11-20T14:00:00.5") + line("m2", "2026-11-20T15:00:00") + line("m3", "2026-11-20T16:00:00Z"))},
		"s1/.meta.json":     {Data: []byte(`{"session_id":"s1","created_at":"2026-11-20T13:00:00"}`)},
	}
	for zone, hour := range map[*time.Location]int{nil: 0, time.FixedZone("", -3600): 1} {
		st := inMemory()
		im := importAll(t, st, sessionsIn(t, files), &exchange.ImportOptions{Zone: zone, Now: func() time.Time { t.Error("asked for the time"); return time.Now() }})[0]
		require.Equal(t, 2, im.Lost["zone"])
		require.Zero(t, im.Lost["time"])
		s, err := st.Get(t.Context(), im.Session)
		require.NoError(t, err)
		info, err := s.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Date(2026, 11, 20, 13+hour, 0, 0, 0, time.UTC), info.CreatedAt)
		require.Equal(t, time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC), info.UpdatedAt)
	}
}
