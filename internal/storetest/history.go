package storetest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
)

// History is the JSON of what would be sent.
func History(t testing.TB, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	data, err := json.Marshal(h)
	require.NoError(t, err)
	return string(data)
}

// Request is the body of the next request.
func Request(t testing.TB, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "m", System: h.System, Messages: h.Messages})
	require.NoError(t, err)
	return string(body)
}

// CheckRequest renders the next request and validates what a provider would see.
func CheckRequest(t testing.TB, s *session.Session) {
	t.Helper()
	var req transcript.Request
	require.NoError(t, json.Unmarshal([]byte(Request(t, s)), &req))
	if v := wiretest.Validate(req); len(v) > 0 {
		t.Fatalf("the next request is not valid: %v", v)
	}
}

// CheckSound checks that a session loads, that its history is one that the fold does not
// change, and that it goes on.
func CheckSound(t *testing.T, st *session.Store, ref session.Ref) {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	Add(t, s, transcript.AssistantText("Yes."), transcript.UserText("Go on."))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Empty(t, wiretest.Validate(transcript.Request{Messages: h.Messages}))
	full, err := exchange.FullHistory(t.Context(), s)
	require.NoError(t, err)
	require.Empty(t, wiretest.Validate(transcript.Request{Messages: full.Messages}))
	health, err := s.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, health.Damage)
}

// WholeFold folds all records of a session, from the first on.
func WholeFold(t testing.TB, s *session.Session, form rebuild.SummaryForm) *rebuild.Fold {
	t.Helper()
	f := rebuild.New(&rebuild.Options{Summary: form})
	var batcher transcript.Batcher
	feed := func(batches []transcript.Batch) {
		for _, b := range batches {
			require.NoError(t, f.Add(b))
		}
	}
	for rec, err := range s.Records(t.Context()) {
		require.NoError(t, err)
		feed(batcher.Take(rec))
	}
	feed(batcher.Break())
	return f
}
