package dialect_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A marker precedes the first message it keeps, which it names by its number, so that
// ZyHive, which drops the messages before its last marker, keeps the same ones. A reader
// of the file finds the same history.
func TestWriteMarkers(t *testing.T) {
	const question, call, result, answer = "q", "c", "r", "a"
	for _, tt := range []struct{ name, entries, want string }{
		{"before a question", "q1 a1 q2 a2 >q2", "q1 a1 (msg-3) q2 a2"},
		{"everything is kept", "q1 a1 q2 a2 >q1", "(msg-1) q1 a1 q2 a2"},
		{"nothing is kept", "q1 a1 <a1 q2 a2", "q1 a1 (msg-3) q2 a2"},
		{"a call stays with its result", "q1 c1 r1 a1 >r1", "q1 (msg-2) c1 r1 a1"},
		{"a question that was asked with the result", "q1 c1 r1 q2 a2 >q2", "q1 (msg-2) c1 r1+q2 a2"},
		{"the result is covered", "q1 c1 r1 a1 <r1", "q1 c1 r1 (msg-4) a1"},
		{"two markers", "q1 a1 q2 a2 >q2 q3 a3 >q3", "q1 a1 (msg-3) q2 a2 (msg-5) q3 a3"},
		{"the later marker keeps more", "q1 a1 q2 a2 >q2 q3 a3 >a1", "q1 (msg-2) (msg-2) a1 q2 a2 q3 a3"},
		{"the kept message repeats the one before", "a1 q1 q1 >q1 a2", "a1 q1 (msg-3) q1 a2"},
		{"unknown messages", "q1 a1 <x q2", "q1 a1 (msg-3) q2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
			ids, n := map[string]string{}, 0
			var entries []transcript.Entry
			for word := range strings.FieldsSeq(tt.entries) {
				n++
				at = at.Add(time.Second)
				kind, id := word[:1], fmt.Sprintf("e%d", n)
				e := transcript.Entry{ID: id, Time: at}
				message := func(kind string, role transcript.Role, blocks ...transcript.Block) transcript.Body {
					return transcript.MessageLine{Kind: kind, Role: role}.WithContent(blocks...)
				}
				switch kind {
				case question:
					e.Body = message(transcript.TypeUser, transcript.RoleUser, transcript.TextBlock{Text: word})
				case answer:
					e.Body = message(transcript.TypeAssistant, transcript.RoleAssistant, transcript.TextBlock{Text: word})
				case call:
					e.Body = transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: word[1:], Name: word, Input: json.RawMessage(`{}`)}}}
				case result:
					e.Body = transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{transcript.ToolResultBlock{CallID: word[1:]}.WithContent(transcript.TextBlock{Text: word})}}
				case ">":
					e.Body = transcript.Compaction{Summary: "S", FirstKept: ids[word[1:]]}
				case "<":
					e.Body = transcript.Compaction{Summary: "S", CoversTo: ids[word[1:]]}
				}
				ids[word] = id
				entries = append(entries, e)
			}
			out, _ := write(t, dialect.ZyHive, slices.Values([]dialect.Session{{ID: "ses-1"}}), func(dialect.Session) iter.Seq2[transcript.Entry, error] { return seq(entries) })
			file := out["agents/main/sessions/ses-1.jsonl"].Data
			var got, kept []string
			for line := range strings.Lines(string(file)) {
				var r struct {
					Type    string `json:"type"`
					First   string `json:"firstKeptEntryId"`
					Message transcript.Message
				}
				require.NoError(t, json.Unmarshal([]byte(line), &r))
				switch r.Type {
				case "compaction":
					got, kept = append(got, "("+r.First+")"), nil
				case "message":
					var said []string
					for _, b := range r.Message.Content {
						switch b := b.(type) {
						case transcript.TextBlock:
							said = append(said, b.Text)
						case transcript.ToolCallBlock:
							said = append(said, b.Name)
						case transcript.ToolResultBlock:
							said = append(said, b.Text())
						}
					}
					got, kept = append(got, strings.Join(said, "+")), append(kept, strings.Join(said, "+"))
				}
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
			var read []string
			for _, rec := range scan(t, dialect.ZyHive, string(file)) {
				switch b := rec.Entry.Body.(type) {
				case transcript.Compaction:
					require.Empty(t, b.FirstKept, "the messages after the marker are kept")
					read = nil
				case transcript.MessageLine:
					read = append(read, rec.Entry.ID)
				}
			}
			require.Len(t, read, len(kept))
		})
	}
}
