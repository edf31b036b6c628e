package exchange_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// An export keeps what the fold makes texts of, and makes up no result.
func TestExportParts(t *testing.T) {
	st := inMemory()
	s := load(t, st)
	auth := transcript.ContextBlock{URI: "viking://resources/docs/auth/", Kind: "resource", Abstract: "A guide"}
	add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "How?"}, auth}})
	call := func(id string) transcript.Block {
		return transcript.ToolCallBlock{ID: id, Name: "look", Input: json.RawMessage(`{}`), Extra: transcript.Extra{"skill_uri": json.RawMessage(`"viking://skills/look/"`)}}
	}
	add(t, s, transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{auth, call("done"), call("bad"), call("runs"), call("waits")}}})
	add(t, s, transcript.ToolStatus{CallID: "done", Status: "running"})
	add(t, s, transcript.ToolResult("done", "found"))
	add(t, s, transcript.ToolError("bad", "no"))
	add(t, s, transcript.ToolStatus{CallID: "runs", Status: "running"})

	files := exportTo(t, st, s.Ref(), dialect.OpenViking)
	lines := strings.Split(string(files["session/"+s.Ref().ID+"/messages.jsonl"].Data), "\n")
	require.Len(t, lines, 3)
	const context = `{"type":"context","uri":"viking://resources/docs/auth/","context_type":"resource","abstract":"A guide"}`
	require.Contains(t, lines[0], context)
	require.Contains(t, lines[1], context)
	require.NotContains(t, strings.Join(lines, ""), "[resource")
	var m struct {
		Parts []struct {
			ID     string `json:"tool_id"`
			Skill  string `json:"skill_uri"`
			Status string `json:"tool_status"`
			Output string `json:"tool_output"`
		} `json:"parts"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &m))
	for i, want := range []string{"done completed found", "bad error no", "runs running ", "waits pending "} {
		p := m.Parts[i+1]
		require.Equal(t, want, p.ID+" "+p.Status+" "+p.Output)
		require.Equal(t, "viking://skills/look/", p.Skill)
	}
	again := inMemory()
	back := importAll(t, again, sessionsIn(t, files), nil)
	twice := exportTo(t, again, back[0].Session, dialect.OpenViking)
	for _, want := range []string{context, `"tool_status":"running"`, `"tool_status":"pending"`} {
		if !strings.Contains(string(twice["session/"+back[0].Session.ID+"/messages.jsonl"].Data), want) {
			t.Errorf("imported and exported again without %s", want)
		}
	}
}

// vikingFolder is a session with archives, a tool, relations and memories.
func vikingFolder() fstest.MapFS {
	file := func(lines ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n") + "\n")}
	}
	line := func(id, role, parts string) string {
		return `{"id":"msg_` + strings.Repeat("0", 28) + id + `","role":"` + role + `","parts":[` + parts + `],"created_at":"2026-03-01T09:00:00.000001"}`
	}
	text := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	return fstest.MapFS{
		"session/s1/messages.jsonl":                     file(line("0005", "user", text("and a third time"))),
		"session/s1/.abstract.md":                       {},
		"session/s1/history/archive_001/messages.jsonl": file(line("0001", "user", text("once")), line("0002", "assistant", text("Once.")+`,{"type":"context","uri":"viking://resources/a/","context_type":"resource","abstract":"A"},{"type":"tool","tool_id":"call_1","tool_name":"look","tool_uri":"viking://session/s1/tools/call_1","skill_uri":"viking://skills/look/","tool_status":"completed","tool_input":{"q":1},"tool_output":"seen"}`)),
		"session/s1/history/archive_001/.overview.md":   file("# Session Summary", "", "**One-sentence overview**: Counting: once | counted"),
		"session/s1/history/archive_001/.abstract.md":   {Data: []byte("Counting: once | counted")},
		"session/s1/history/archive_003/messages.jsonl": file(line("0003", "user", text("第二次")), line("0004", "assistant", text("好的"))),
		"session/s1/history/archive_003/.overview.md":   file("# Session Summary", "", "**Overview**: 1 turns, 2 messages"),
		"session/s1/history/archive_003/.abstract.md":   {Data: []byte("1 turns, 2 messages")},
		"session/s1/tools/call_1/tool.json":             file(`{"tool_id":"call_1","tool_name":"look","session_id":"s1","input":{"q":1},"output":"seen","status":"completed","time":{"created":"2026-03-01T09:00:00.000002"}}`),
		"session/s1/.relations.json":                    file(`[{"id":"link_1","uris":["viking://resources/a/"],"reason":"","created_at":"2026-03-01T09:00:00.000003"},{"id":"link_2","uris":["viking://resources/a/"],"reason":"","created_at":"2026-03-01T09:00:00.000004"}]`),
		"user/memories/preferences/mem_1.md":            file("Counts aloud"),
	}
}

// The commits of an imported session are the archives of its source, and an export of it
// contains the same archives.
func TestImportArchives(t *testing.T) {
	st := inMemory()
	source := vikingFolder()
	im := importAll(t, st, sessionsIn(t, source), nil)[0]
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	heads := map[string]string{} // text by ID
	var commits []transcript.Commit
	var ids []string
	used := -1 // commits before uses
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			heads[e.ID] = b.Message().Text()
		case transcript.Commit:
			commits, ids = append(commits, b), append(ids, e.ID)
		case transcript.Used:
			require.Equal(t, []string{"viking://resources/a/"}, b.Contexts)
			used = len(commits)
		default:
		}
	}
	require.Len(t, commits, 2)
	require.Equal(t, 1, used, "what was linked was used before the last commit, so the next one does not count it again")
	for i, want := range []struct {
		n     int
		first string
	}{{1, "once"}, {3, "第二次"}} {
		c := commits[i]
		require.Equal(t, want.n, c.N)
		require.Equal(t, 2, c.Messages)
		require.Len(t, c.Runs, 1)
		require.Equal(t, want.first, heads[c.FirstEntry])
		require.Equal(t, transcript.Run{First: c.FirstEntry, Last: c.LastEntry}, c.Runs[0])
		require.Contains(t, heads, c.LastEntry)
	}
	require.Equal(t, ids[:1], commits[1].Open)
	require.Equal(t, transcript.CommitStats{Commits: 2, Contexts: 1}, commits[1].Stats)

	out := exportTo(t, st, im.Session, dialect.OpenViking)
	root := "session/" + im.Session.ID + "/"
	for name, f := range source {
		name, isSession := strings.CutPrefix(name, "session/s1/")
		if !isSession || name == ".abstract.md" {
			continue
		}
		written := out[root+name]
		require.NotNil(t, written, name)
		if strings.HasSuffix(name, ".md") {
			require.Equal(t, string(f.Data), string(written.Data), name)
		}
		require.Equal(t, strings.Count(string(f.Data), `"role"`), strings.Count(string(written.Data), `"role"`), name)
	}
	require.Equal(t, 1, strings.Count(string(out[root+".relations.json"].Data), "viking://resources/a/"))
	report, err := exchange.Import(t.Context(), st, sessionsIn(t, source), nil)
	require.NoError(t, err)
	require.Equal(t, 0, report[0].Appended)
}

// Chapters of an imported session belong to the owner of the scope, so that memories
// can be made of them.
func TestImportArchivesOfOwner(t *testing.T) {
	st, err := inMemory().Scope("ana")
	require.NoError(t, err)
	im := importAll(t, st, sessionsIn(t, vikingFolder()), nil)[0]
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	chapters, err := memory.Chapters(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, chapters, 2)
	require.Equal(t, "ana", storetest.Info(t, s).Owner)
}

// A commit of an imported session continues where the source has ended, and
// moves no entry of a chapter.
func TestImportedCommit(t *testing.T) {
	st := inMemory()
	source := vikingFolder()
	delete(source, "session/s1/history/archive_003/messages.jsonl")
	im := importAll(t, st, sessionsIn(t, source), nil)[0]
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	add(t, s, transcript.AssistantText("Three times."))
	done, err := memory.Commit(t.Context(), s, nil)
	require.NoError(t, err)
	require.True(t, done.Chapter != "")
	require.Equal(t, "chapter_002", done.Chapter)
	require.Equal(t, 2, done.Messages)
	var names []string
	chapters, err := memory.Chapters(t.Context(), s)
	require.NoError(t, err)
	for _, a := range chapters {
		names = append(names, a.Name)
	}
	require.Equal(t, []string{"chapter_001", "chapter_002"}, names)
	first, err := memory.ReadChapter(t.Context(), s, "chapter_001")
	require.NoError(t, err)
	require.Equal(t, "once", first.Messages[0].Text())
	out := exportTo(t, st, im.Session, dialect.OpenViking)
	archived := string(out["session/"+im.Session.ID+"/history/archive_002/messages.jsonl"].Data)
	require.Contains(t, archived, "and a third time")
	require.Contains(t, archived, "Three times.")
	require.NotContains(t, archived, "once")
	require.Equal(t, done.Overview, string(out["session/"+im.Session.ID+"/history/archive_002/.overview.md"].Data))
	require.Equal(t, done.Abstract, string(out["session/"+im.Session.ID+"/history/archive_002/.abstract.md"].Data))
	require.Empty(t, out["session/"+im.Session.ID+"/messages.jsonl"].Data)
}
