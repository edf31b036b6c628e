package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// If a provider reports that a prompt is too long, but not how long it may be,
// the default may keep nearly all of it: then half of it has to go.
func TestCompactForUnknownRoom(t *testing.T) {
	for _, turns := range []int{14, 22, 26, 60} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		for i := range turns {
			storetest.Add(t, s, transcript.UserText(fmt.Sprintf("question %d", i)), storetest.Answer(lines(90)))
		}
		size := func() int {
			h, err := s.History(t.Context())
			require.NoError(t, err)
			return tokens.Estimator{}.Count(h.System, nil, h.Messages)
		}
		before := size()
		changed, err := s.CompactFor(t.Context(), guard.Need{})
		require.NoError(t, err)
		if after := size(); !changed || after > before*3/4 {
			t.Errorf("%d turns: %d tokens became %d (changed: %v)", turns, before, after, changed)
		}
		storetest.Close(t, st)
	}
}

// Pinned texts take a part of the room of a compaction.
func TestRoomForPins(t *testing.T) {
	s := storetest.Load(t, storetest.Open(t, t.TempDir(), nil), storetest.CLI)
	storetest.Talk(t, s, 0, 30)
	text := strings.Repeat("a word ", 300)
	id := storetest.Add(t, s, transcript.UserText(text), storetest.Answer("ok"))[0]
	storetest.Add(t, s, transcript.Pin{Entry: id, Text: text})
	storetest.Talk(t, s, 30, 30)
	opts := &compact.Options{Room: 1_200}
	done, err := s.Compact(t.Context(), opts)
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	require.Len(t, done.Compaction.Pins, 1)
	require.LessOrEqual(t, done.Compaction.TokensAfter, opts.Room)
}
