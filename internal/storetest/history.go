package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// History returns the history for the next request as JSON.
func History(t testing.TB, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	data, err := json.Marshal(h)
	require.NoError(t, err)
	return string(data)
}

// Request returns the body of the next request.
func Request(t testing.TB, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "m", System: h.System, Messages: h.Messages})
	require.NoError(t, err)
	return string(body)
}

// CheckRequest renders the next request and validates it like a provider.
func CheckRequest(t testing.TB, s *session.Session) {
	t.Helper()
	var req transcript.Request
	require.NoError(t, json.Unmarshal([]byte(Request(t, s)), &req))
	if v := wiretest.Validate(req); len(v) > 0 {
		t.Fatalf("the next request is not valid: %v", v)
	}
}

// CheckSound appends two messages to a session. It checks that the history and the full
// history are valid, and that the session is not damaged.
func CheckSound(t *testing.T, st *session.Store, ref session.Ref) {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	Add(t, s, transcript.AssistantText("Yes."), transcript.UserText("Go on."))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Empty(t, wiretest.Validate(transcript.Request{Messages: h.Messages}))
	require.Empty(t, wiretest.Validate(transcript.Request{Messages: FullHistory(t, s).Messages}))
	health, err := s.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, health.Damage)
}

// FullHistory returns the history without compactions and clips.
func FullHistory(t testing.TB, s *session.Session) rebuild.History {
	t.Helper()
	h := foldAll(t, s, &rebuild.Options{Full: true}).History()
	require.NoError(t, s.FilterModel(t.Context(), &h))
	return h
}

// WholeFold folds all records of a session from the first one.
func WholeFold(t testing.TB, s *session.Session, form rebuild.SummaryForm) *rebuild.Fold {
	t.Helper()
	return foldAll(t, s, &rebuild.Options{Summary: form})
}

// CompareWithWhole compares a session with the fold of all its records, and returns the
// fold.
func CompareWithWhole(t testing.TB, where string, s *session.Session, form rebuild.SummaryForm) *rebuild.Fold {
	t.Helper()
	whole := WholeFold(t, s, form)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	standing, now := whole.Standing(), Standing(t, s)
	got := fmt.Sprint(JSON(t, h), Info(t, s).Turns, JSON(t, p), now.Pins, JSON(t, now.Values))
	want := fmt.Sprint(JSON(t, whole.History()), whole.Turns(), JSON(t, whole.Pending()), standing.Pins, JSON(t, standing.Values))
	require.Equal(t, want, got, where)
	return whole
}

// Standing returns the pins, values and other state in force.
func Standing(t testing.TB, s *session.Session) (standing rebuild.Standing) {
	t.Helper()
	require.NoError(t, s.View(t.Context(), func(v *session.View) error {
		standing = v.Fold().Standing()
		return nil
	}))
	return standing
}

// Undo takes back the last turns of the present conversation.
func Undo(t testing.TB, s *session.Session, turns int) {
	t.Helper()
	_, err := s.Update(t.Context(), "undo", func(v *session.View) ([]transcript.Item, error) {
		to, err := v.Fold().BeforeTurn(turns)
		return []transcript.Item{transcript.Rewind{To: to}}, err
	})
	require.NoError(t, err)
}

func foldAll(t testing.TB, s *session.Session, opts *rebuild.Options) *rebuild.Fold {
	t.Helper()
	f := rebuild.New(opts)
	var batcher transcript.Batcher
	feed := func(batches []transcript.Batch) {
		for _, b := range batches {
			require.NoError(t, f.Add(b))
		}
	}
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		if rec.HasEntry() && f.Repeats(rec.Entry) {
			continue
		}
		feed(batcher.Take(rec))
	}
	feed(batcher.Break())
	return f
}
