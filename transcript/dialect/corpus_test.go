package dialect_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// corpora returns the folder of sample files, and fails the test at its end if
// reading has changed one of them.
func corpora(t *testing.T) fs.FS {
	t.Helper()
	fsys := os.DirFS(filepath.Join("testdata", "corpora"))
	before := hashes(t, fsys)
	t.Cleanup(func() {
		if after := hashes(t, fsys); !maps.Equal(before, after) {
			t.Error("reading has changed the files")
		}
	})
	return fsys
}

func hashes(t *testing.T, fsys fs.FS) map[string][sha256.Size]byte {
	t.Helper()
	sums := map[string][sha256.Size]byte{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		sums[name] = sha256.Sum256(data)
		return err
	})
	require.NoError(t, err)
	return sums
}

// open returns the records and the text of a file.
func open(t *testing.T, fsys fs.FS, name string, d dialect.Dialect) ([]transcript.Record, string) {
	t.Helper()
	data, err := fs.ReadFile(fsys, name)
	require.NoError(t, err)
	if !slices.Contains(flat, d) {
		return scan(t, d, string(data)), string(data)
	}
	return read(t, d, string(data)), string(data)
}

// scan returns the records of data.
func scan(t testing.TB, d dialect.Dialect, data string) []transcript.Record {
	t.Helper()
	var recs []transcript.Record
	for rec, err := range d.Scan(strings.NewReader(data), int64(len(data)), &transcript.ScanOptions{Final: true}) {
		require.NoError(t, err)
		recs = append(recs, rec)
	}
	return recs
}

// The findings that the manifest states for each file, in the words of kinds,
// and a text to look for in some records. The tests of examples/convolog check
// the histories.
var hazards = map[string]struct {
	want string
	in   map[int]string // by record: a part of what show says
}{
	"claw0/02-duplicated-tool-use.jsonl": {
		"user assistant tool_use tool_result tool_use tool_result assistant",
		map[int]string{1: `"id":"toolu_B"`, 2: `"id":"toolu_A"`, 4: `"id":"toolu_B"`},
	},
	"claw0/03-string-assistant.jsonl":   {"user assistant", map[int]string{1: "plain string"}},
	"claw0/05-invalid-utf8.jsonl":       {"!utf8 assistant", map[int]string{1: "ok"}},
	"mini-claw/03-torn-last-line.jsonl": {"session user assistant !torn", nil},
	"mini-claw/02-results-before-calls.jsonl": {
		"session tool_result tool_result user assistant tool_use tool_use assistant",
		map[int]string{1: `"tool_use_id":"tu_1","content":"hello"`, 5: `"id":"tu_1"`},
	},
	"mini-claw/04-append-after-torn.jsonl": {"session user assistant !torn user assistant", map[int]string{4: "after-torn"}},
	"mini-claw/05-unicode-line-separators.jsonl": {
		"session user assistant user", map[int]string{1: `line\u2028sep`, 2: "nel\u0085here"},
	},
	"mini-claw/06-scalar-and-array-lines.jsonl":                    {"session user !not-object !not-object !not-object !not-object assistant", nil},
	"mini-claw/08-header-without-key.jsonl":                        {"session user", map[int]string{0: "session 0123456789ab "}},
	"mini-claw/10-no-final-newline.jsonl":                          {"session user assistant", nil},
	"mini-claw/11-unknown-type.jsonl":                              {"session user usage assistant", map[int]string{2: "unknown usage"}},
	"mini-claw/index/transcripts/a_b_c_d_111111111111.jsonl":       {"session user", map[int]string{0: "a:b_c:d"}},
	"mini-claw/index/transcripts/a_b_c_d_222222222222.jsonl":       {"session user", map[int]string{0: "a_b:c:d"}},
	"mini-claw/index/transcripts/main_cli_user_444444444444.jsonl": {"session user", map[int]string{0: "main:cli:user", 1: "orphan transcript"}},
	"openviking/01-parts.jsonl": {"user assistant tool_result", map[int]string{
		0: "How do I authenticate?", 1: `{"type":"context","uri":"viking://resources/docs/auth/"`, 2: `"tool_use_id":"call_123","content":"Results..."`,
	}},
	"openviking/02-torn-last-line.jsonl": {"user assistant !torn", nil},
	"openviking/04-legacy-content.jsonl": {"user user", map[int]string{0: `"content":"legacy text"`}},
	"openviking/05-pending-tool.jsonl":   {"user assistant tool_status", map[int]string{1: `"id":"call_123"`, 2: `Status:"running"`}},
	"zyhive/01-seed-compaction.jsonl": {
		"session user assistant user assistant user assistant user assistant user assistant user assistant compaction user",
		map[int]string{11: `"m11"`, 13: `first="@1200"`},
	},
	"zyhive/02-reappended-compaction.jsonl": {
		"session user assistant user assistant user assistant compaction custom custom user", map[int]string{5: `"m5"`, 7: `first="@469"`, 8: "repeat", 10: `"m7"`},
	},
	"zyhive/04-two-compactions.jsonl":   {"session user compaction user assistant compaction custom", map[int]string{2: `"S1"`, 5: "S2 (made without S1)", 6: "repeat"}},
	"zyhive/05-consecutive-roles.jsonl": {"session user user user assistant assistant", nil},
	"zyhive/07-duplicate-header.jsonl":  {"session user session user", nil},
}

