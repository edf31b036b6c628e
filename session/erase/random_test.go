package erase_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// unique are the words of a [wood].
var unique = regexp.MustCompile(`w[0-9]+x`)

// A wood is a store of sessions and of forks of them. Every text has a word of its own,
// and summaries repeat the words that they have read.
type wood struct {
	*testing.T
	rnd  *rand.Rand
	st   *session.Store
	all  []*session.Session
	told map[string]string // word -> entry
	own  map[session.Ref][]string
	word int

	compactions int
}

func (w *wood) say(s *session.Session) {
	for range 1 + w.rnd.IntN(3) {
		w.word++
		word := fmt.Sprintf("w%dx", w.word)
		id := storetest.Add(w.T, s, transcript.UserText(word), transcript.AssistantText(strings.Repeat("and more ", 200)))[0]
		w.told[word] = id
		w.own[s.Ref()] = append(w.own[s.Ref()], word)
		if w.rnd.IntN(4) == 0 {
			require.NoError(w, turn.Pin(w.Context(), s, id))
		}
	}
}

// grow changes a random session.
func (w *wood) grow() {
	s := w.all[w.rnd.IntN(len(w.all))]
	switch w.rnd.IntN(6) {
	case 0:
		read := func(_ context.Context, in compact.Input) (string, error) {
			words := unique.FindAllString(storetest.JSON(w.T, in.Messages), -1)
			return storetest.WholeSummary + strings.Join(words, " "), nil
		}
		done, err := s.Compact(w.Context(), &compact.Options{Keep: compact.Keep{Turns: 1 + w.rnd.IntN(2)}, Summarizer: compact.SummarizerFunc(read)})
		if err == nil && done.Entry != "" { // else it is too short
			w.compactions++
		}
	case 1, 2, 3:
		ids := storetest.EntryIDs(w.T, s)
		fork, err := s.Fork(w.Context(), ids[w.rnd.IntN(len(ids))], nil)
		require.NoError(w, err)
		w.all = append(w.all, fork)
		w.say(fork)
	case 4:
		if len(w.all) > 2 {
			require.NoError(w, w.st.Delete(w.Context(), s.Ref()))
			w.remove(s)
		}
	default:
		w.say(s)
	}
}

func (w *wood) remove(s *session.Session) {
	for i, other := range w.all {
		if other == s {
			w.all = append(w.all[:i], w.all[i+1:]...)
			return
		}
	}
}

func (w *wood) descends(ref, base session.Ref) bool {
	s, err := w.st.Get(w.Context(), ref)
	require.NoError(w, err)
	return slices.ContainsFunc(storetest.Info(w.T, s).Descent, func(l transcript.Link) bool { return l.Session == base.ID })
}

// texts returns the sessions that have the words of texts, apart from summaries.
func (w *wood) texts() map[string]map[session.Ref]bool {
	found := map[string]map[session.Ref]bool{}
	for _, s := range w.all {
		for _, e := range storetest.Entries(w.T, s) {
			if e.Type() != transcript.TypeUser {
				continue
			}
			for _, word := range unique.FindAllString(string(e.Line()), -1) {
				if found[word] == nil {
					found[word] = map[session.Ref]bool{}
				}
				found[word][s.Ref()] = true
			}
		}
	}
	return found
}

// An entry, or a session, that is erased anywhere in a wood leaves no word of it there, and
// all other texts stay.
func TestEraseInForks(t *testing.T) {
	t.Parallel()
	compactions := 0
	for seed := range uint64(storetest.Extent(*storetest.Faults, 40, 300, 3000)) {
		w := &wood{T: t, rnd: rand.New(rand.NewPCG(seed, 1)), told: map[string]string{}, own: map[session.Ref][]string{}}
		w.st = session.OpenDriver(memdriver.New(nil), &session.Options{Summary: rebuild.SummaryForm(0)})
		w.all = []*session.Session{storetest.Load(t, w.st, storetest.CLI)}
		w.say(w.all[0])
		for range 12 + w.rnd.IntN(12) {
			w.grow()
		}
		s, before := w.all[w.rnd.IntN(len(w.all))], w.texts()
		what, gone, whole := erase.Erasure{}, w.own[s.Ref()], w.rnd.IntN(3) == 0
		if whole {
			what.Sessions = []session.Ref{s.Ref()}
		} else {
			var words []string
			for word := range before {
				if before[word][s.Ref()] {
					words = append(words, word)
				}
			}
			slices.Sort(words)
			if len(words) == 0 {
				continue
			}
			gone = []string{words[w.rnd.IntN(len(words))]}
			what = chosen(s, w.told[gone[0]])
		}
		erased(t, w.st, what)
		if whole {
			require.ErrorIs(t, storetest.ErrOf(w.st.Get(t.Context(), s.Ref())), fs.ErrNotExist)
			w.remove(s)
		}
		for _, other := range w.all {
			lines := strings.Join(storetest.Lines(t, other), "\n")
			for _, word := range gone {
				require.NotContains(t, unique.FindAllString(lines, -1), word, "seed %d", seed)
			}
			storetest.CheckSound(t, w.st, other.Ref())
		}
		after := w.texts()
		for word, there := range before {
			if slices.Contains(gone, word) {
				continue
			}
			if whole && there[s.Ref()] { // forks of it lose what they have copied from it
				maps.DeleteFunc(there, func(ref session.Ref, _ bool) bool { return ref == s.Ref() || w.descends(ref, s.Ref()) })
				if len(there) == 0 {
					continue
				}
			}
			require.Equal(t, there, after[word], "seed %d, %s", seed, word)
		}
		compactions += w.compactions
		storetest.Close(t, w.st)
	}
	t.Log(compactions, "compactions")
}
