package storetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// AgentTools returns the tools of a coding agent.
func AgentTools() []transcript.Tool {
	schema := func(names ...string) json.RawMessage {
		var sb strings.Builder
		for i, name := range names {
			if i > 0 {
				sb.WriteByte(',')
			}
			fmt.Fprintf(&sb, `%q:{"type":"string"}`, name)
		}
		return json.RawMessage(`{"type":"object","properties":{` + sb.String() + `}}`)
	}
	return []transcript.Tool{
		{Name: "read", Description: "Reads a file.", InputSchema: schema("path")},
		{Name: "grep", Description: "Searches files for a pattern.", InputSchema: schema("pattern", "path")},
		{Name: "test", Description: "Runs the tests of a package.", InputSchema: schema("package")},
		{Name: "edit", Description: "Replaces a text in a file.", InputSchema: schema("path", "old_string", "new_string")},
		{Name: "fetch", Description: "Gets a page or an image.", InputSchema: schema("url")},
		{Name: "search", Description: "Searches the web.", InputSchema: schema("query")},
	}
}
