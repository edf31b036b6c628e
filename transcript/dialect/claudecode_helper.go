package dialect

import (
	"bytes"
	"cmp"
	"path"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A helperCall names the call that started a helper.
type helperCall struct {
	session string // the ID of the session with the call
	call    string
}

// isHelper reports whether a file has the name of a helper's transcript. Claude
// Code keeps it in the folder "subagents" of the session, earlier versions
// keep it with the sessions.
func isHelper(s Session) bool {
	return s.Dialect == ClaudeCode && strings.HasPrefix(path.Base(s.Path), "agent-")
}

// helperCalls are the calls that started helpers, by the IDs of the session and of
// the helper.
type helperCalls map[string]helperCall

// note learns from a row of a session who started the session, and the helpers
// that the session started.
func (known helperCalls) note(s *Session, line []byte) {
	if s.Dialect != ClaudeCode {
		return
	}
	unknown := s.Parent == "" && isHelper(*s)
	if !unknown && !bytes.Contains(line, []byte(`"agentId"`)) {
		return
	}
	r := fields.Of(line)
	top := r.Str("sessionId")
	if unknown && r.Flag("isSidechain") && top != s.ID {
		s.Parent = top
		agent := cmp.Or(r.Str("agentId"), strings.TrimPrefix(s.ID, "agent-"))
		if from, ok := known[top+"/"+agent]; ok {
			s.Parent, s.Call = from.session, from.call
		}
	}
	agent, call := fields.Of(r["toolUseResult"]).Str("agentId"), ""
	for block := range jsontext.Elements(fields.Of(r["message"])["content"]) {
		if b := fields.Of(block); b.Str("type") == "tool_result" {
			call = b.Str("tool_use_id")
		}
	}
	if data := fields.Of(r["data"]); agent == "" { // while the helper works
		agent, call = data.Str("agentId"), r.Str("parentToolUseID")
	}
	if agent != "" && call != "" {
		known[top+"/"+agent] = helperCall{s.ID, call}
	}
}