func TestHazards(t *testing.T) {
	fsys := corpora(t)
	data, err := fs.ReadFile(fsys, "hazards/manifest.json")
	require.NoError(t, err)
	var manifest []struct {
		File, Dialect, Expect string
		Bytes                 int
	}
	require.NoError(t, json.Unmarshal(data, &manifest))
	missing := maps.Clone(hazards)
	for _, row := range manifest {
		d := dialect.Dialect(row.Dialect)
		t.Run(row.File, func(t *testing.T) {
			name := "hazards/" + row.File
			if filepath.Ext(name) == ".json" {
				// An index: it is not taken for a transcript, and its data
				// about transcripts does not matter here.
				got, sure, err := detect(t, fsys, name)
				require.Empty(t, got)
				require.False(t, sure)
				require.NoError(t, err)
				return
			}
			tt, ok := hazards[row.File]
			require.True(t, ok, row.Expect)
			delete(missing, row.File)
			recs, text := open(t, fsys, name, d)
			require.Equal(t, row.Bytes, len(text))
			require.Equal(t, tt.want, kinds(recs), row.Expect)
			for i, want := range tt.in {
				if got := show(recs[i]); !strings.Contains(got, want) {
					t.Errorf("record %d is %s, want in it %s", i, got, want)
				}
			}
			got, sure, err := detect(t, fsys, name)
			require.Equal(t, d, got)
			require.True(t, sure)
			require.NoError(t, err)
		})
	}
	for name := range missing {
		t.Errorf("%s is not in the manifest", name)
	}
}

func detect(t *testing.T, fsys fs.FS, name string) (dialect.Dialect, bool, error) {
	t.Helper()
	data, err := fs.ReadFile(fsys, name)
	require.NoError(t, err)
	return dialect.Detect(bytes.NewReader(data), int64(len(data)))
}

// Every line that the programs wrote is a record of a known type and, unless
// it is a header, has a time.
func TestObserved(t *testing.T) {
	fsys := corpora(t)
	var names []string
	for _, pattern := range []string{
		"observed/claw0/agents/*/sessions/*.jsonl", "observed/mini-claw/transcripts/*.jsonl",
	} {
		found, err := fs.Glob(fsys, pattern)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		d := dialect.Claw0
		if strings.Contains(name, "mini-claw") {
			d = dialect.MiniClaw
		}
		recs, text := open(t, fsys, name, d)
		if got, want := len(recs), strings.Count(strings.TrimSpace(text), "\n")+1; got != want {
			t.Errorf("%s: %d records of %d lines", name, got, want)
		}
		for _, r := range recs {
			_, isFragment := r.Entry.Body.(transcript.MessageLine)
			_, isHeader := r.Entry.Body.(transcript.Header)
			if !isFragment && !isHeader {
				t.Errorf("%s: at %d: %s", name, r.Offset, show(r))
			}
			if isFragment && r.Entry.Time.IsZero() {
				t.Errorf("%s: at %d: no time", name, r.Offset)
			}
		}
		if got, sure, err := detect(t, fsys, name); got != d || !sure || err != nil {
			t.Errorf("%s: Detect = %q, %v, %v", name, got, sure, err)
		}
	}
}

