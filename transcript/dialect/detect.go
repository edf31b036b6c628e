package dialect

import (
	"cmp"
	"io"
	"maps"
	"slices"
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
		switch got, certain := classify(members); {
		case certain:
			return got, !conflict && (d == "" || d == got), nil
		case got == anyFlat:
			flat = true
		case got != "":
			conflict = conflict || d != "" && d != got
			d = cmp.Or(d, got)
		}
		if records++; records == maxRecords {
			break
		}
	}
	if records == 0 && size > detectBytes {
		if outline, err = document.Outline(r, min(size, transcript.DefaultMaxLine)); err != nil {
			return "", false, err
		}
		d, _ = classify(outline)
	}
	switch {
	case flat && d == "" || d == anyFlat:
		return MiniClaw, false, nil
	case d != "":
		return d, !conflict, nil
	}
	return "", false, nil
}

// A sign is members by which a dialect is recognised, in records of some types or in the
// first object of a document. Each word of members names one that is there, with ! one
// that is not, or several of which one is enough: a|b. After a colon comes its value: s is
// a string, o an object, a an array, n a number and t a time in ISO 8601.
type sign struct {
	types   string // "" for records without a type
	members string
	dialect Dialect // "" if the record shows nothing
	certain bool
}

const (
	treeRows    = "user assistant system attachment progress" // of Claude Code
	flatRecords = transcript.TypeUser + " " + transcript.TypeAssistant + " " + transcript.TypeToolUse + " " + transcript.TypeToolResult
	codexItems  = "message reasoning function_call function_call_output"

	anyFlat Dialect = "flat" // of mini-claw or claw0
)

// signs of records: the first that matches counts.
var signs = []sign{
	{treeRows, "uuid sessionId:s", ClaudeCode, true},
	{treeRows, "uuid message:o", ClaudeCode, false},
	{"system", "uuid", ClaudeCode, false},
	{"summary", "leafUuid", ClaudeCode, false},
	{"file-history-snapshot queue-operation custom-title ai-title", "sessionId|snapshot", ClaudeCode, false},
	{"model_change thinking_level_change branch_summary custom_message session_info context_edit leaf", "id:s timestamp:s", Pi, false},

	{"session_meta", "timestamp:s payload:o", Codex, true},
	{"response_item event_msg turn_context compacted world_state", "timestamp:s payload:o", Codex, false},
	{codexItems, "!id call_id", Codex, false},
	{codexItems, "role:s content:a", Codex, false},
	{codexItems, "summary", Codex, false},
	{"", "instructions id timestamp", Codex, false},
	{"", "record_type", Codex, false},

	{"session", "v", Native, true},
	{"session", "version agentId|createdAt", ZyHive, true},
	{"session", "timestamp id", Pi, true},
	{"session", "cwd", Pi, true},
	{"session", "version|agentId", "", false},
	{"session", "created|key", MiniClaw, true},
	{"session", "", "", false},

	{"message", "message:o timestamp:s", Pi, false},
	{"message", "message:o timestamp", ZyHive, false},
	{"compaction", "firstKeptEntryId|firstKeptEntryIndex timestamp:s", Pi, false},
	{"compaction", "firstKeptEntryId|firstKeptEntryIndex timestamp", ZyHive, false},

	{"", "sessionId:s projectHash:s", GeminiCLI, true},
	{"", "role:s channelId channelType content:s", ZyHiveLog, false},
	{"", "role:s parts:a", OpenViking, false},
	{"", "role:s id content created_at", OpenViking, false},
	{"gemini", "timestamp id", GeminiCLI, false},

	{flatRecords, "message|parts|parentId|uuid", "", false},
	{flatRecords, "!content !output !input !tool_use_id", "", false},
	{flatRecords, "ts:t id:s", Native, false},
	{flatRecords, "mid|batch|part", Native, false},
	{transcript.TypeToolResult, "output", MiniClaw, false},
	{flatRecords, "ts:n", Claw0, false},
	{flatRecords, "ts:t", MiniClaw, false},
	{flatRecords, "content:a", Claw0, false},
	{transcript.TypeToolResult, "content", Claw0, false},
	{flatRecords, "", anyFlat, false},
}

// documents are the signs of documents.
var documents = []sign{
	{"", "mapping:o title|create_time|current_node", ChatGPT, true},
	{"", "chat_messages:a", ClaudeAI, true},
	{"", "info:o messages:a", OpenCode, true},
	{"", "sessionId:s projectHash:s messages:a", GeminiCLI, true},
}

// detectDocument returns the dialect of a document, a file of one JSON value, by the
// outline of its first object.
func detectDocument(r fields.Record) Dialect {
	for _, s := range documents {
		if matches(r, s.members) {
			return s.dialect
		}
	}
	return ""
}

// classify returns the dialect that a record looks like, if any, and whether that
// settles it.
func classify(r fields.Record) (d Dialect, certain bool) {
	kind, _ := jsontext.String(r["type"])
	for _, s := range signs {
		if slices.Contains(strings.Split(s.types, " "), kind) && matches(r, s.members) {
			return s.dialect, s.certain
		}
	}
	if matches(r, "ts:t id:s") && isNative(kind) {
		return Native, false
	}
	return "", false
}

// matches reports whether a record has the members of a sign.
func matches(r fields.Record, members string) bool {
	for word := range strings.FieldsSeq(members) {
		one := false
		for member := range strings.SplitSeq(word, "|") {
			name, kind, _ := strings.Cut(strings.TrimPrefix(member, "!"), ":")
			v, ok := r[name]
			one = one || isA(kind, v, ok) != (member[0] == '!')
		}
		if !one {
			return false
		}
	}
	return true
}

// isA reports whether a value that ok shows to be there is of a kind.
func isA(kind string, v []byte, ok bool) bool {
	switch kind {
	case "s":
		return jsontext.IsString(v)
	case "o":
		return jsontext.IsObject(v)
	case "a":
		return jsontext.IsArray(v)
	case "n":
		return ok && strings.ContainsAny(string(v[:1]), "-0123456789")
	case "t":
		_, err := time.Parse(time.RFC3339Nano, fields.Text(v))
		return err == nil
	}
	return ok
}

// isNative reports whether the native format has lines of a type.
func isNative(kind string) bool {
	e, err := transcript.ParseEntry(rows.Object("type", kind).End())
	_, unknown := e.Body.(transcript.Unknown)
	return err == nil && !unknown
}
