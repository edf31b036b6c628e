package exchange_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A very long line is copied a bounded number of times on its way into a store:
// it was 120 times, when texts grew step by step.
func TestImportLongLine(t *testing.T) {
	storetest.SkipRace(t)
	const size, most = 17 << 20, 48 // a source over 16 MiB is lost
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

// The source has let go of a long record when its entries are written.
func TestImportLetsGo(t *testing.T) {
	source := longSource{at: new(int)}
	var at []int
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
		if e.Kind == session.EventAppendStart {
			at = append(at, *source.at)
		}
		return ctx
	}})
	_, err := exchange.Import(t.Context(), st, slices.Values([]longSource{source}), nil)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2, 3}, at)
}

// A longSource yields three long records. At is the number of the last one in this loop, 3
// after the end.
type longSource struct{ at *int }

func (longSource) Info() dialect.Session { return dialect.Session{Dialect: "long", ID: "l"} }

func (l longSource) Records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for *l.at = 0; *l.at < 3; *l.at++ {
			at, id := time.Date(2026, 1, 2, 3, 4, *l.at, 0, time.UTC), fmt.Sprint("e", *l.at)
			entries, err := transcript.NewBatch(at, func() string { return id }, transcript.UserText(strings.Repeat(id, 1<<20)))
			if !yield(transcript.Record{Entry: entries[0]}, err) {
				return
			}
		}
	}
}

func claudeUser(uuid string) string {
	return `{"uuid":"` + uuid + `","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"go"},"timestamp":"2026-03-01T09:00:00Z"}` + "\n"
}
