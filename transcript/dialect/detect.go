package dialect

import (
	"io"
	"maps"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/document"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// detectBytes is the part of a file that Detect reads, unless its first record is longer.
const detectBytes = 1 << 20

// Detect returns the dialect of a transcript by its first records, at most 64
// of them in the first MiB, or by the first one if that is longer. A JSON document is
// detected by the members of its first object. The result is empty if no record looks like
// one of a known dialect: another format, or an empty file.
//
// The name of a file does not matter: logs of messages between programs, of
// scheduled runs and the like belong to no dialect.
//
// sure is false if the records are inconclusive, or contradict each other. A
// flat file that could be of either program is then called MiniClaw, whose
// reader understands both. The error is one of r.
func Detect(r io.ReaderAt, size int64) (d Dialect, sure bool, err error) {
	const maxRecords = 64
	opts := &transcript.ScanOptions{
		Final:   true,
		MaxLine: detectBytes,
		Decode: func(line []byte, offset int64) (transcript.Entry, error) {
			if !jsontext.Valid(line) || !jsontext.IsObject(line) {
				_, err := transcript.ParseEntry(line)
				return transcript.Entry{}, err
			}
			return transcript.Entry{Body: transcript.Custom{}}.WithLine(line), nil
		},
	}
	outline, err := document.Outline(r, min(size, detectBytes))
	if d := detectDocument(outline); err != nil || d != "" {
		return d, err == nil, err
	}
	records, flat, conflict := 0, false, false
	for rec, err := range transcript.Scan(r, min(size, detectBytes), opts) {
		if err != nil {
			return "", false, err
		}
		if rec.Damage != nil {
			continue
		}
		members := fields.Record{}
		maps.Insert(members, jsontext.Members(rec.Entry.Line()))
		got, certain, isFlat := classify(members)
		if certain {
			return got, !conflict && (d == "" || d == got), nil
		}
		flat = flat || isFlat
		if got != "" {
			conflict = conflict || d != "" && d != got
			if d == "" {
				d = got
			}
		}
		if records++; records == maxRecords {
			break
		}
	}
	if records == 0 && size > detectBytes {
		if outline, err = document.Outline(r, min(size, transcript.DefaultMaxLine)); err != nil {
			return "", false, err
		}
		d, _, flat = classify(outline)
	}
	switch {
	case d != "":
		return d, !conflict, nil
	case flat:
		return MiniClaw, false, nil
	}
	return "", false, nil
}

// detectDocument returns the dialect of a document, a file of one JSON value, by the
// outline of its first object.
func detectDocument(r fields.Record) Dialect {
	object, array, text := jsontext.IsObject, jsontext.IsArray, jsontext.IsString
	switch {
	case object(r["mapping"]) && has(r, "title", "create_time", "current_node"):
		return ChatGPT
	case array(r["chat_messages"]):
		return ClaudeAI
	case object(r["info"]) && array(r["messages"]):
		return OpenCode
	case text(r["sessionId"]) && text(r["projectHash"]) && array(r["messages"]):
		return GeminiCLI
	}
	return ""
}

// classify returns the dialect that a record looks like, if any, whether that
// settles it, and whether it is a flat record at all.
func classify(r fields.Record) (d Dialect, certain, flat bool) {
	has := func(names ...string) bool { return has(r, names...) }
	kind, _ := jsontext.String(r["type"])
	_, err := time.Parse(time.RFC3339Nano, r.Text("ts"))
	stamped := err == nil && jsontext.IsString(r["id"])
	if d, certain := classifyTree(r, kind); d != "" {
		return d, certain, false
	}
	if d, certain := classifyRollout(r, kind); d != "" {
		return d, certain, false
	}
	switch kind {
	case "session":
		switch {
		case has("v"):
			return Native, true, false
		case has("version") && has("agentId", "createdAt"):
			return ZyHive, true, false
		case has("timestamp") && has("id"), has("cwd"):
			return Pi, true, false
		case has("version", "agentId"):
			return "", false, false
		case has("created", "key"):
			return MiniClaw, true, true
		}
		return "", false, false
	case "message", "compaction":
		switch {
		case kind == "message" && !jsontext.IsObject(r["message"]), kind != "message" && !has("firstKeptEntryId", "firstKeptEntryIndex"):
		case jsontext.IsString(r["timestamp"]):
			return Pi, false, false
		case has("timestamp"):
			return ZyHive, false, false
		}
	case "":
		d := classifyBare(r)
		return d, d == GeminiCLI, false
	case "gemini":
		if r["timestamp"] != nil && r["id"] != nil {
			return GeminiCLI, false, false
		}
	case transcript.TypeUser, transcript.TypeAssistant, transcript.TypeToolUse, transcript.TypeToolResult:
		return classifyFlat(r, kind, stamped, err == nil)
	}
	if stamped && isNative(kind) {
		return Native, false, false
	}
	return "", false, false
}

// classifyTree recognises rows that only trees contain.
func classifyTree(r fields.Record, kind string) (d Dialect, certain bool) {
	entry := jsontext.IsString(r["id"]) && jsontext.IsString(r["timestamp"])
	switch kind {
	case "user", "assistant", "system", "attachment", "progress":
		if r["uuid"] != nil && jsontext.IsString(r["sessionId"]) {
			return ClaudeCode, true
		}
		if r["uuid"] != nil && (kind == "system" || jsontext.IsObject(r["message"])) {
			return ClaudeCode, false
		}
	case "summary":
		if r["leafUuid"] != nil {
			return ClaudeCode, false
		}
	case "file-history-snapshot", "queue-operation", "custom-title", "ai-title":
		if r["sessionId"] != nil || r["snapshot"] != nil {
			return ClaudeCode, false
		}
	case "model_change", "thinking_level_change", "branch_summary", "custom_message", "session_info", "context_edit", "leaf":
		if entry {
			return Pi, false
		}
	}
	return "", false
}

// classifyRollout recognises lines of Codex, with a payload or bare.
func classifyRollout(r fields.Record, kind string) (d Dialect, certain bool) {
	wrapped := jsontext.IsString(r["timestamp"]) && jsontext.IsObject(r["payload"])
	switch kind {
	case "session_meta":
		if wrapped {
			return Codex, true
		}
	case "response_item", "event_msg", "turn_context", "compacted", "world_state":
		if wrapped {
			return Codex, false
		}
	case "message", "reasoning", "function_call", "function_call_output":
		if r["id"] == nil && r["call_id"] != nil || jsontext.IsString(r["role"]) && jsontext.IsArray(r["content"]) || r["summary"] != nil {
			return Codex, false
		}
	case "":
		_, old := r["instructions"]
		if old && r["id"] != nil && r["timestamp"] != nil || r["record_type"] != nil {
			return Codex, false
		}
	}
	return "", false
}

// classifyBare recognises records without a type.
func classifyBare(r fields.Record) Dialect {
	switch {
	case jsontext.IsString(r["sessionId"]) && jsontext.IsString(r["projectHash"]):
		return GeminiCLI
	case !jsontext.IsString(r["role"]):
	case r["channelId"] != nil && r["channelType"] != nil && jsontext.IsString(r["content"]):
		return ZyHiveLog
	case jsontext.IsArray(r["parts"]), r["id"] != nil && r["content"] != nil && r["created_at"] != nil:
		return OpenViking
	}
	return ""
}

// classifyFlat recognises records of one message, call or result each.
func classifyFlat(r fields.Record, kind string, stamped, isTime bool) (d Dialect, certain, flat bool) {
	has := func(names ...string) bool { return has(r, names...) }
	switch {
	case has("message", "parts", "parentId", "uuid"), !has("content", "output", "input", "tool_use_id"):
		return "", false, false // of something else, or inconclusive
	case stamped, has("mid", "batch", "part"):
		return Native, false, true
	case kind == transcript.TypeToolResult && has("output"):
		return MiniClaw, false, true
	case r["ts"] != nil && strings.ContainsAny(string(r["ts"][:1]), "-0123456789"):
		return Claw0, false, true
	case has("ts") && isTime:
		return MiniClaw, false, true
	case jsontext.IsArray(r["content"]), kind == transcript.TypeToolResult && has("content"):
		return Claw0, false, true
	}
	return "", false, true
}

// has reports whether any of the members is there.
func has(r fields.Record, names ...string) bool {
	for _, name := range names {
		if _, ok := r[name]; ok {
			return true
		}
	}
	return false
}

// isNative reports whether the native format has lines of a type.
func isNative(kind string) bool {
	e, err := transcript.ParseEntry(rows.Object("type", kind).End())
	_, unknown := e.Body.(transcript.Unknown)
	return err == nil && !unknown
}
