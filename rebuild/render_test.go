package rebuild_test

import (
	"encoding/json"
	"testing"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// checkRendered renders a history that ends with a user message, with thinking
// off and on, for the model that made it and for another one, and lets the
// referee judge the requests.
func checkRendered(t testing.TB, h rebuild.History) {
	t.Helper()
	for _, format := range []anthropic.Format{{}, {Thinking: json.RawMessage(`{"type":"enabled","budget_tokens":1024}`)}} {
		for _, model := range []string{"m", "other"} {
			body, _, err := format.Request(transcript.Request{Model: model, System: h.System, Messages: h.Messages})
			if err != nil {
				t.Fatalf("cannot render: %v\n%s", err, mustJSON(h))
			}
			var req transcript.Request
			if err := json.Unmarshal(body, &req); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			if v := wiretest.Validate(req); len(v) > 0 {
				t.Fatalf("not valid: %v\n%s\nof the history\n%s", v, body, mustJSON(h))
			}
		}
	}
}
