package claudecode

import (
	"bytes"
	"cmp"
	"path"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A call names the call that started a helper.
type call struct {
	session string // the ID of the session with the call
	id      string
}

// IsHelper reports whether a name is the name of a helper's transcript. Claude Code
// keeps these files in a folder of the session, and earlier versions keep them with the
// sessions.
func IsHelper(name string) bool { return strings.HasPrefix(path.Base(name), "agent-") }

// Calls are the calls that started helpers, by the IDs of the session and of the
// helper.
type Calls map[string]call

// Starter returns the session that started a helper and the call there, from a row of
// the helper. The session is empty if the row names none.
func (known Calls) Starter(id string, line []byte) (session, callID string) {
	r := fields.Of(line)
	top := r.Str("sessionId")
	if !r.Flag("isSidechain") || top == id {
		return "", ""
	}
	agent := cmp.Or(r.Str("agentId"), strings.TrimPrefix(id, "agent-"))
	if from, ok := known[top+"/"+agent]; ok {
		return from.session, from.id
	}
	return top, ""
}

// Note learns from a row of the session id which helpers it started.
func (known Calls) Note(id string, line []byte) {
	if !bytes.Contains(line, []byte(`"agentId"`)) {
		return
	}
	r := fields.Of(line)
	agent, callID := r.Object("toolUseResult").Str("agentId"), ""
	for block := range jsontext.Elements(r.Object("message")["content"]) {
		if b := fields.Of(block); b.Str("type") == "tool_result" {
			callID = b.Str("tool_use_id")
		}
	}
	if data := r.Object("data"); agent == "" { // while the helper works
		agent, callID = data.Str("agentId"), r.Str("parentToolUseID")
	}
	if agent != "" && callID != "" {
		known[r.Str("sessionId")+"/"+agent] = call{id, callID}
	}
}
