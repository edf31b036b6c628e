package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// learnedOf returns the findings of a session with calibrations, whose last answer is of
// a model.
func learnedOf(t *testing.T, answered, called string, all ...transcript.Calibration) replay.Learned {
	t.Helper()
	x := textOf(t)
	for _, c := range all {
		x.add("", x.entry("c", c))
	}
	x.write("u user x")
	if answered != "" {
		x.write("a answer " + answered + " . y")
	}
	return x.begin(true).Learned(called)
}

// Learned figures count if they are of the model in use, or of requests without a name.
func TestLearnedTrigger(t *testing.T) {
	own := transcript.Calibration{Model: "m", Window: 1000, Factor: 2}
	dated := transcript.Calibration{Model: "m-2026", Window: 3000}
	other := transcript.Calibration{Model: "other", Window: 50, Factor: 10}
	plain := transcript.Calibration{Window: 800}
	for name, test := range map[string]struct {
		answered, called string
		all              []transcript.Calibration
		trigger          compact.Trigger
		want             compact.Trigger
	}{
		"nothing learned":    {"m", "", nil, compact.Trigger{Window: 9000, Threshold: 500}, compact.Trigger{Window: 9000, Threshold: 500}},
		"nothing known":      {"m", "", nil, compact.Trigger{}, compact.Trigger{}},
		"of the answer":      {"m", "", []transcript.Calibration{own, other}, compact.Trigger{Window: 9000, Threshold: 500}, compact.Trigger{Window: 500, Threshold: 250}},
		"a smaller window":   {"m", "", []transcript.Calibration{own}, compact.Trigger{Window: 600}, compact.Trigger{Window: 300}},
		"of the call":        {"m", "other", []transcript.Calibration{other, own}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 5}},
		"of a dated answer":  {"m-20261120", "", []transcript.Calibration{own, other}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 500}},
		"a build number":     {"m@001", "", []transcript.Calibration{own}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 500}},
		"a day":              {"m-2026-11-20", "", []transcript.Calibration{own}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 500}},
		"a longer name":      {"m-large", "", []transcript.Calibration{own}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 9000}},
		"the whole name":     {"m-2026", "", []transcript.Calibration{dated, own}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 3000}},
		"without a name":     {"m", "", []transcript.Calibration{plain}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 800}},
		"a name counts more": {"m", "", []transcript.Calibration{own, plain}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 500}},
		"no model":           {"", "", []transcript.Calibration{other, plain}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 800}},
		"a wrong window":     {"m", "", []transcript.Calibration{own, {Model: "m", Window: -1}}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 4500}},
		"of the summarizer": {
			"m", "", []transcript.Calibration{{Model: "m", Failures: 1}, own}, compact.Trigger{Window: 9000}, compact.Trigger{Window: 500},
		},
		"windows by name": {
			"m", "", nil, compact.Trigger{Window: 9000, Windows: map[string]int{"m": 700, "other": 10}}, compact.Trigger{Window: 700},
		},
		"windows by dated name": {
			"m-2026", "", nil, compact.Trigger{Window: 9000, Windows: map[string]int{"m": 700, "m-2026": 600}}, compact.Trigger{Window: 600},
		},
		"windows of others": {
			"m", "", nil, compact.Trigger{Window: 9000, Windows: map[string]int{"other": 10, "": 20}}, compact.Trigger{Window: 9000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := learnedOf(t, test.answered, test.called, test.all...).Trigger(test.trigger)
			require.Equal(t, test.want, got)
		})
	}
}

