package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// An answer to entries that a rewind has taken back is refused, whoever rewinds
// and whenever; a retry of one that was written before is not.
func TestAnswerToRewoundEntries(t *testing.T) {
	dir := t.TempDir()
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	files, err := filedriver.Open(dir, &filedriver.Options{})
	require.NoError(t, err)
	hooked := &lateDriver{Driver: files}
	st := session.OpenDriver(hooked, nil)
	defer storetest.Close(t, st)
	s, s2 := storetest.Load(t, st, storetest.CLI), storetest.Load(t, other, storetest.CLI)

	first := storetest.Add(t, s, transcript.UserText("one"))[0]
	answerTo := func(after, text string) transcript.Response {
		return transcript.Response{Message: transcript.AssistantText(text), Made: transcript.Made{After: after}}
	}
	resp := answerTo(first, "first")
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "a"}, resp)
	require.NoError(t, err)
	second := storetest.Add(t, s, transcript.UserText("two"))[0]

	// The rewind comes right before the append.
	hooked.before = func([]driver.Line) {
		hooked.before = nil
		storetest.Add(t, s2, transcript.Rewind{To: first})
	}
	_, err = s.Append(t.Context(), answerTo(second, "late"))
	require.ErrorIs(t, err, session.ErrConflict)
	require.NotContains(t, storetest.History(t, s), "late")

	// Another rewind in between does not make Append refuse an answer.
	hooked.before = func([]driver.Line) {
		hooked.before = nil
		storetest.Add(t, s2, transcript.Rewind{To: second}) // it is in force again
	}
	storetest.Add(t, s, answerTo(first, "to the first"))
	storetest.Add(t, s, answerTo(second, "to the second"))

	storetest.Add(t, s, transcript.Rewind{To: second})
	again, err := s.AppendIf(t.Context(), session.Cond{Idem: "a"}, resp)
	require.NoError(t, err)
	require.Equal(t, done.IDs, again.IDs)
	require.True(t, again.Repeated)

	head := storetest.Add(t, s, transcript.UserText("three"))[0]
	storetest.Add(t, s, transcript.Rewind{To: first})
	_, err = s.AppendIf(t.Context(), session.Cond{Idem: "b"}, answerTo(head, "x"))
	require.ErrorIs(t, err, session.ErrConflict)
	storetest.Add(t, s, answerTo("no such ID", "to the unknown"))
}
