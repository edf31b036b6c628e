package transcript_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/transcript"
)

const secret = "Archaeopteryx"

// bodies has one of every type, with the word wherever a text can be.
func bodies() []transcript.Body {
	text := transcript.TextBlock{Text: secret, Extra: transcript.Extra{"citations": json.RawMessage(`["` + secret + `"]`)}}
	carried := []transcript.Carried{{Entry: "e", Text: secret}}
	raw := json.RawMessage(`{"about":"` + secret + `"}`)
	fragment := func(kind string, role transcript.Role, blocks ...transcript.Block) transcript.Body {
		return transcript.MessageLine{Kind: kind, Role: role}.WithContent(blocks...)
	}
	return []transcript.Body{
		transcript.Header{Version: 1, Key: "k", Gen: 2, Meta: transcript.Meta{Title: new(secret), Labels: []string{secret}}, Standing: []transcript.Entry{{ID: "s", Body: transcript.Value{Name: "n", Value: raw}}}},
		fragment(transcript.TypeUser, transcript.RoleUser, text, transcript.ImageBlock{Source: transcript.Source{Type: "base64", Data: secret}}),
		fragment(transcript.TypeAssistant, transcript.RoleAssistant, transcript.ThinkingBlock{Thinking: secret, Signature: "s"}, text, transcript.RawBlock{JSON: json.RawMessage(`{"type":"x","y":"` + secret + `"}`)}),
		fragment(transcript.TypeToolUse, transcript.RoleAssistant, transcript.ToolCallBlock{ID: "c", Name: "n", Input: raw}),
		fragment(transcript.TypeToolResult, transcript.RoleUser, transcript.ToolResultBlock{CallID: "c", Content: []transcript.Block{text}, Extra: transcript.Extra{"x": raw}}),
		transcript.Compaction{Summary: secret, FirstKept: "e", CoversTo: "e", TurnsBefore: 1, Said: carried, Files: carried, Errors: carried, IDs: carried, Pins: carried},
		transcript.Clip{Clips: []transcript.Clipping{{Entry: "e", Content: secret}}},
		transcript.Rewind{To: "e"},
		transcript.System{Text: secret},
		transcript.Tools{Names: []string{"n"}},
		transcript.Meta{Title: new(secret), Labels: []string{secret}},
		transcript.Current{Gen: 2},
		transcript.Calibration{Model: "m", Window: 1},
		transcript.ToolStatus{CallID: "c", Status: "running"},
		transcript.Used{Contexts: []string{secret}, Skill: &transcript.SkillUse{URI: secret, Input: secret, Output: secret}},
		transcript.Commit{N: 1, FirstEntry: "e", LastEntry: "e", Abstract: secret, Overview: secret},
		transcript.Extracted{Commit: "e", Err: secret},
		transcript.Dispatch{Call: "e", CallID: "c"},
		transcript.Decision{Call: "e", CallID: "c", Verdict: transcript.Reject, By: secret, Reason: secret},
		transcript.Queued{Content: []transcript.Block{text}},
		transcript.Draft{Key: "k", Text: secret},
		transcript.Pin{Entry: "e", Text: secret},
		transcript.Value{Name: "n", Value: raw},
		transcript.Erasure{Entries: []string{"e"}},
		transcript.Custom{Name: "n", Data: raw},
	}
}

// No words are left in an entry of any type, and all references from the rest
// of the transcript still resolve.
func TestErase(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	for _, body := range bodies() {
		e := transcript.Entry{ID: "e", Time: now, Batch: 2, Idem: "key", IdemHash: "hash", App: json.RawMessage(`"` + secret + `"`), Body: body}
		e = e.WithSource([]byte(secret))
		gone := e.Erase().WithChecksum()
		require.NotContains(t, string(gone.Line()), secret, e.Type())
		require.True(t, checksum.Intact(gone.Line()))
		got, err := transcript.ParseEntry(gone.Line())
		require.NoError(t, err)
		require.True(t, got.Erased)
		require.Equal(t, e.Type(), got.Type())
		require.Equal(t, []any{e.ID, e.Time, e.Batch, e.Idem, transcript.ErasedHash}, []any{got.ID, got.Time, got.Batch, got.Idem, got.IdemHash})
		again := got.Erase()
		require.Equal(t, string(got.Erase().Line()), string(again.Line()))
		f, ok := got.Body.(transcript.MessageLine)
		if was, _ := body.(transcript.MessageLine); ok && len(was.Content) > 0 {
			require.NotEmpty(t, f.Content, e.Type())
		}
	}
}

// FuzzErase: a line of any shape becomes one that parses, of the same type, and
// erasing it again changes nothing.
func FuzzErase(f *testing.F) {
	for _, body := range bodies() {
		f.Add(transcript.Entry{ID: "e", Body: body}.Line())
	}
	f.Add([]byte(`{"type":"new","id":"x","critical":true,"text":"words"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := transcript.ParseEntry(bytes.Clone(line))
		if err != nil {
			return
		}
		once := e.Erase()
		parsed, err := transcript.ParseEntry(once.Line())
		require.NoError(t, err, "%s", once.Line())
		require.Equal(t, e.Type(), parsed.Type())
		require.Equal(t, e.ID, parsed.ID)
		require.Equal(t, string(once.Line()), string(parsed.Erase().Line()))
	})
}
