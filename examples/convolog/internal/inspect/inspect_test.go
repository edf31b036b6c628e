package inspect

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestInspect(t *testing.T) {
	miniClaw := write(t, "mini.jsonl", `{"type": "session", "id": "0123456789ab", "key": "main:cli:user", "created": "2026-02-24T10:00:00.000000+00:00"}
{"type": "tool_result", "tool_use_id": "t1", "output": "hello", "ts": "2026-02-24T10:00:03.000000+00:00"}
{"type": "user", "content": "read a.txt", "ts": "2026-02-24T10:00:01.000000+00:00"}
{"type": "tool_use", "name": "read_file", "tool_use_id": "t1", "input": {}, "ts": "2026-02-24T10:00:02.000000+00:00"}
42
{"type": "assistant", "content": "do`)
	claw0 := write(t, "claw0.jsonl", `{"type": "user", "content": "hi", "ts": 1771927201.5}
{"type": "assistant", "content": [{"type": "text", "text": "hello"}], "ts": 1771927202.5}
`)
	dir := t.TempDir()
	st, err := session.Open(dir, nil)
	require.NoError(t, err)
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("hi"))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	native := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	other := write(t, "other.jsonl", "a,b,c\n1,2,3\n")

	before := map[string]string{}
	files := []string{miniClaw, claw0, native, other}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		before[f] = string(data)
	}
	var text, lines bytes.Buffer
	require.NoError(t, Run(&text, false, files))
	for _, want := range []string{
		"dialect   mini-claw\n", "session   0123456789ab  key main:cli:user", "not-object: 2 bytes at offset", "torn: ", "moved-result at entry @",
		"history   3 messages, 1 turns", "dialect   claw0\n", "history   2 messages", "dialect   native\n", "none that is known",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	require.NoError(t, Run(&lines, true, files))
	dec := json.NewDecoder(&lines)
	var got []Finding
	for dec.More() {
		var f Finding
		require.NoError(t, dec.Decode(&f))
		got = append(got, f)
	}
	require.Len(t, got, 4)
	require.Len(t, got[0].Damage, 2)
	require.Equal(t, 1, got[0].Entries["tool_use"])
	require.Equal(t, 1, got[2].Messages)
	require.Equal(t, s.Ref().ID, got[2].Session)
	require.Empty(t, got[3].Dialect)
	for _, f := range files {
		if data, err := os.ReadFile(f); err != nil || string(data) != before[f] {
			t.Errorf("%s was changed, %v", f, err)
		}
	}
}

func TestInspectBadFiles(t *testing.T) {
	good := write(t, "good.jsonl", `{"type":"user","content":"x","ts":1}`+"\n")
	var out bytes.Buffer
	err := Run(&out, false, []string{"nowhere.jsonl", os.DevNull, t.TempDir(), good})
	require.Error(t, err)
	require.Contains(t, err.Error(), "nowhere.jsonl")
	require.Contains(t, err.Error(), "not a regular file")
	if !strings.Contains(out.String(), "good.jsonl") {
		t.Errorf("the good file was not inspected:\n%s", &out)
	}
}

// The content of a file cannot command the terminal or add lines to the output.
func TestInspectControls(t *testing.T) {
	const header = `{"type":"session","id":"a\u001b[2J\nfake","key":"k\u202e","created":"2026-03-01T09:00:00Z"}` + "\n"
	var out bytes.Buffer
	require.NoError(t, Run(&out, false, []string{write(t, "a.jsonl", header)}))
	if want := "  session   a\uFFFD[2J\uFFFDfake  key k\uFFFD\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%q", want, &out)
	}
}

// Of a folder every session is shown, with what the program's index says.
func TestInspectFolder(t *testing.T) {
	const root = "../../../../transcript/dialect/testdata"
	folders := []string{root + "/pi", root + "/openviking", root + "/zyhive", root + "/mini-claw"}
	var text, lines bytes.Buffer
	require.NoError(t, Run(&text, false, folders))
	for _, want := range []string{
		"index     agents/main/sessions/sessions.json: pi, 2 sessions\n", "0190-tree.jsonl.bak-12-34", "session   0190-tree  key agent:main:telegram:direct:7\n",
		"  title     Named\n  labels    good\n", "2  of these custom: branch\n", "error     dialect: agents/main/sessions/sessions.json lists it", "1 other files, 1 memories",
		"dialect   openviking\n  session   s1", "archive   session/s1/history/archive_001\n", "8  of these custom: repeat\n", "torn: ",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	require.NoError(t, Run(&lines, true, folders))
	dec := json.NewDecoder(&lines)
	n := 0
	for dec.More() {
		var f Finding
		require.NoError(t, dec.Decode(&f))
		if n++; f.Error == "" && (f.Dialect == "" || !f.Sure || f.Session == "") {
			t.Errorf("found %+v", f)
		}
	}
	require.Equal(t, strings.Count(text.String(), "\n  dialect   "), n)
}

// The JSON arrays of a folder are shown as those that an import brings in.
func TestInspectArrays(t *testing.T) {
	file := write(t, "chat-17.json", `[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]`)
	write(t, "package.json", `{"name":"x"}`)
	var out bytes.Buffer
	require.NoError(t, Run(&out, false, []string{filepath.Dir(file)}))
	require.Contains(t, out.String(), "dialect   openai-chat")
	require.Contains(t, out.String(), "session   chat-17")
	require.Equal(t, 1, strings.Count(out.String(), "  session "))
}
