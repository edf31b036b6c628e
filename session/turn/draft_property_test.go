package turn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// drafting is a session and what it must contain.
type drafting struct {
	t     *testing.T
	r     *rand.Rand
	dir   string
	st    *session.Store
	s     *session.Session
	turn  *turn.Turn
	draft *turn.Draft // of the turn, nil for none
	made  transcript.Made
	asked string // the last text of the user, unless it was rewound
	words int
	log   []string

	said   []string // words of answers in the history
	open   string   // the text of the open draft
	opened *turn.Draft
	gone   bool // its request was rewound
}

func (d *drafting) word() string {
	d.words++
	return fmt.Sprintf("w%d%s ", d.words, strings.Repeat("x", 2000*d.r.IntN(2)))
}

// say takes the text of an answer, which ends the open draft.
func (d *drafting) say(text string) {
	d.said = append(d.said, strings.Fields(text)...)
	d.open, d.opened = "", nil
}

func (d *drafting) begin() {
	d.turn, d.draft = begin(d.t, d.s), nil
	if d.gone {
		d.open = ""
	}
	d.say(d.open)
	d.gone = false
}

func (d *drafting) restart() {
	d.st = storetest.Open(d.t, d.dir, nil)
	d.s = storetest.Load(d.t, d.st, storetest.CLI)
	d.begin()
}

func (d *drafting) step() {
	ctx, t, n := d.t.Context(), d.t, d.r.IntN(13)
	d.log = append(d.log, fmt.Sprint(n))
	switch {
	case n == 0:
		d.asked = storetest.Add(t, d.s, transcript.UserText(d.word()))[0]
	case n == 1:
		d.made = transcript.Made{}
		if d.r.IntN(2) == 0 {
			d.made.After = d.asked
		}
		d.draft = d.turn.Draft("anthropic", "m", d.made)
	case n <= 5 && d.draft != nil:
		text := d.word()
		require.NoError(t, d.draft.Write(ctx, text))
		require.NoError(t, d.draft.Flush(ctx))
		if d.opened != d.draft {
			d.open, d.opened = "", d.draft
		}
		d.open += text
	case n == 6 && d.draft != nil && !d.gone:
		text := d.word()
		require.NoError(t, storetest.ErrOf(d.draft.Finish(ctx, &transcript.Response{Message: transcript.AssistantText(text), Made: d.made})))
		d.draft = nil
		d.say(text)
	case n == 7 && d.draft != nil:
		require.NoError(t, d.draft.Discard(ctx))
		d.draft, d.open, d.opened = nil, "", nil
	case n == 8:
		text := d.word()
		storetest.Add(t, d.s, storetest.Answer(text))
		if d.draft == d.opened {
			d.draft = nil // it is over
		}
		d.say(text)
	case n == 9:
		require.NoError(t, d.turn.End())
		d.begin()
	case n == 10:
		require.NoError(t, d.turn.End())
		storetest.Close(t, d.st)
		d.restart()
	case n == 11:
		if _, err := d.s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}}); err != nil {
			require.ErrorAs(t, err, new(*compact.Error))
		}
	case n == 12 && d.r.IntN(3) == 0:
		require.NoError(t, d.s.Rewind(ctx, d.s.Ref().ID))
		d.gone = d.opened != nil && d.made.After != ""
		d.said, d.asked = nil, ""
		if d.gone || d.draft != nil && d.made.After != "" {
			d.draft = nil // its answer would be refused
		}
	}
}

func (d *drafting) check() {
	whole := storetest.CompareWithWhole(d.t, strings.Join(d.log, " "), d.s, rebuild.SummaryUser)
	require.Equal(d.t, d.open, whole.Standing().Draft.Text, d.log)
	require.Equal(d.t, d.open, storetest.Standing(d.t, d.s).Draft.Text, d.log)
	var said []string
	for _, m := range storetest.FullHistory(d.t, d.s).Messages {
		if m.Role == transcript.RoleAssistant {
			said = append(said, strings.Fields(m.Text())...)
		}
	}
	slices.Sort(said)
	want := slices.Sorted(slices.Values(d.said))
	require.Equal(d.t, want, said, d.log)
}

// After any sequence of drafts, answers, discards, compactions, rewinds and restarts,
// the history holds the answers, and the texts of drafts that were not replaced when
// their turn ended.
func TestDraftProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storetest.Few(storetest.Extent(*storetest.Soak, 12, 40, 40))) {
		d := &drafting{t: t, r: rand.New(rand.NewPCG(seed, 41)), dir: storetest.Scratch(t), log: []string{fmt.Sprint("seed ", seed)}}
		d.restart()
		for range 60 {
			d.step()
			d.check()
		}
		storetest.Close(t, d.st)
	}
}
