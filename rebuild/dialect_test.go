package rebuild_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// foldForeign folds a file of another program and renders it after a user
// text.
func foldForeign(t *testing.T, text string) (_ *rebuild.Fold, entries int, damage []transcript.Damage) {
	t.Helper()
	r, size := strings.NewReader(text), int64(len(text))
	d, _, err := dialect.Detect(r, size)
	require.NoError(t, err)
	opts, err := d.ScanOptions()
	require.NoError(t, err)
	opts.Final = true
	f := rebuild.New(nil)
	for rec, err := range transcript.Scan(r, size, opts) {
		switch {
		case err != nil:
			t.Fatal(err)
		case rec.Damage != nil:
			damage = append(damage, *rec.Damage)
		default:
			entries++
			require.NoError(t, f.Add(transcript.Batch{Entries: []transcript.Entry{rec.Entry}, Complete: true}))
		}
	}
	checkCanonical(t, f.History())
	if h := f.History(); len(h.Messages) > 0 {
		next := append(slices.Clip(h.Messages), transcript.UserText("next"))
		if last := h.Messages[len(h.Messages)-1]; last.Role == transcript.RoleUser {
			next = h.Messages
		}
		checkRendered(t, rebuild.History{System: h.System, Messages: next})
	}
	return f, entries, damage
}

// Records of mini-claw and claw0, in the order in which they wrote them.
func TestForeignHistories(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{
			"mini-claw: results come before the user's text and the calls",
			`{"type": "session", "id": "0123456789ab", "key": "main:cli:user", "created": "2026-02-24T10:00:00+00:00"}
{"type": "tool_result", "tool_use_id": "tu_1", "output": "hello", "ts": "2026-02-24T10:00:03+00:00"}
{"type": "tool_result", "tool_use_id": "tu_2", "output": "a.txt", "ts": "2026-02-24T10:00:03+00:00"}
{"type": "user", "content": "read a.txt", "ts": "2026-02-24T10:00:01+00:00"}
{"type": "assistant", "content": "Let me look.", "ts": "2026-02-24T10:00:02+00:00"}
{"type": "tool_use", "name": "read_file", "tool_use_id": "tu_1", "input": {"path": "a.txt"}, "ts": "2026-02-24T10:00:02+00:00"}
{"type": "tool_use", "name": "list_directory", "tool_use_id": "tu_2", "input": {}, "ts": "2026-02-24T10:00:02+00:00"}
{"type": "assistant", "content": "done", "ts": "2026-02-24T10:00:04+00:00"}
{"type": "user", "content": "thanks", "ts": "2026-02-24T10:00:05+00:00"}
`,
			"user read a.txt\n" +
				"assistant [Let me look.] call(tu_1 read_file {\"path\": \"a.txt\"}) call(tu_2 list_directory {})\n" +
				"user result(tu_1 hello) result(tu_2 a.txt)\nassistant done\nuser thanks\n",
		},
		{
			"mini-claw: calls at the end of the file, a result without its call",
			`{"type": "session", "id": "0123456789ab", "key": "main:cli:user", "created": "2026-02-24T10:00:00+00:00"}
{"type": "user", "content": "go", "ts": "2026-02-24T10:00:01+00:00"}
{"type": "tool_result", "tool_use_id": "gone", "output": "x", "ts": "2026-02-24T10:00:02+00:00"}
{"type": "tool_use", "name": "f", "tool_use_id": "a", "input": {}, "ts": "2026-02-24T10:00:02+00:00"}
{"type": "tool_use", "name": "f", "tool_use_id": "b", "input": {}, "ts": "2026-02-24T10:00:02+00:00"}
{"type": "tool_use", "name": "f", "tool_use_id": "c", "input": {}, "ts": "2026-02-24T10:00:02+00:00"}
`,
			"user go\nassistant call(a f {}) call(b f {}) call(c f {})\n" +
				"user result!(a interrupted) result!(b interrupted) result!(c interrupted)\n",
		},
		{
			"claw0: every call is recorded twice",
			`{"type": "user", "content": "hi", "ts": 1771927201.0}
{"type": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "A", "name": "read_file", "input": {"p": "a"}}, {"type": "tool_use", "id": "B", "name": "read_file", "input": {"p": "b"}}], "ts": 1771927202.0}
{"type": "tool_use", "tool_use_id": "A", "name": "read_file", "input": {"p": "a"}, "ts": 1771927203.0}
{"type": "tool_result", "tool_use_id": "A", "content": "ra", "ts": 1771927203.0}
{"type": "tool_use", "tool_use_id": "B", "name": "read_file", "input": {"p": "b"}, "ts": 1771927204.0}
{"type": "tool_result", "tool_use_id": "B", "content": "rb", "ts": 1771927204.0}
{"type": "assistant", "content": "done", "ts": 1771927205.0}
`,
			"user hi\nassistant [Let me look.] call(A read_file {\"p\": \"a\"}) call(B read_file {\"p\": \"b\"})\n" +
				"user result(A ra) result(B rb)\nassistant done\n",
		},
		{
			"claw0: calls with records of their own alone, one round after the other",
			`{"type": "user", "content": "hi", "ts": 1}
{"type": "assistant", "content": [{"type": "text", "text": "one"}], "ts": 2}
{"type": "tool_use", "tool_use_id": "A", "name": "f", "input": {}, "ts": 3}
{"type": "tool_result", "tool_use_id": "A", "content": "ra", "ts": 3}
{"type": "tool_use", "tool_use_id": "B", "name": "f", "input": {}, "ts": 4}
{"type": "tool_result", "tool_use_id": "B", "content": "rb", "ts": 4}
`,
			"user hi\nassistant [one] call(A f {})\nuser result(A ra)\nassistant call(B f {})\nuser result(B rb)\n",
		},
		{
			"consecutive messages of one role",
			`{"type": "user", "content": "try 1", "ts": 1}
{"type": "user", "content": "try 2", "ts": 2}
{"type": "assistant", "content": [{"type": "text", "text": "a"}], "ts": 3}
{"type": "assistant", "content": "b", "ts": 4}
`,
			"user [try 1] [try 2]\nassistant [a] [b]\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, _, _ := foldForeign(t, tt.file)
			require.Equal(t, tt.want, show(f.History()))
		})
	}
}