// What Codex, Gemini CLI and opencode wrote of a conversation with a call, a result and
// an answer. The second turn of Codex begins with a compaction.
func TestObservedPrograms(t *testing.T) {
	fsys := corpora(t)
	for program, want := range map[string]string{
		"codex":      "user assistant tool_use tool_result assistant compaction user assistant",
		"gemini-cli": "user assistant tool_result assistant",
		"opencode":   "user assistant tool_result assistant user assistant",
	} {
		sub, err := fs.Sub(fsys, "observed/"+program)
		require.NoError(t, err)
		folder, err := dialect.ReadFolder(sub)
		require.NoError(t, err)
		require.Empty(t, folder.Others)
		n := 0
		for s := range folder.Sessions() {
			n++
			require.NoError(t, s.Err)
			require.Equal(t, dialect.Dialect(program), s.Dialect)
			require.Empty(t, s.Unknown, program)
			require.Empty(t, s.Damage, program)
			require.NotEmpty(t, s.Title, program)
			require.False(t, s.Created.IsZero(), program)
			var said []string
			calls := map[string]int{}
			for r, err := range s.Records() {
				require.NoError(t, err)
				switch b := r.Entry.Body.(type) {
				case transcript.Compaction:
					said = append(said, r.Entry.Type())
					require.NotEmpty(t, b.Summary)
					require.NotEmpty(t, b.CoversTo)
				case transcript.MessageLine:
					said = append(said, b.Kind)
					require.False(t, r.Entry.Time.IsZero())
					if b.Model != "" {
						require.Equal(t, transcript.Usage{Input: 500, Output: b.Usage.Output, CacheRead: 400}, b.Usage, program)
					}
					for _, c := range b.Content {
						switch c := c.(type) {
						case transcript.ToolCallBlock:
							calls[c.ID]++
						case transcript.ToolResultBlock:
							calls[c.CallID]--
						}
					}
				}
			}
			require.Equal(t, want, strings.Join(said, " "), program)
			for id, left := range calls {
				require.Zero(t, left, id)
			}
		}
		require.Equal(t, 1, n, program)
	}
}

// more names a folder with more sample files, by others and not in this module.
var more = flag.String("corpora", "", "a folder with more sample files")

// Detect recognises that files are not transcripts.
func TestForeign(t *testing.T) {
	roots := []string{filepath.Join("testdata", "corpora")}
	if *more != "" {
		roots = append(roots, *more)
	}
	for _, root := range roots {
		fsys := os.DirFS(root)
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(name, "tokens/") && d.Name() != "transcript.jsonl" {
				return err
			}
			want := dialect.Dialect("")
			if name == "observed/opencode/session.json" {
				want = dialect.OpenCode
			}
			if ext := path.Ext(name); ext == ".jsonl" && !strings.HasPrefix(name, "from-repos/") && !strings.HasPrefix(name, "tokens/") {
				for part, d := range map[string]dialect.Dialect{
					"mini-claw": dialect.MiniClaw, "claw0": dialect.Claw0, "zyhive": dialect.ZyHive, "openviking": dialect.OpenViking, "pi/": dialect.Pi,
					"codex/": dialect.Codex, "gemini-cli/": dialect.GeminiCLI,
				} {
					if strings.Contains(name, part) {
						want = d
					}
				}
				if strings.Contains(name, "/convlogs/") || strings.Contains(name, "/conversations/") {
					want = dialect.ZyHiveLog
				}
				if info, err := d.Info(); err == nil && info.Size() == 0 {
					want = ""
				}
			}
			if got, sure, err := detect(t, fsys, name); got != want || sure != (want != "") || err != nil {
				t.Errorf("%s: Detect = %q, %v, %v, want %q", name, got, sure, err, want)
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// The samples of pi give the same messages as pi itself, before neighbours of
// one role are merged.
func TestPiSamples(t *testing.T) {
	fsys := corpora(t)
	for name, want := range map[string]string{
		"pi/s1-linear.jsonl":     "session custom custom user assistant tool_result tool_result assistant tool_result assistant",
		"pi/s2-tree.jsonl":       "session custom user assistant custom custom user user user assistant custom custom user meta",
		"pi/s3-compaction.jsonl": "session user assistant user assistant compaction user assistant tool_result assistant tool_result compaction assistant",
		"pi/s4-damaged.jsonl":    "session user assistant tool_result user tool_result tool_result tool_result assistant message user assistant user !torn",
	} {
		recs, _ := open(t, fsys, name, dialect.Pi)
		if got := kinds(recs); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}
