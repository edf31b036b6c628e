package rebuild_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A system prompt and the tools that may be called are at the top as long as no
// message precedes them, and are a text of the user before the next answer from then
// on. The last ones are in force, until a rewind takes them back.
func TestPrompts(t *testing.T) {
	const first = `{"type":"system","id":"s1","ts":"2026-11-20T08:00:00Z","text":"Be brief."}`
	const tools = `{"type":"tools","id":"t1","ts":"2026-11-20T08:00:00Z","tool_names":["fs.read","write"]}`
	top := "Be brief.\n\n[Only these tools may be called from here on]\nfs_read, write"
	f := foldLines(t, nil, lines(first, tools, user("1", "hi"), assistant("2", "hello"),
		`{"type":"tools","id":"t2","ts":"2026-11-20T08:00:00Z","tool_names":[]}`, user("3", "now"), `{"type":"system","id":"s2","ts":"2026-11-20T08:00:00Z","text":"Be kind."}`)...)
	h := f.History()
	require.Equal(t, top, h.Prompt)
	require.Equal(t, "user hi\nassistant hello\nuser [now] [[Only these tools may be called from here on]|none] [[The system prompt from here on]|Be kind.]\n", show(h))
	require.ElementsMatch(t, []transcript.Item{transcript.System{Text: "Be kind."}, transcript.Tools{Names: []string{}}}, f.Prompts())
	require.Equal(t, transcript.PromptEntry, h.Messages[2].Origins[1].Block)
	require.Equal(t, "now", f.Pending().User)

	f = foldLines(t, nil, lines(first, tools, user("1", "hi"), assistant("2", "hello"),
		`{"type":"tools","id":"t2","ts":"2026-11-20T08:00:00Z","tool_names":[]}`, `{"type":"rewind","id":"r","ts":"2026-11-20T08:00:00Z","to":"2"}`)...)
	require.Equal(t, top, f.History().Prompt)
	require.Equal(t, "user hi\nassistant hello\n", show(f.History()))
	require.ElementsMatch(t, []transcript.Item{transcript.System{Text: "Be brief."}, transcript.Tools{Names: []string{"fs.read", "write"}}}, f.Prompts())
	require.Empty(t, rebuild.New(nil).Prompts())
}
