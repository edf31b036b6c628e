package exchange_test

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A port reads and continues the files of another program as the program does, with its
// faults. The commits are in the comments.
type port interface {
	// listed returns the sessions of the index: the count of each under its name.
	listed() map[string]int
	// counted returns the count that the program would have made of the records.
	counted(name string) int
	// history returns the history that the program loads, and its summary.
	history(name string) (words []string, summary string)
	// turn records a question, a call with its result, and the answer.
	turn(name string)
}

// turnWords are the words of a turn of a port.
var turnWords = []string{"more?", "call", "p1", "result", "p1", "seen", "done."}

// A seedRecord has the members of a record that a port reads.
type seedRecord struct {
	Type    string          `json:"type"`
	ID      string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	Output  string          `json:"output"`
	Summary string          `json:"summary"`
	Message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Role  string     `json:"role"`
	Parts []seedPart `json:"parts"`
	At    string     `json:"created_at"`
}

// A seedPart is a block of a message, or a part of OpenViking's.
type seedPart struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Of      string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`

	URI    *string `json:"uri"`
	ToolID *string `json:"tool_id"`
	Name   *string `json:"tool_name"`
	Tool   *string `json:"tool_uri"`
	Output string  `json:"tool_output"`
}

// A seedFolder holds the files of a port.
type seedFolder struct {
	t     *testing.T
	files fstest.MapFS
}

// records parses the lines of a file. A line that is not JSON is passed over, as all
// programs but OpenViking do.
func (f seedFolder) records(name string, ends string) (all []seedRecord) {
	require.Contains(f.t, f.files, name)
	for line := range strings.FieldsFuncSeq(string(f.files[name].Data), func(r rune) bool { return strings.ContainsRune(ends, r) }) {
		var r seedRecord
		if json.Unmarshal([]byte(line), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}

func (f seedFolder) append(name string, lines ...string) {
	f.files[name].Data = append(f.files[name].Data, strings.Join(lines, "\n")+"\n"...)
}

func (f seedFolder) read(name string, v any) {
	require.Contains(f.t, f.files, name)
	require.NoError(f.t, json.Unmarshal(f.files[name].Data, v))
}

// blockWords returns the words of a content, which is a string or blocks.
func blockWords(t *testing.T, content json.RawMessage) (words []string) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return strings.Fields(text)
	}
	var blocks []seedPart
	require.NoError(t, json.Unmarshal(content, &blocks))
	for _, b := range blocks {
		switch b.Type {
		case "text":
			words = append(words, strings.Fields(b.Text)...)
		case "tool_use":
			words = append(words, "call", b.ID)
		case "tool_result":
			words = append(append(words, "result", b.Of), strings.Join(blockWords(t, b.Content), " "))
		}
	}
	return words
}

// miniClawPort follows agents/s03_sessions.py of mini-claw at 8b288c7.
type miniClawPort struct{ seedFolder }

// pythonEnds are the ends of lines for str.splitlines.
const pythonEnds = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

type miniClawRow struct {
	Key   string `json:"session_key"`
	Count int    `json:"message_count"`
	File  string `json:"transcript_file"`
}

func (p miniClawPort) index() (rows map[string]miniClawRow) {
	p.read("sessions.json", &rows)
	return rows
}

func (p miniClawPort) file(key string) string {
	return path.Join("transcripts", p.index()[key].File)
}

func (p miniClawPort) listed() map[string]int {
	counts := map[string]int{}
	for key, row := range p.index() {
		require.Equal(p.t, key, row.Key)
		counts[key] = row.Count
	}
	return counts
}

func (p miniClawPort) counted(key string) (turns int) {
	for _, r := range p.records(p.file(key), pythonEnds) {
		if r.Type == "user" {
			turns++
		}
	}
	return turns
}

func (p miniClawPort) history(key string) (words []string, _ string) {
	for _, r := range p.records(p.file(key), pythonEnds) {
		switch r.Type {
		case "user", "assistant":
			words = append(words, blockWords(p.t, r.Content)...)
		case "tool_use":
			words = append(words, "call", r.ID)
		case "tool_result":
			words = append(words, "result", r.ID, r.Output)
		}
	}
	return words, ""
}

// turn writes the result first, as the program does.
func (p miniClawPort) turn(key string) {
	const ts = `"ts":"2026-12-01T09:00:00.000001+00:00"}`
	p.append(p.file(key), `{"type":"tool_result","tool_use_id":"p1","output":"seen",`+ts, `{"type":"user","content":"more?",`+ts,
		`{"type":"tool_use","name":"look","tool_use_id":"p1","input":{},`+ts, `{"type":"assistant","content":"done.",`+ts)
}

// claw0Port follows zh/s03_sessions.py of claw0 at 10290de, for all agents.
type claw0Port struct{ seedFolder }

func (p claw0Port) listed() map[string]int {
	counts := map[string]int{}
	for name := range p.files {
		if agent, ok := strings.CutSuffix(name, "/sessions.json"); ok {
			var rows map[string]struct {
				Count int `json:"message_count"`
			}
			p.read(name, &rows)
			for id, row := range rows {
				counts[path.Join(agent, "sessions", id+".jsonl")] = row.Count
			}
		}
	}
	return counts
}

func (p claw0Port) counted(file string) int { return len(p.records(file, "\n")) }

func (p claw0Port) history(file string) (words []string, _ string) {
	for _, r := range p.records(file, "\n") {
		switch r.Type {
		case "user", "assistant":
			words = append(words, blockWords(p.t, r.Content)...)
		case "tool_use":
			words = append(words, "call", r.ID)
		case "tool_result":
			words = append(append(words, "result", r.ID), strings.Join(blockWords(p.t, r.Content), " "))
		}
	}
	return words, ""
}

// turn writes the call twice, as the program does.
func (p claw0Port) turn(file string) {
	const ts = `"ts":1796115600.5}`
	p.append(file, `{"type":"user","content":"more?",`+ts, `{"type":"assistant","content":[{"type":"tool_use","id":"p1","name":"look","input":{}}],`+ts,
		`{"type":"tool_use","tool_use_id":"p1","name":"look","input":{},`+ts, `{"type":"tool_result","tool_use_id":"p1","content":"seen",`+ts,
		`{"type":"assistant","content":[{"type":"text","text":"done."}],`+ts)
}

// zyHivePort follows pkg/session/store.go and compaction.go of ZyHive at 838b310, for all
// agents.
type zyHivePort struct{ seedFolder }

type zyHiveRow struct {
	File   string `json:"filePath"`
	Count  int    `json:"messageCount"`
	Tokens int    `json:"tokenEstimate"`
}

func (p zyHivePort) rows() map[string]zyHiveRow {
	all := map[string]zyHiveRow{}
	for name := range p.files {
		if dir, base := path.Split(name); base == "sessions.json" {
			var index struct{ Sessions map[string]zyHiveRow }
			p.read(name, &index)
			for _, row := range index.Sessions {
				all[dir+row.File] = row
			}
		}
	}
	return all
}

func (p zyHivePort) listed() map[string]int {
	counts := map[string]int{}
	for file, row := range p.rows() {
		counts[file] = row.Count
	}
	return counts
}

func (p zyHivePort) counted(file string) (messages int) {
	for _, r := range p.records(file, "\n") {
		if r.Type == "message" {
			messages++
		}
	}
	return messages
}

// kept returns the messages that the program loads: a marker drops the ones before it.
func (p zyHivePort) kept(file string) (messages []seedRecord, summary string) {
	for _, r := range p.records(file, "\n") {
		switch r.Type {
		case "compaction":
			messages, summary = nil, r.Summary
		case "message":
			messages = append(messages, r)
		}
	}
	return messages, summary
}

func (p zyHivePort) history(file string) (words []string, summary string) {
	messages, summary := p.kept(file)
	for _, r := range messages {
		words = append(words, blockWords(p.t, r.Message.Content)...)
	}
	return words, summary
}

// tokens returns the estimate of the index, and the one that the program would have made.
func (p zyHivePort) tokens(file string) (listed, counted int) {
	messages, summary := p.kept(file)
	for _, r := range messages {
		counted += len(r.Message.Content) / 4
	}
	if summary != "" {
		counted += len(summary)/4 + 500
	}
	return p.rows()[file].Tokens, counted
}

func (p zyHivePort) say(file, role, content string) {
	p.append(file, fmt.Sprintf(`{"type":"message","message":{"role":%q,"content":%s},"timestamp":1796115600000}`, role, content))
}

func (p zyHivePort) turn(file string) {
	p.say(file, "user", `"more?"`)
	p.say(file, "assistant", `[{"type":"tool_use","id":"p1","name":"look","input":{}}]`)
	p.say(file, "user", `[{"type":"tool_result","tool_use_id":"p1","content":"seen"}]`)
	p.say(file, "assistant", `[{"type":"text","text":"done."}]`)
}

// compact keeps n messages, which it appends again after the marker.
func (p zyHivePort) compact(file string, n int) {
	messages, _ := p.kept(file)
	boundary := len(messages) - n
	p.append(file, fmt.Sprintf(`{"type":"compaction","summary":"by ZyHive","firstKeptEntryId":"turn-%d","tokensBefore":1,"timestamp":1796115601000}`, boundary))
	for _, r := range messages[boundary:] {
		p.say(file, r.Message.Role, string(r.Message.Content))
	}
}

// openVikingPort follows message/message.py and session/session.py of OpenViking at
// 002e140.
type openVikingPort struct{ seedFolder }

func (p openVikingPort) listed() map[string]int {
	counts := map[string]int{}
	for name := range p.files {
		if dir, base := path.Split(name); base == ".meta.json" {
			var meta struct {
				Count int `json:"message_count"`
			}
			p.read(name, &meta)
			counts[dir+"messages.jsonl"] = meta.Count
		}
	}
	return counts
}

func (p openVikingPort) counted(file string) int { return len(p.load(file)) }

// load returns the messages of a file. The program starts empty if a line is not a message.
func (p openVikingPort) load(file string) []seedRecord {
	messages := p.records(file, "\n")
	require.Len(p.t, messages, strings.Count(string(p.files[file].Data), "\n"))
	for _, m := range messages {
		require.NotEmpty(p.t, m.At)
		require.Contains(p.t, []string{"user", "assistant"}, m.Role)
		for _, part := range m.Parts {
			if part.Type == "tool" {
				require.NotNil(p.t, part.ToolID)
				require.NotNil(p.t, part.Name)
				require.NotNil(p.t, part.Tool)
			}
			require.True(p.t, part.Type != "context" || part.URI != nil)
		}
	}
	return messages
}

func (p openVikingPort) history(file string) (words []string, summary string) {
	for _, m := range p.load(file) {
		var results []string
		for _, part := range m.Parts {
			if words = append(words, strings.Fields(part.Text)...); part.Type == "tool" {
				words, results = append(words, "call", *part.ToolID), append(results, "result", *part.ToolID, part.Output)
			}
		}
		words = append(words, results...)
	}
	return words, ""
}

func (p openVikingPort) turn(file string) {
	const at = `"created_at":"2026-12-01T09:00:00.000001"}`
	p.append(file, `{"id":"msg_90000000000000000000000000000001","role":"user","parts":[{"type":"text","text":"more?"}],`+at,
		`{"id":"msg_90000000000000000000000000000002","role":"assistant","parts":[{"type":"tool","tool_id":"p1","tool_name":"look","tool_uri":"viking://session/s/tools/p1","skill_uri":"","tool_status":"completed","tool_output":"seen"}],`+at,
		`{"id":"msg_90000000000000000000000000000003","role":"assistant","parts":[{"type":"text","text":"done."}],`+at)
}

// archives returns the files with the archived messages, in order.
func (p openVikingPort) archives(file string) (files []string) {
	for name := range p.files {
		if strings.HasPrefix(name, path.Dir(file)+"/history/archive_") && path.Base(name) == "messages.jsonl" {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}
