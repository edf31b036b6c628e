package exchange_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
	"github.com/convolog/convolog/transcript/redact"
)

const planted = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"

// An import writes no secret, neither in its lines nor in the originals within them,
// and follows its source as before.
func TestImportRedacts(t *testing.T) {
	const first = `{"type":"session","version":3,"id":"s1","timestamp":"2026-03-01T09:00:00Z","cwd":"/x"}
{"type":"message","id":"a","parentId":null,"timestamp":"2026-03-01T09:00:01Z","message":{"role":"user","content":"Use SECRET"}}
{"type":"message","id":"b","parentId":"a","timestamp":"2026-03-01T09:00:02Z","message":{"role":"assistant","api":"anthropic-messages","model":"m","content":[{"type":"thinking","thinking":"SECRET it is","thinkingSignature":"sig"},{"type":"toolCall","id":"c1","name":"run","arguments":{"password":"swordfish"}}]}}
{"type":"message","id":"c","parentId":"b","timestamp":"2026-03-01T09:00:03Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"run","content":[{"type":"text","text":"SECRET"}],"details":{"key":"SECRET"}}}
{"type":"session_info","id":"d","parentId":"c","timestamp":"2026-03-01T09:00:04Z","name":"about SECRET"}
`
	const more = `{"type":"message","id":"e","parentId":"d","timestamp":"2026-03-01T09:00:05Z","message":{"role":"user","content":"And SECRET again"}}` + "\n"
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}})
	for i, text := range []string{first, first, first + more} {
		im := importAll(t, st, sessionsIn(t, fstest.MapFS{"s1.jsonl": {Data: []byte(strings.ReplaceAll(text, "SECRET", planted))}}), nil)[0]
		require.NoError(t, im.Err)
		require.Equal(t, []int{4, 0, 1}[i], im.Appended)
		s, err := st.Get(t.Context(), im.Session)
		require.NoError(t, err)
		sources := 0
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			for _, word := range []string{planted, "swordfish", "it is"} {
				if word != "it is" || e.Type() == transcript.TypeAssistant && !bytes.Contains(e.Line(), []byte(`"src"`)) {
					require.NotContains(t, string(e.Line()), word)
				}
			}
			if src, ok := e.Source(); ok {
				sources++
				require.Contains(t, string(src), `"timestamp":"2026-03-01T09:00:0`)
			}
			if f, ok := e.Body.(transcript.MessageLine); ok {
				for _, b := range f.Content {
					require.NotEqual(t, "thinking", transcript.BlockType(b))
				}
			}
		}
		require.GreaterOrEqual(t, sources, 4)
		require.NotContains(t, storetest.Info(t, s).Title, planted)
	}
}

// An export contains no secret either, even from lines older than the hook.
func TestExportRedacts(t *testing.T) {
	drv := memdriver.New(nil)
	old := session.OpenDriver(drv, nil)
	s := load(t, old)
	title := "about " + planted
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title}))
	add(t, s, transcript.System{Text: "You know " + planted}, transcript.UserText("Use "+planted), &transcript.Response{Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: "hm", Signature: "sig"},
			transcript.TextBlock{Text: "with " + planted},
			transcript.ToolCallBlock{ID: "c1", Name: "run", Input: []byte(`{"password":"swordfish"}`)},
		},
	}, API: "anthropic", Model: "m"}, transcript.ToolResult("c1", planted))
	st := session.OpenDriver(drv, &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}})
	s, err := st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, exchange.Lines(t.Context(), s, &out))
	require.NoError(t, exchange.Markdown(t.Context(), s, &out))
	_, err = exchange.Request(t.Context(), s, &out, anthropic.Format{}, transcript.Request{Model: "m", MaxOutput: 10})
	require.NoError(t, err)
	require.Contains(t, out.String(), "Use [masked]")
	for _, word := range []string{planted, "swordfish", `"hm"`} {
		require.NotContains(t, out.String(), word)
	}
	for _, d := range []dialect.Dialect{dialect.MiniClaw, dialect.ZyHive, dialect.OpenViking} {
		for name, file := range exportTo(t, st, s.Ref(), d) {
			require.NotContains(t, string(file.Data), planted, name)
			require.NotContains(t, string(file.Data), "swordfish", name)
		}
	}
}
