package exchange_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/transcript/dialect"
)

// A very long line is copied a bounded number of times on its way into a store:
// it was 120 times, when texts grew step by step.
func TestImportLongLine(t *testing.T) {
	storetest.SkipRace(t)
	const size, most = 20 << 20, 48
	var sb strings.Builder
	sb.WriteString(claudeUser("a"))
	sb.WriteString(`{"uuid":"b","parentUuid":"a","sessionId":"s","type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"`)
	sb.WriteString(strings.Repeat(`words, \"quoted\"\n`, size/18))
	sb.WriteString(`"}]},"timestamp":"2026-03-01T09:00:01Z"}` + "\n")
	files := fstest.MapFS{"p/s.jsonl": {Data: []byte(sb.String())}}
	st := open(t, t.TempDir())
	source := sessionsIn(t, files)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	im := importAll(t, st, source, nil)[0]
	runtime.ReadMemStats(&after)
	require.Equal(t, 2, im.Appended)
	require.Equal(t, dialect.Losses{"source": 1}, im.Lost)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(sb.Len()), uint64(most))
	history, _ := importedHistory(t, st, im.Session)
	require.Contains(t, history, `words, \"quoted\"\nwords`)
	require.NoError(t, st.Close())
}

func claudeUser(uuid string) string {
	return `{"uuid":"` + uuid + `","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"go"},"timestamp":"2026-03-01T09:00:00Z"}` + "\n"
}
