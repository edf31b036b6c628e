package guard_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
)

// refusalRow is one provider's error with its classification.
type refusalRow struct {
	ID        string
	Status    int    `json:"http_status"`
	Type      string `json:"error_type"`
	Code      string
	Message   string
	Overflow  bool
	Kind      string
	Prompt    int `json:"prompt_tokens"`
	Limit     int
	Output    int `json:"requested_output"`
	Ambiguous bool
}

// want returns the kind that the row's own name for it means.
func (r refusalRow) want() guard.Kind {
	switch {
	case r.Kind == "media", r.Kind == "part":
		return guard.Part
	case r.Kind == string(guard.RateLimit):
		return guard.RateLimit
	case !r.Overflow:
		return guard.NotOverflow
	case r.Kind == "chars":
		return guard.Bytes
	default:
		return guard.Kind(r.Kind)
	}
}

// body returns the JSON that a server would have sent.
func (r refusalRow) body() []byte {
	e := map[string]any{"message": r.Message, "type": r.Type, "code": r.Code}
	if strings.HasPrefix(r.Type, "exceed_context") {
		e["n_prompt_tokens"], e["n_ctx"] = r.Prompt, r.Limit
	}
	data, _ := json.Marshal(map[string]any{"error": e, "input": "context_length_exceeded: prompt is too long"})
	return data
}

// Every row of the errors that were seen in the wild is classified
// by its message alone, by its parts, and as the text of a wrapped error.
func TestClassifyCorpus(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "observed.jsonl"))
	require.NoError(t, err)
	// The one error that has no words at all: see [guard.EmptyBody].
	byMessage := map[string]bool{"p034": false}
	byParts := byMessage

	rows := bufio.NewScanner(bytes.NewReader(data))
	rows.Buffer(nil, 1<<20)
	n := 0
	for rows.Scan() {
		var r refusalRow
		require.NoError(t, json.Unmarshal(rows.Bytes(), &r))
		n++
		t.Run(r.ID, func(t *testing.T) {
			_, hidden := byMessage[r.ID]
			checkRow(t, r, "message", guard.Classify(errors.New(r.Message)), hidden, false)
			_, hidden = byParts[r.ID]
			checkRow(t, r, "parts", guard.Classify(parts{r.Status, r.Type, r.Code, r.Message}), hidden, false)
			checkRow(t, r, "body", guard.Classify(parts{Status: r.Status, Message: string(r.body())}), hidden, true)
			text := fmt.Errorf("model call: %w", fmt.Errorf(`POST "https://api.example/v1/rate-limit/context": %s %s`, strconv.Itoa(r.Status), r.body()))
			checkRow(t, r, "text", guard.Classify(text), hidden, true)
		})
	}
	require.NotZero(t, n, "the corpus is empty")
}

func checkRow(t *testing.T, r refusalRow, how string, got guard.Overflow, unknown, body bool) {
	t.Helper()
	want := r.want()
	if unknown {
		want = guard.NotOverflow
	}
	t.Logf("%-7s %q: %q %d/%d/%d %v", how, got.Rule, got.Kind, got.Prompt, got.Limit, got.Output, got.AtLeast)
	if got.Kind != want {
		t.Errorf("%s: kind %q, want %q (rule %q): %s", how, got.Kind, want, got.Rule, r.Message)
	}
	if got.Kind.IsOverflow() != (r.Overflow && !unknown) {
		t.Errorf("%s: IsOverflow() = %v", how, got.Kind.IsOverflow())
	}
	if got.Kind != guard.Tokens && got.Kind != guard.TokensPlusOutput && got.Kind != guard.RateLimit || r.Ambiguous {
		return
	}
	prompt, limit := r.Prompt, r.Limit
	text := strings.NewReplacer(",", "", "k tokens", "000 tokens").Replace(r.Message)
	if !body && !strings.Contains(text, strconv.Itoa(prompt)) && !strings.Contains(r.Message, "functions") && !strings.Contains(r.Message, "tool input") {
		prompt, limit = 0, 0 // in fields of the body
		if strings.Contains(text, strconv.Itoa(r.Limit)) {
			limit = r.Limit
		}
	}
	if got.Prompt != prompt || got.Limit != limit || got.Output != r.Output {
		t.Errorf("%s: sizes %d, %d, %d, want %d, %d, %d: %s", how, got.Prompt, got.Limit, got.Output, prompt, limit, r.Output, r.Message)
	}
	if low := prompt > 0 && strings.Contains(r.Message, "at least"); got.AtLeast != low {
		t.Errorf("%s: AtLeast = %v: %s", how, got.AtLeast, r.Message)
	}
}