func TestLearnedDue(t *testing.T) {
	limit := compact.Trigger{Threshold: 100}
	l := learnedOf(t, "m", "", transcript.Calibration{Model: "m", Factor: 2})
	require.False(t, l.Due(limit, 100))
	require.True(t, l.Due(limit, 101))
	require.False(t, l.Due(compact.Trigger{}, 1<<40), "no limit")
	l.Cleared = 20 // 10 of the estimate
	require.False(t, l.Due(limit, 110))
	require.True(t, l.Due(limit, 111))

	require.Equal(t, 20, l.Fifth(limit, 0)*2, "of the limit in tokens of the estimate")
	require.Equal(t, 6, l.Fifth(limit, 60))
	require.Equal(t, 10, l.Fifth(compact.Trigger{Window: 100}, 900))
	require.Equal(t, 6, learnedOf(t, "m", "", transcript.Calibration{Model: "m", Window: 30}).Fifth(limit, 0))

	require.False(t, l.TooSoon(5, 10), "nothing compacted")
	l.Compacted = 50
	require.True(t, l.TooSoon(59, 10))
	require.False(t, l.TooSoon(60, 10))
}

func TestLearnedFailures(t *testing.T) {
	failed := func(n, at int) replay.Learned {
		return learnedOf(t, "m", "", transcript.Calibration{Model: "m", Failures: n, FailedAt: at}, transcript.Calibration{Model: "x", Failures: 1, FailedAt: 7})
	}
	require.False(t, failed(2, 100).Cooling(100, 10))
	require.True(t, failed(3, 100).Cooling(109, 10))
	require.False(t, failed(3, 100).Cooling(110, 10))
	require.True(t, failed(3, 100).Cooling(91, 10))
	require.False(t, failed(3, 100).Cooling(90, 10))
	require.True(t, failed(3, 100).Cooling(100, 0))
	require.False(t, failed(3, 100).Cooling(101, 0))
	for n, broken := range map[int]bool{0: false, 2: false, 3: true, 7: true, 8: false, 9: true, 16: false} {
		require.Equal(t, broken, failed(n, 100).Broken(), n)
	}
}

func TestSmallest(t *testing.T) {
	require.Zero(t, replay.Smallest())
	require.Zero(t, replay.Smallest(0, -5))
	require.Equal(t, 3, replay.Smallest(0, 7, 3, -1, 5))
}

// A compaction keeps windows and factors, and the refused parts of entries that it keeps.
// Failures stay if its own calibration counts them.
func TestCarried(t *testing.T) {
	all := []transcript.Calibration{
		{Model: "m", Window: 1000, Factor: 2, Prompt: 5, Failures: 4, FailedAt: 90, Without: []transcript.Form{"images"}, Images: 3, Side: 4, Messages: 5},
		{Model: "n", Left: []transcript.BlockRef{{Entry: "u1"}, {Entry: "u2"}}, Unread: "u1"},
		{Model: "o", Left: []transcript.BlockRef{{Entry: "u1"}}, Unread: "u2"},
		{Model: "p", Images: 3},
	}
	for _, failures := range []int{0, 2} {
		x := textOf(t, "u1 user x", "u2 user y z")
		for _, c := range all {
			x.add("", x.entry("c", c))
		}
		done := transcript.Compaction{Summary: "summary", FirstKept: "u2", CoversTo: "u1"}
		if failures > 0 {
			done.Standing = []transcript.Entry{{Body: transcript.Calibration{Failures: failures}}, {Body: transcript.Calibration{Failures: 1}}}
		}
		_, c, err := x.begin(true).Complete([]transcript.Item{done})
		require.NoError(t, err)
		var got []transcript.Body
		for _, e := range c.Standing {
			got = append(got, e.Body)
		}
		first := transcript.Calibration{Model: "m", Window: 1000, Factor: 2, Prompt: 5}
		if failures > 0 {
			first.Failures, first.FailedAt = failures, c.TokensAfter
			require.NotZero(t, c.TokensAfter)
		}
		require.Equal(t, []transcript.Body{
			first,
			transcript.Calibration{Model: "n", Left: []transcript.BlockRef{{Entry: "u2"}}},
			transcript.Calibration{Model: "o", Unread: "u2"},
		}, got)
	}
}
