package dialect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// texts returns the texts of the messages and the kept parts of compactions, and
// the names of entries set aside in brackets.
func texts(recs []transcript.Record) string {
	var words []string
	for _, r := range recs {
		switch b := r.Entry.Body.(type) {
		case transcript.MessageLine:
			words = append(words, b.Message().Text())
		case transcript.Compaction:
			words = append(words, fmt.Sprintf("compaction<%s%s>", b.FirstKept, b.CoversTo))
		case transcript.Custom:
			words = append(words, "("+b.Name+")")
		case transcript.Header:
		default:
			words = append(words, "?"+r.Entry.Type())
		}
	}
	return strings.Join(words, " ")
}

// Broken trees, some as programs write them. A row is its ID, its parent's, and
// further members.
func TestPiTrees(t *testing.T) {
	msg := func(id, parent, text, more string) string {
		if parent != "" {
			parent = `"parentId":` + parent + `,`
		}
		return fmt.Sprintf(`{"type":"message","id":"%s",%s"timestamp":"2026-03-01T09:00:00Z","message":{"role":"user","content":"%s"}%s}`, id, parent, text, more)
	}
	other := func(kind, id, parent, more string) string {
		return fmt.Sprintf(`{"type":"%s","id":"%s","parentId":%s,"timestamp":"2026-03-01T09:00:00Z",%s}`, kind, id, parent, more)
	}
	for _, tt := range []struct {
		name, want string
		rows       []string
	}{
		{"no parents at all", "1 2 3", []string{msg("a", "", "1", ""), msg("b", "", "2", ""), msg("c", "", "3", "")}},
		{"a row that is its own parent", "1 2 3", []string{msg("a", `null`, "1", ""), msg("b", `"b"`, "2", ""), msg("c", `"b"`, "3", "")}},
		{"parents that come later", "1 2 3", []string{msg("a", `"c"`, "1", ""), msg("b", `"a"`, "2", ""), msg("c", `"b"`, "3", "")}},
		{"a parent behind its child", "1 3 2 4", []string{msg("a", `null`, "1", ""), msg("c", `"b"`, "3", ""), msg("b", `"a"`, "2", ""), msg("d", `"c"`, "4", "")}},
		{"a circle behind a root", "1 2 3 4", []string{msg("x", `null`, "1", ""), msg("a", `"b"`, "2", ""), msg("b", `"a"`, "3", ""), msg("c", `"b"`, "4", "")}},
		{"a circle in a circle", "1 2 3 4 5", []string{
			msg("x", `null`, "1", ""), msg("a", `"b"`, "2", ""), msg("c", `"d"`, "3", ""), msg("b", `"c"`, "4", ""), msg("d", `"a"`, "5", ""),
		}},
		{"a parent that is not there", "1 2", []string{msg("a", `null`, "1", ""), msg("b", `"x"`, "2", "")}},
		{"a number for a parent", "1 2", []string{msg("a", `null`, "1", ""), msg("b", `7`, "2", "")}},
		{"an ID twice", "(branch) 2 3", []string{msg("a", `null`, "1", ""), msg("a", `null`, "2", ""), msg("b", `"a"`, "3", "")}},
		{"a second root", "(branch) 2", []string{msg("a", `null`, "1", ""), msg("b", `null`, "2", "")}},
		{"back to the root", "(branch) (leaf)", []string{msg("a", `null`, "1", ""), other("leaf", "l", `"a"`, `"targetId":null`)}},
		{"to a row that is not there", "1 (leaf)", []string{msg("a", `null`, "1", ""), other("leaf", "l", `"a"`, `"targetId":"x"`)}},
		{"a leaf, and on from there", "1 (branch) (leaf) 3", []string{msg("a", `null`, "1", ""), msg("b", `"a"`, "2", ""), other("leaf", "l", `"b"`, `"targetId":"a"`), msg("c", `"a"`, "3", "")}},
		{"a side row, and on from there", "1 (sidechain) 3", []string{msg("a", `null`, "1", ""), msg("b", `"a"`, "2", `,"appendMode":"side"`), msg("c", "", "3", "")}},
		{"nothing but a side row", "(sidechain)", []string{msg("a", `null`, "1", `,"appendMode":"side"`)}},
		{"an edit of an edit", "(omitted) (context_edit) (context_edit)", []string{
			msg("a", `null`, "1", ""), other("context_edit", "b", `"a"`, `"targetId":"a","replacement":"x"`), other("context_edit", "c", `"b"`, `"targetId":"a","replacement":null`),
		}},
		{"an edit on a branch that was left", "1 (context_edit) 2", []string{
			msg("a", `null`, "1", ""), other("context_edit", "b", `"a"`, `"targetId":"a","replacement":"x"`), msg("c", `"a"`, "2", ""),
		}},
		{"an edit of nothing", "1 (context_edit)", []string{msg("a", `null`, "1", ""), other("context_edit", "b", `"a"`, `"targetId":"x","replacement":5`)}},
		{"an edit that is no content", "1 (context_edit)", []string{msg("a", `null`, "1", ""), other("context_edit", "b", `"a"`, `"targetId":"a","replacement":5`)}},
		{"a compaction that keeps what is on another branch", "(branch) 2 compaction<a>", []string{
			msg("a", `null`, "1", ""), msg("b", `null`, "2", ""), other("compaction", "c", `"b"`, `"summary":"s","firstKeptEntryId":"a"`),
		}},
		{"a compaction that keeps what is taken out", "(omitted) 2 (context_edit) compaction<b>", []string{
			msg("a", `null`, "1", ""), msg("b", `"a"`, "2", ""), other("context_edit", "e", `"b"`, `"targetId":"a"`), other("compaction", "c", `"e"`, `"summary":"s","firstKeptEntryId":"a"`),
		}},
		{"a compaction that keeps what comes after it", "1 compaction<a> 2", []string{
			msg("a", `null`, "1", ""), other("compaction", "c", `"a"`, `"summary":"s","firstKeptEntryId":"c"`), msg("b", `"c"`, "2", ""),
		}},
		{"a compaction by a line that is not there", "1 compaction<>", []string{msg("a", `null`, "1", ""), other("compaction", "c", `"a"`, `"summary":"s","firstKeptEntryIndex":99`)}},
		{"a compaction in front of everything", "compaction<s> 1", []string{other("compaction", "c", `null`, `"summary":"s","firstKeptEntryId":"c"`), msg("a", `"c"`, "1", "")}},
		{"a reset that keeps a row", "1 2 compaction<b> 3", []string{
			msg("a", `null`, "1", ""), msg("b", `"a"`, "2", ""), other("reset", "r", `"b"`, `"firstKeptEntryId":"b"`), msg("d", `"r"`, "3", ""),
		}},
	} {
		data := `{"type":"session","version":3,"id":"s","timestamp":"2026-03-01T09:00:00Z"}` + "\n" + strings.Join(tt.rows, "\n")
		recs := scan(t, dialect.Pi, data)
		checkScanned(t, []byte(data), recs)
		if got := texts(recs); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		ids := map[string]bool{}
		for _, r := range recs {
			if ids[r.Entry.ID] {
				t.Errorf("%s: ID %q twice", tt.name, r.Entry.ID)
			}
			ids[r.Entry.ID] = true
		}
	}
}

