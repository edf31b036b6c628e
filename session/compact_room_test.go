package session_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Where a provider says that a prompt is too long and not how long it may be,
// what is kept by default may be nearly all of it: then half of it has to go.
func TestCompactForUnknownRoom(t *testing.T) {
	for _, turns := range []int{14, 22, 26, 60} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := load(t, st, cli)
		for i := range turns {
			add(t, s, transcript.UserText(fmt.Sprintf("question %d", i)), answer(lines(90)))
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
		closed(t, st)
	}
}
