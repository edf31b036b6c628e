package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// outline returns one letter for the role of each message, with the text of
// its blocks.
func outline(h rebuild.History) string {
	var parts []string
	for _, m := range h.Messages {
		var texts []string
		for _, b := range m.Content {
			switch b := b.(type) {
			default:
				texts = append(texts, transcript.BlockType(b))
			case transcript.TextBlock:
				texts = append(texts, strings.ReplaceAll(b.Text, neutral.SummaryHeading+"\n", "summary:"))
			case transcript.ToolCallBlock:
				texts = append(texts, "call "+b.ID)
			case transcript.ToolResultBlock:
				texts = append(texts, "result "+b.CallID)
			}
		}
		parts = append(parts, string(m.Role[0])+" "+strings.Join(texts, ", "))
	}
	return strings.Join(parts, " | ")
}

// The histories that the manifest of the sample files and the description of
// the samples of pi state.
func TestCorpora(t *testing.T) {
	const root = "../../../../transcript/dialect/testdata/corpora"
	for _, tt := range []struct{ name, want string }{
		{"hazards/zyhive/01-seed-compaction.jsonl", "u summary:前10轮已压缩..., m11 | a m12 | u m13"},
		{"hazards/zyhive/02-reappended-compaction.jsonl", "u summary:S1, m5 | a m6 | u m7"},
		{"hazards/zyhive/04-two-compactions.jsonl", "u summary:S2 (made without S1) | a m3"},
		{"hazards/zyhive/05-consecutive-roles.jsonl", "u try 1, try 2, try 3 | a a, [后台任务完成] ✅ **t**"},
		{"hazards/zyhive/07-duplicate-header.jsonl", "u m1, m2"},
		{"hazards/openviking/01-parts.jsonl", "u How do I authenticate? | a Based on docs, [resource viking://resources/docs/auth/]\n  Auth guide, call call_123 | u result call_123"},
		{"hazards/openviking/02-torn-last-line.jsonl", "u one | a two"},
		{"hazards/openviking/04-legacy-content.jsonl", "u legacy text, x"},
		{"hazards/openviking/05-pending-tool.jsonl", "u go | a call call_123 | u result call_123"},
		{"hazards/claw0/02-duplicated-tool-use.jsonl", "u hi | a Let me look., call toolu_A, call toolu_B | u result toolu_A, result toolu_B | a done"},
		{
			"observed/zyhive/xiuliu/sessions/ses-1795188720793.jsonl",
			"u 帮我看看这段代码 payment.py 的并发问题, 我怀疑有竞态条件导致重复扣款, 请逐行分析并给出修复方案以及测试用例, 谢谢你 | a 先读文件, call toolu_1 | u result toolu_1 | a 你好！问题在第 3 行。",
		},
		{
			"pi/s4-damaged.jsonl",
			"u Read a, b and c. | a call toolu_04A, call toolu_04B | u result toolu_04A, result toolu_04B, (steer) also d | a Reading c | " +
				"u continue | a call toolu_04D | u result toolu_04D, the process crashed before a result was stored",
		},
	} {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(tt.name)))
		require.NoError(t, err)
		d, sure, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		if err != nil || !sure {
			t.Errorf("%s: Detect = %q, %v, %v", tt.name, d, sure, err)
		}
		if _, h := history(t, scanBytes(d, data)); outline(h) != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, outline(h), tt.want)
		}
	}
	// Before neighbours of one role are merged these are the messages that pi
	// itself gives its model.
	for name, want := range map[string]int{"s1-linear": 7, "s2-tree": 7, "s3-compaction": 4} {
		data, err := os.ReadFile(filepath.Join(root, "pi", name+".jsonl"))
		require.NoError(t, err)
		_, h := history(t, scanBytes(dialect.Pi, data))
		entries := map[string]bool{}
		for _, m := range h.Messages {
			for _, o := range m.Origins {
				entries[o.Entry] = true
			}
		}
		if len(entries) != want {
			t.Errorf("%s: %d messages before merging, want %d: %s", name, len(entries), want, outline(h))
		}
	}
}

// The same about the fixtures.
func TestFixtures(t *testing.T) {
	const root = "../../../../transcript/dialect/testdata"
	for name, want := range map[string]string{
		"zyhive/scout/sessions/ses-documented.jsonl":    "u summary:one and two, three | a four | u five",
		"zyhive/scout/sessions/ses-repeated.jsonl":      "u summary:S2, m5 | a m6 | u m7 | a m8 | u m9",
		"zyhive/scout/sessions/ses-markerlast.jsonl":    "u summary:S1, m5 | a m6",
		"zyhive/scout/sessions/ses-helperstyle.jsonl":   "u summary:S1, m5 | a m6 | u m7",
		"zyhive/scout/sessions/ses-rewritten.jsonl":     "u summary:S1, m5 | a m6",
		"zyhive/scout/sessions/ses-tools.jsonl":         "u look, image | a Reading, call t1 | u result t1 | a It is A., [task done]",
		"pi/agents/main/sessions/0190-leaf.jsonl":       "u stay | a yes",
		"pi/agents/main/sessions/0190-compact.jsonl":    "u summary:second, u2 | a a2 | u u3",
		"pi/agents/main/sessions/0190-retainnone.jsonl": "u summary:all, u2",
		"pi/agents/main/sessions/0190-reset.jsonl":      "u u2",
		"pi/agents/main/sessions/old-v1.jsonl":          "u summary:sum, u2, hook says",
		"pi/agents/main/sessions/0190-cut.jsonl":        "u go | a Writing | u again",
		"claude-code/projects/-w/s-1.jsonl":             "u <caveat>, read two | a thinking, Both at once., call t1, call t2 | u result t1, result t2 | a one, two | u thanks",
		"claude-code/projects/-w/s-2.jsonl":             "u summary:This is what was said before., go on | a going on",
		"claude-code/projects/-w/s-3.jsonl":             "u What was said in another file., go on",
	} {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		d, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		fold, h := history(t, scanBytes(d, data))
		for _, r := range fold.Report() {
			if r.Rule == "unresolved-boundary" {
				t.Errorf("%s: %s", name, r)
			}
		}
		if got := outline(h); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	f, err := dialect.ReadFolder(os.DirFS(filepath.Join(root, "openviking")))
	require.NoError(t, err)
	for s := range f.Sessions() {
		_, h := history(t, s.Records())
		want := "u summary:# Session Summary\n\nAsked how.\n, And why? | a call call_2, call call_3 | u result call_2, result call_3, Go on"
		if s.ID == "s2" {
			want = "u find it | a call call_9, call ../../s1/tools/call_1 | u result call_9, result ../../s1/tools/call_1 | a video, part"
		}
		if !strings.HasPrefix(outline(h), want) {
			t.Errorf("openviking:\n%s\nwant\n%s", outline(h), want)
		}
	}
}
