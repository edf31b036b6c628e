package rebuild_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Calibrations are merged by field, by model and by endpoint. They survive a rewind, and a
// compaction drops all of them except those in its own batch.
func TestCalibrations(t *testing.T) {
	f, n := rebuild.New(nil), 0
	add := func(items ...transcript.Item) {
		t.Helper()
		entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { n++; return fmt.Sprint("e", n) }, items...)
		if err == nil {
			err = f.Add(transcript.Batch{Entries: entries, Complete: true})
		}
		require.NoError(t, err)
	}
	check := func(want ...transcript.Calibration) {
		t.Helper()
		require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", f.Standing().Calibrations))
	}
	check()
	add(transcript.UserText("hi"))
	add(transcript.Calibration{Model: "a", Window: 1000, Factor: 1.5, Prompt: 700})
	add(transcript.Calibration{Model: "b", Failures: 2, FailedAt: 50})
	add(transcript.Calibration{Model: "a", Window: 900})
	a, b := transcript.Calibration{Model: "a", Window: 900, Factor: 1.5, Prompt: 700}, transcript.Calibration{Model: "b", Failures: 2, FailedAt: 50}
	check(b, a)
	add(transcript.Calibration{Model: "b", Factor: 2})
	b.Factor = 2
	check(a, b)
	add(transcript.Calibration{Model: "a", Factor: 1.25})
	a.Factor, a.Prompt = 1.25, 0
	check(b, a)
	images := []transcript.Form{transcript.Images}
	add(transcript.Calibration{Model: "a", Endpoint: "x", Without: images})
	add(transcript.Calibration{Model: "a", Endpoint: "x", Left: []transcript.BlockRef{{Entry: "e1"}}, Unread: "e1"})
	add(transcript.Calibration{Model: "a", Endpoint: "x", Left: []transcript.BlockRef{{Entry: "e2"}, {Entry: "e1"}}})
	check(b, a, transcript.Calibration{Model: "a", Endpoint: "x", Without: images, Left: []transcript.BlockRef{{Entry: "e1"}, {Entry: "e2"}}, Unread: "e1"})
	add(transcript.Calibration{Model: "a", Endpoint: "x", Without: []transcript.Form{}, Left: []transcript.BlockRef{}})
	check(b, a, transcript.Calibration{Model: "a", Endpoint: "x", Unread: "e1"})
	add(transcript.Rewind{To: "e1"})
	check(b, a, transcript.Calibration{Model: "a", Endpoint: "x", Unread: "e1"})
	add(transcript.Compaction{Summary: "s", CoversTo: "e1", Standing: []transcript.Entry{{Body: b}, {Body: a}}})
	check(b, a)
	add(transcript.Compaction{Summary: "s", CoversTo: "e1", TokensAfter: 77, Standing: []transcript.Entry{{Body: a}}})
	check(a)
	require.Equal(t, 77, f.Standing().Compacted)
	entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { n++; return fmt.Sprint("e", n) },
		transcript.Compaction{Summary: "s", CoversTo: "e1", TokensAfter: 66, Standing: []transcript.Entry{{Body: a}}}, transcript.UserText("b"))
	require.NoError(t, err)
	require.NoError(t, f.Add(transcript.Batch{Entries: entries[:1]}))
	check(a) // the batch was cut
	require.Equal(t, 66, f.Standing().Compacted)
	add(transcript.Compaction{Summary: "s", CoversTo: "e1"})
	check()
}
