package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// Marks are at the ends of this request and the previous one, and after the
// constant part. Marks of blocks are dropped.
func TestRollingMarks(t *testing.T) {
	marked := transcript.TextBlock{Text: "old", Extra: transcript.Extra{"cache_control": []byte(`{"type":"ephemeral"}`)}}
	req := transcript.Request{
		Model: "claude-x", System: "Be brief.", Tools: nextTools,
		Messages: []transcript.Message{
			{Role: transcript.RoleUser, Content: []transcript.Block{marked}},
			transcript.AssistantText("a"), transcript.UserText("b"), transcript.AssistantText("c"), transcript.UserText("d"),
		},
	}
	for ttl, more := range map[wire.CacheTTL]string{wire.Cache5m: "", wire.Cache1h: `,"ttl":"1h"`} {
		body, report, err := anthropic.Format{Cache: ttl}.Request(req)
		require.NoError(t, err)
		require.Len(t, report, 1)
		mark := `"cache_control":{"type":"ephemeral"` + more + `}`
		require.Equal(t, `{"model":"claude-x","max_tokens":8192,"system":[{"type":"text","text":"Be brief.",`+mark+`}],`+
			`"tools":[{"name":"f","input_schema":{"type":"object"},`+mark+`}],"messages":[{"role":"user","content":[{"type":"text","text":"old"}]},`+
			`{"role":"assistant","content":"a"},{"role":"user","content":[{"type":"text","text":"b",`+mark+`}]},{"role":"assistant","content":"c"},`+
			`{"role":"user","content":[{"type":"text","text":"d",`+mark+`}]}]}`, strings.ReplaceAll(string(body), `"content":"old"`, `"content":[{"type":"text","text":"old"}]`))
		require.Empty(t, wiretest.Check(wiretest.Anthropic{}, body))

		body, _, err = bedrock.Format{Cache: ttl}.Request(req)
		require.NoError(t, err)
		point := `{"cachePoint":{"type":"default"` + more + `}}`
		require.Equal(t, `{"system":[{"text":"Be brief."},`+point+`],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}},`+point+`]},`+
			`"messages":[{"role":"user","content":[{"text":"old"}]},{"role":"assistant","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"},`+point+`]},`+
			`{"role":"assistant","content":[{"text":"c"}]},{"role":"user","content":[{"text":"d"},`+point+`]}]}`, string(body))
		require.Empty(t, wiretest.Check(wiretest.Bedrock{}, body))
	}
	_, _, err := anthropic.Format{Cache: "2h"}.Request(req)
	require.EqualError(t, err, `wire: cache "2h" is neither "5m" nor "1h"`)
	_, _, err = bedrock.Format{Cache: "2h"}.Request(req)
	require.Error(t, err)
}

func TestCacheKey(t *testing.T) {
	req := transcript.Request{Model: "gpt-x", Messages: []transcript.Message{transcript.UserText("go")}}
	body, _, err := openaichat.Format{CacheKey: "s1"}.Request(req)
	require.NoError(t, err)
	require.Equal(t, `{"model":"gpt-x","prompt_cache_key":"s1","messages":[{"role":"user","content":"go"}]}`, string(body))
	require.Empty(t, wiretest.Check(wiretest.OpenAIChat{}, body))
	for _, format := range []interface {
		Request(transcript.Request) ([]byte, rebuild.Report, error)
	}{
		openaichat.Format{CacheKey: "s1", Params: map[string]json.RawMessage{"prompt_cache_key": json.RawMessage(`"x"`)}},
		openairesponses.Format{CacheKey: "s1", Params: map[string]json.RawMessage{"prompt_cache_key": json.RawMessage(`"x"`)}},
	} {
		_, _, err = format.Request(req)
		require.EqualError(t, err, `wire: params: "prompt_cache_key" is written from the request`)
	}
	body, _, err = openairesponses.Format{CacheKey: "s1"}.Request(req)
	require.NoError(t, err)
	require.Contains(t, string(body), `"prompt_cache_key":"s1"`)
	require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, body))
}
