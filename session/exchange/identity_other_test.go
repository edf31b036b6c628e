package exchange_test

import (
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A textSource holds user messages. It calls read at the end of each reading.
type textSource struct {
	info  dialect.Session
	texts []string
	read  func()
}

func (s textSource) Info() dialect.Session { return s.info }

func (s textSource) Records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for i, text := range s.texts {
			entries, err := transcript.NewBatch(time.Unix(int64(i), 0), func() string { return "e" + strconv.Itoa(i) }, transcript.UserText(text))
			for _, e := range entries {
				if !yield(transcript.Record{Entry: e}, err) {
					return
				}
			}
		}
		if s.read != nil {
			s.read()
		}
	}
}

// textsIn returns the texts of a session.
func textsIn(t *testing.T, st *session.Store, ref session.Ref) (texts []string) {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if m, ok := e.Body.(transcript.MessageLine); ok {
			texts = append(texts, m.Message().Text())
		}
	}
	return texts
}

// Sources of one ID and of two owners become two sessions, again and again.
func TestImportOfTwoOwners(t *testing.T) {
	st := inMemory()
	want := map[string][]string{"ann": {"hello", "ann's"}, "bob": {"hello", "bob's"}}
	refs := map[string]session.Ref{}
	for round := range 2 {
		for owner, texts := range want {
			source := textSource{info: dialect.Session{Dialect: "app", ID: "chat", Owner: owner}, texts: texts}
			report, err := exchange.Import(t.Context(), st, slices.Values([]textSource{source}), nil)
			require.NoError(t, err)
			require.Equal(t, round == 0, report[0].Created)
			if round == 0 {
				refs[owner] = report[0].Session
			}
			require.Equal(t, refs[owner], report[0].Session)
			require.Equal(t, texts, textsIn(t, st, report[0].Session))
		}
	}
}

// While a source is compared, a source of another program takes its ID.
func TestImportWhileTheIDIsTaken(t *testing.T) {
	st := inMemory()
	theirs := textSource{info: dialect.Session{Dialect: "other", ID: "same"}, texts: []string{"theirs 1", "theirs 2"}}
	mine := textSource{info: dialect.Session{Dialect: "app", ID: "same"}, texts: []string{"mine 1", "mine 2"}}
	done := false
	mine.read = func() {
		if !done {
			done = true
			_, err := exchange.Import(t.Context(), st, slices.Values([]textSource{theirs}), nil)
			require.NoError(t, err)
		}
	}
	report, err := exchange.Import(t.Context(), st, slices.Values([]textSource{mine}), nil)
	require.NoError(t, err)
	require.Equal(t, mine.texts, textsIn(t, st, report[0].Session))
	require.Equal(t, theirs.texts, textsIn(t, st, session.Ref{Agent: "main", ID: "same"}))
}

// Files of one ID and of different keys are imported one by one, and again.
func TestImportOneByOne(t *testing.T) {
	st := inMemory()
	for range 2 {
		for _, key := range []string{"a", "b"} {
			source := textSource{info: dialect.Session{Dialect: dialect.MiniClaw, ID: "sss111", Key: "main:cli:" + key}, texts: []string{"of " + key}}
			report, err := exchange.Import(t.Context(), st, slices.Values([]textSource{source}), nil)
			require.NoError(t, err)
			require.Equal(t, source.texts, textsIn(t, st, report[0].Session))
		}
	}
	infos, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, infos, 2)
}