func TestClaudeCodeTrees(t *testing.T) {
	row := func(uuid, parent, more string) string {
		return fmt.Sprintf(`{"type":"user","uuid":"%s","parentUuid":%s,"sessionId":"s","timestamp":"2026-03-01T09:00:00Z"%s}`, uuid, parent, more)
	}
	user := func(uuid, parent, text string) string {
		return row(uuid, parent, `,"message":{"role":"user","content":"`+text+`"}`)
	}
	summary := func(uuid, parent string) string {
		return row(uuid, parent, `,"isCompactSummary":true,"message":{"role":"user","content":"sum"}`)
	}
	boundary := func(uuid, more string) string {
		return fmt.Sprintf(`{"type":"system","subtype":"compact_boundary","uuid":"%s","parentUuid":null,"sessionId":"s"%s}`, uuid, more)
	}
	for _, tt := range []struct {
		name, want string
		rows       []string
	}{
		{"an edited first message", "(branch) 2", []string{user("a", `null`, "1"), user("b", `null`, "2")}},
		{"a row twice", "1 (repeat) 2", []string{user("a", `null`, "1"), user("a", `null`, "1"), user("b", `"a"`, "2")}},
		{"a parent that is not there", "1 2", []string{user("a", `null`, "1"), user("b", `"x"`, "2")}},
		{"a parent behind its child", "1 3 2 4", []string{user("a", `null`, "1"), user("c", `"b"`, "3"), user("b", `"a"`, "2"), user("d", `"c"`, "4")}},
		{"a circle behind a root", "1 2 3", []string{user("x", `null`, "1"), user("a", `"b"`, "2"), user("b", `"a"`, "3")}},
		{"no message", "1 ?", []string{user("a", `null`, "1"), row("b", `"a"`, ``)}},
		{"a summary without a boundary", "1 compaction<a> 2", []string{user("a", `null`, "1"), summary("c", `null`), user("b", `"c"`, "2")}},
		{"a boundary without a summary", "1 (system) 2", []string{user("a", `null`, "1"), boundary("b", ""), user("c", `"b"`, "2")}},
		{"a summary that keeps some", "1 2 (system) compaction<b> 3", []string{
			user("a", `null`, "1"), user("b", `"a"`, "2"), boundary("x", `,"compactMetadata":{"preservedSegment":{"headUuid":"b"}}`), summary("c", `"x"`), user("d", `"c"`, "3"),
		}},
	} {
		data := strings.Join(tt.rows, "\n")
		recs := scan(t, dialect.ClaudeCode, data)
		checkScanned(t, []byte(data), recs)
		if got := strings.TrimSpace(texts(recs)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