// The sample files: every record is an entry or damage,
// the histories are those that the files are known for, and they are valid.
func TestCorpora(t *testing.T) {
	const dir = "../transcript/dialect/testdata/corpora"
	roles := map[string]string{ // of the histories; the manifest states them
		"hazards/claw0/02-duplicated-tool-use.jsonl":                           "uaua",
		"hazards/claw0/03-string-assistant.jsonl":                              "ua",
		"hazards/claw0/05-invalid-utf8.jsonl":                                  "ua", // the placeholder and the message that is kept
		"hazards/mini-claw/02-results-before-calls.jsonl":                      "uaua",
		"hazards/mini-claw/03-torn-last-line.jsonl":                            "ua",
		"hazards/mini-claw/04-append-after-torn.jsonl":                         "uaua",
		"hazards/mini-claw/05-unicode-line-separators.jsonl":                   "uau",
		"hazards/mini-claw/06-scalar-and-array-lines.jsonl":                    "ua",
		"hazards/mini-claw/08-header-without-key.jsonl":                        "u",
		"hazards/mini-claw/10-no-final-newline.jsonl":                          "ua",
		"hazards/mini-claw/11-unknown-type.jsonl":                              "ua",
		"hazards/mini-claw/index/transcripts/a_b_c_d_111111111111.jsonl":       "u",
		"hazards/mini-claw/index/transcripts/a_b_c_d_222222222222.jsonl":       "u",
		"hazards/mini-claw/index/transcripts/main_cli_user_444444444444.jsonl": "u",
		"observed/claw0/agents/claw0/sessions/63ec782c009e.jsonl":              "uaua",
		"observed/claw0/agents/claw0/sessions/6da8ebb05241.jsonl":              "uauaua",
		"observed/mini-claw/transcripts/main_cli_user_8edd103fb1cb.jsonl":      "uauaua",
	}
	seen := 0
	for _, sub := range []string{"hazards/claw0", "hazards/mini-claw", "observed/claw0", "observed/mini-claw"} {
		err := filepath.WalkDir(filepath.Join(dir, sub), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".jsonl" || strings.Contains(e.Name(), "zyhive") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			f, entries, damage := foldForeign(t, string(data))
			lines := 0
			for line := range strings.Lines(string(data)) {
				if strings.TrimSpace(line) != "" {
					lines++
				}
			}
			if glued := strings.Contains(name, "04-append-after-torn"); entries+len(damage) != lines && !glued {
				t.Errorf("%s: %d entries and %d damages of %d lines", name, entries, len(damage), lines)
			}
			want, ok := roles[filepath.ToSlash(name)]
			if !ok && entries > 1 {
				t.Errorf("%s: a file this test does not know", name)
			}
			var got strings.Builder
			for _, m := range f.History().Messages {
				got.WriteString(string(m.Role[0]))
			}
			if got.String() != want {
				t.Errorf("%s: roles %q, want %q", name, got.String(), want)
			}
			seen++
			return nil
		})
		require.NoError(t, err)
	}
	if seen < len(roles) {
		t.Errorf("%d files, want at least %d", seen, len(roles))
	}
}
