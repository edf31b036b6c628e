package wire_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

func FuzzResponse(f *testing.F) {
	for _, body := range answers {
		f.Add([]byte(body))
	}
	f.Add([]byte(`{"type":"error","error":{"type":"x","message":"y"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		resp, err := anthropic.Format{}.Response(body)
		require.NotEqual(t, err == nil, resp == nil)
		_ = wire.NewAPIError(500, body).Error()
		if err == nil && !json.Valid(message0(t, resp)) {
			t.Fatal("the message is not valid JSON")
		}
	})
}

func message0(t *testing.T, resp *transcript.Response) []byte {
	text, err := resp.Message.MarshalJSON()
	require.NoError(t, err)
	return text
}

// The input is a stream: one event a line.
func FuzzStream(f *testing.F) {
	for _, body := range answers {
		f.Add([]byte(strings.Join(events(f, body, 5), "\n")))
	}
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = fed(t, anthropic.Format{}.NewStream(), data) })
}

// fed adds lines to a stream, and returns the texts that it showed and holds.
func fed(t *testing.T, s wire.Stream, lines []byte) (shown, text string) {
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		d, err := s.Add(line)
		if err == nil {
			shown += d.Text
		} else if d != (wire.Delta{}) {
			t.Fatalf("delta %v with error %v", d, err)
		}
		require.True(t, json.Valid(message0(t, s.Response())), "the message is not valid JSON")
	}
	if text = s.Response().Message.Text(); len(text) > len(shown) {
		t.Fatalf("text %q, shown %q", text, shown)
	}
	return shown, text
}

func FuzzReadSSE(f *testing.F) {
	f.Add([]byte("\uFEFFdata: a\r\n\r\nevent: x\rdata:b\n\n: c\ndata\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(text string) (events []string) {
			if err := wire.ReadSSE(strings.NewReader(text), func(event []byte) error {
				events = append(events, string(event))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return events
		}
		// An answer that was read, encoded and read again is the same.
		got := read(string(data))
		var sb strings.Builder
		for _, e := range got {
			for line := range strings.SplitSeq(e, "\n") {
				sb.WriteString("data: " + line + "\r\n")
			}
			sb.WriteString("\r\n")
		}
		require.Equal(t, read(sb.String()), got)
	})
}

// The rules that rendering enforces.
var rendered = strings.Fields("block-type member id-unique id-pattern id-length source thinking thinking-order marks server-tool system")

// The blocks that rendering removes from a role that may not hold them.
var misplaced = strings.Fields("image document thinking redacted_thinking search_result server_tool_use mcp_tool_use _tool_result")

// repairable reports whether rendering makes a request with the violation valid.
func repairable(v wiretest.Violation) bool {
	if v.Rule == "block-role" {
		return slices.ContainsFunc(misplaced, func(kind string) bool { return strings.Contains(v.Text, kind+"`") })
	}
	return slices.Contains(rendered, v.Rule)
}

func FuzzRender(f *testing.F) {
	for _, body := range answers {
		f.Add([]byte(`{"model":"claude-x","messages":[{"role":"user","content":"go"},`+body+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"},{"type":"tool_result","tool_use_id":"toolu_2"}]}]}`), false)
		f.Add([]byte(`{"messages":[{"role":"user","content":"go"},`+body+`,{"role":"user","content":"thanks"}]}`), true)
	}
	f.Add([]byte(`{"system":" ","tools":[{"name":"a","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":[{"type":"context","uri":"u"},{"type":"image","source":{"type":"url","url":"x"}}]}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, foreign bool) {
		var req transcript.Request
		if json.Unmarshal(data, &req) != nil {
			return
		}
		if foreign {
			for i, m := range req.Messages {
				req.Messages[i].Origins = make([]transcript.Origin, len(m.Content))
			}
		}
		checkRender(t, req)
	})
}
