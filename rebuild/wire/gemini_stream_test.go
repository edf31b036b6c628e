package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

// geminiEvents streams a body as the API does: texts in pieces of n bytes, the
// signature of a text with an empty last piece, every other part in its own
// event.
func geminiEvents(t testing.TB, body string, n int) (events []string) {
	t.Helper()
	var msg struct {
		Candidates []struct {
			Content      struct{ Parts []map[string]json.RawMessage }
			FinishReason string
		}
		UsageMetadata json.RawMessage
		ModelVersion  string
		ResponseID    string
	}
	require.NoError(t, json.Unmarshal([]byte(body), &msg))
	head := fmt.Sprintf(`"modelVersion":%q,"responseId":%q`, msg.ModelVersion, msg.ResponseID)
	add := func(part map[string]json.RawMessage) {
		events = append(events, fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"}}],%s}`, quoteAny(t, part), head))
	}
	for _, part := range msg.Candidates[0].Content.Parts {
		text, ok := part["text"]
		if !ok {
			add(part)
			continue
		}
		var s string
		require.NoError(t, json.Unmarshal(text, &s))
		for _, piece := range cut(s, n) {
			p := map[string]json.RawMessage{"text": quoteAny(t, piece)}
			if part["thought"] != nil {
				p["thought"] = part["thought"]
			}
			add(p)
		}
		if part["thoughtSignature"] != nil {
			// The SDK for Go leaves the empty text out.
			if part["text"] = json.RawMessage(`""`); n == 7 {
				delete(part, "text")
			}
			add(part)
		}
	}
	usage := msg.UsageMetadata
	if usage == nil {
		usage = json.RawMessage("null")
	}
	return append(events, fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":%q}],"usageMetadata":%s,%s}`,
		msg.Candidates[0].FinishReason, usage, head))
}

// A streamed answer is recorded like the whole one, whatever the size of the
// pieces; cut after any event, it contains all shown text.
func TestGeminiStream(t *testing.T) {
	for name, body := range geminiAnswers {
		whole, err := gemini.Format{}.Response([]byte(body))
		require.NoError(t, err)
		for _, n := range []int{1, 7, 1000} {
			s := gemini.Format{}.NewStream()
			var shown strings.Builder
			done := false
			for _, e := range geminiEvents(t, body, n) {
				if done {
					t.Errorf("%s: done before the end", name)
				}
				event := []byte(e)
				d, err := s.Add(event)
				require.NoError(t, err, "%s", name)
				clear(event) // the stream must not keep it
				shown.WriteString(d.Text)
				done = d.Done
				resp := s.Response()
				if got := resp.Message.Text(); got != shown.String() {
					t.Errorf("%s: text %q, shown %q", name, got, &shown)
				}
				if !done && resp.StopReason != transcript.StopAborted {
					t.Errorf("%s: stop reason %q before the end", name, resp.StopReason)
				}
				lines(t, resp)
			}
			if got, want := lines(t, s.Response()), lines(t, whole); !done || !sameJSON(t, got, want) {
				t.Errorf("%s in pieces of %d:\n%s\nwant\n%s", name, n, got, want)
			}
		}
	}
}

func FuzzGeminiStream(f *testing.F) {
	for _, body := range geminiAnswers {
		f.Add([]byte(strings.Join(geminiEvents(f, body, 5), "\n")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		shown, text := fed(t, gemini.Format{}.NewStream(), data)
		require.Equal(t, shown, text)
	})
}
