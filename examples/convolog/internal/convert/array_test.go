package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

// The form of an array is the one whose reader understands most of it.
func TestDetect(t *testing.T) {
	for data, want := range map[string]string{
		`[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]`:                                   "openai-chat",
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`:                          "openai-chat",
		`[{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}]`: "openai-chat",
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}]`:       "openai-chat",
		`{"system":"s","messages":[{"role":"user","content":"hi"}]}`:                                             "anthropic",
		`[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}]`:                  "anthropic",
		`{"input":[{"role":"user","content":"hi"}]}`:                                                             "openai-responses",
		`[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]`:    "openai-responses",
		`[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]`:                                        "openai-responses",
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`:                                                 "gemini",
		`[{"role":"model","parts":[{"text":"hi"}]}]`:                                                             "gemini",
		`[{"role":"user","content":[{"text":"hi"}]}]`:                                                            "bedrock",
		`{"system":[{"text":"s"}],"messages":[{"role":"user","content":[{"text":"hi"}]}]}`:                       "bedrock",
	} {
		form, err := detect([]byte(data))
		require.NoError(t, err, data)
		require.Equal(t, want, form, data)
	}
	_, err := detect([]byte(`[{"role":"user","content":"a","parts":[{"text":"b"}]}]`))
	require.ErrorContains(t, err, "openai-chat, gemini: name one with --from")
	for _, data := range []string{`{"a":1}`, `[]`, `[1]`, `"x"`, `{`, `[{"mapping":{}}]`} {
		_, err := detect([]byte(data))
		require.ErrorContains(t, err, "not the array of a provider", data)
	}
}

const chatArray = `[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}`

// An array comes in once, and later messages of it after a second import.
func TestConvertArray(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "store")
	file := filepath.Join(from, "my chat.json")
	write := func(name, data string) {
		t.Helper()
		require.NoError(t, os.WriteFile(name, []byte(data), 0o600))
	}
	write(filepath.Join(from, "package.json"), `{"name":"x"}`)
	for _, step := range []struct{ from, data, want string }{
		{file, chatArray + "]", "2 of 2 records are new"},
		{from, chatArray + "]", "0 of 2 records are new"},
		{from, chatArray + `,{"role":"user","content":"and?"}]`, "1 of 3 records are new"},
	} {
		write(file, step.data)
		var out bytes.Buffer
		require.NoError(t, convert(t, &out, dialect.Native, to, step.from))
		require.Contains(t, out.String(), "openai-chat my chat, ")
		require.Contains(t, out.String(), step.want)
	}
	require.Equal(t, []string{"|user hi|assistant ho|user and?"}, histories(t, to))

	// The user names the form of an array that has several.
	write(file, `[{"role":"user","content":"a","parts":[{"text":"b"}]}]`)
	require.ErrorContains(t, convert(t, new(bytes.Buffer), dialect.Native, to, file), "--from")
	for form, want := range map[string]string{"openai-chat": "|user a", "gemini": "|user b"} {
		dir := filepath.Join(t.TempDir(), "store")
		require.NoError(t, Job{From: form, from: []string{file}, to: "native", dir: dir}.failure(t.Context(), new(bytes.Buffer)))
		require.Equal(t, []string{want}, histories(t, dir))
	}
	err := Job{From: "claw0", from: []string{file}, to: "native", dir: to}.failure(t.Context(), new(bytes.Buffer))
	require.ErrorContains(t, err, strings.Join(forms, `" "`))
}

// A file with messages that no form holds is named, one without messages is left out.
func TestRefusedArrayOfFolder(t *testing.T) {
	from := t.TempDir()
	for name, data := range map[string]string{
		"chat.json":    chatArray + "]",
		"refused.json": `[{"role":"user","content":"hi"},{"role":"function","name":"f","content":"r"}]`,
		"data.json":    `[1,2,3]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(data), 0o600))
	}
	for _, form := range []string{"", "openai-chat"} {
		sessions, err := Find(from, form)
		require.NoError(t, err)
		names := map[string]error{}
		for s := range sessions {
			names[s.Info().Path] = s.Info().Err
			for _, err := range s.Records() {
				require.Equal(t, s.Info().Err, err)
			}
		}
		require.Len(t, names, 2)
		require.NoError(t, names["chat.json"])
		require.ErrorContains(t, names["refused.json"], `refused.json: `)
		require.ErrorContains(t, names["refused.json"], `"/1/role"`)
	}
	var out bytes.Buffer
	require.ErrorContains(t, convert(t, &out, dialect.Native, filepath.Join(t.TempDir(), "store"), from), "refused.json")
	require.Contains(t, out.String(), "1 sessions written")
	require.Contains(t, out.String(), "1 failed")
}
