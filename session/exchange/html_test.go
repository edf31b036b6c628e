package exchange_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
)

// data returns the data in an exported file.
func data(t *testing.T, text string) (d struct {
	Info    session.Info
	Context struct{ Entries int }
	Entries []map[string]any
},
) {
	t.Helper()
	found := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(text)
	require.NotNil(t, found)
	require.NoError(t, json.Unmarshal([]byte(found[1]), &d))
	return d
}

// A file contains the session as data that no text in it can end, a policy that
// names its one script by its hash, and no address of anything elsewhere.
func TestHTML(t *testing.T) {
	t.Parallel()
	store := session.OpenDriver(memdriver.New(nil), &session.Options{
		Filters: []session.Filter{
			session.Redact(func(_ context.Context, text string) string { return strings.ReplaceAll(text, "hunter2", "***") }),
			blobs.Filter(blobs.Memory(), nil),
		},
	})
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "p"})
	require.NoError(t, err)
	hostile := "</script><script>alert(1)</script><!--<script> \u2028 & hunter2"
	image := strings.Repeat("picture", 1000)
	_, err = s.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.TextBlock{Text: hostile},
		transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString([]byte(image))}},
	}})
	require.NoError(t, err)
	call := transcript.ToolCallBlock{ID: "c", Name: "look", Input: json.RawMessage(`{"a":"</script>"}`)}
	_, err = s.Append(t.Context(), &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "x"}, call}}, StopReason: transcript.StopToolUse})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.ToolResult("c", hostile))
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, exchange.HTML(t.Context(), s, &out))
	text := out.String()
	require.Equal(t, 2, strings.Count(text, "<script"))
	require.Equal(t, 2, strings.Count(text, "</script"))
	require.Regexp(t, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'">`, text)
	require.False(t, regexp.MustCompile(`(?i)https?://`).MatchString(text))
	require.False(t, strings.Contains(text, "hunter2"))
	d := data(t, text)
	require.Len(t, d.Entries, 3)
	require.Equal(t, s.Ref().ID, d.Info.ID)
	shown := d.Entries[0]["content"].([]any)
	require.Equal(t, strings.ReplaceAll(hostile, "hunter2", "***"), shown[0].(map[string]any)["text"])
	source := shown[1].(map[string]any)["source"].(map[string]any)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(image)), source["data"])
}
