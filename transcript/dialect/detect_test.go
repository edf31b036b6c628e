package dialect_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

func TestDetect(t *testing.T) {
	const (
		iso  = `{"type":"user","content":"x","ts":"2026-02-24T10:00:00.5+00:00"}` + "\n"
		unix = `{"type":"user","content":"x","ts":1771927201.5}` + "\n"
		bare = `{"type":"user","content":"x"}` + "\n"
		own  = `{"type":"user","id":"a","ts":"2026-02-24T10:00:00Z","content":"x"}` + "\n"
	)
	for _, tt := range []struct {
		name, data string
		want       dialect.Dialect
		sure       bool
	}{
		{"empty", "", "", false},
		{"text", "hello\nworld\n", "", false},
		{"index", `{"abc":{"id":"x"}}`, "", false},
		{"native header", `{"type":"session","id":"x","ts":"2026-11-20T08:00:00Z","v":1,"key":"k"}` + "\n", dialect.Native, true},
		{"native header, foreign records", `{"type":"session","v":1}` + "\n" + unix, dialect.Native, true},
		{"native without header", own, dialect.Native, true},
		{"native bookkeeping", `{"type":"meta","id":"a","ts":"2026-02-24T10:00:00Z","title":"t"}`, dialect.Native, true},
		{"native calls", `{"type":"tool_use","mid":"A","part":2,"tool_use_id":"t","name":"f","input":{}}`, dialect.Native, true},
		{"mini-claw header", `{"type":"session","id":"x","key":"main:cli:user","created":"2026-02-24T10:00:00+00:00"}`, dialect.MiniClaw, true},
		{"mini-claw header without key", `{"type":"session","id":"x","created":"2026-02-24T10:00:00+00:00"}`, dialect.MiniClaw, true},
		{"ISO times", iso, dialect.MiniClaw, true},
		{"output", `{"type":"tool_result","tool_use_id":"t","output":"o","ts":"..."}`, dialect.MiniClaw, true},
		{"Unix times", unix, dialect.Claw0, true},
		{"whole Unix times", `{"type":"user","content":"x","ts":1}`, dialect.Claw0, true},
		{"array content", `{"type":"assistant","content":[]}`, dialect.Claw0, true},
		{"result content", bare + `{"type":"tool_result","tool_use_id":"t","content":"o"}`, dialect.Claw0, true},
		{"nothing to tell by", bare + bare, dialect.MiniClaw, false},
		{"both", iso + unix, dialect.MiniClaw, false},
		{"both, the other way round", unix + iso, dialect.Claw0, false},
		{"late evidence", strings.Repeat(bare, 20) + unix, dialect.Claw0, true},
		{"too late evidence", strings.Repeat(bare, 100) + unix, dialect.MiniClaw, false},
		{"damage in front", "{\"type\":\"us\n42\n\x00\x00\n" + unix, dialect.Claw0, true},
		{"BOM", "\xef\xbb\xbf" + unix, dialect.Claw0, true},
		{"unterminated", strings.TrimSpace(unix), dialect.Claw0, true},
		{"ZyHive header", `{"type":"session","version":3,"agentId":"a","createdAt":1}`, dialect.ZyHive, true},
		{"ZyHive messages", `{"type":"message","message":{"role":"user","content":"x"},"timestamp":1}`, dialect.ZyHive, true},
		{"ZyHive compaction", `{"type":"compaction","summary":"s","firstKeptEntryId":"turn-1","timestamp":1}`, dialect.ZyHive, true},
		{"channel log", `{"ts":"2026-02-24T10:00:00Z","role":"user","content":"x","channelId":"c","channelType":"web"}`, dialect.ZyHiveLog, true},
		{"pi header", `{"type":"session","version":3,"id":"x","timestamp":"2026-02-24T10:00:00Z","cwd":"/"}`, dialect.Pi, true},
		{"pi header, version 1", `{"type":"session","id":"x","timestamp":"2026-02-24T10:00:00Z","cwd":"/","provider":"p"}`, dialect.Pi, true},
		{"pi header, ZyHive messages", `{"type":"session","id":"x","timestamp":"2026-02-24T10:00:00Z"}` + "\n" + `{"type":"message","message":{},"timestamp":1}`, dialect.Pi, true},
		{"pi entries", `{"type":"message","id":"a","parentId":null,"timestamp":"2026-02-24T10:00:00Z","message":{"role":"user","content":"x"}}`, dialect.Pi, true},
		{"pi and ZyHive", `{"type":"message","message":{},"timestamp":1}` + "\n" + `{"type":"message","message":{},"timestamp":"2026-02-24T10:00:00Z"}`, dialect.ZyHive, false},
		{"pi settings", `{"type":"model_change","id":"a","parentId":null,"timestamp":"2026-02-24T10:00:00Z"}`, dialect.Pi, true},
		{"parts", `{"id":"m","role":"user","parts":[],"created_at":"2026-02-24T10:00:00"}`, dialect.OpenViking, true},
		{"content of an older OpenViking", `{"id":"m","role":"user","content":"x","created_at":"2026-02-24T10:00:00"}`, dialect.OpenViking, true},
		{"uuid chain", `{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"x"},"timestamp":"2026-02-24T10:00:00Z"}`, dialect.ClaudeCode, true},
		{"title of a uuid chain", `{"type":"summary","summary":"x","leafUuid":"u"}`, dialect.ClaudeCode, true},
		{"messages between programs", `{"id":"x","ts":"2026-02-24T10:00:00Z","from":"a","to":"b","body":"hi","version":1,"kind":"ASK"}`, "", false},
		{"scheduled runs", `{"jobId":"j","runId":"r","startedAt":1,"endedAt":2,"status":"ok","output":"x"}`, "", false},
		{"bare messages", `{"role":"user","content":"x"}`, "", false},
		{"messages behind metadata", `{"_type":"metadata","session_key":"k"}` + "\n" + `{"role":"user","content":"x","timestamp":"2026-02-24T10:00:00"}`, "", false},
		{"records of users", `{"type":"user","ts":1,"name":"login"}` + "\n" + `{"type":"assistant"}`, "", false},
		{"results of runs", `{"type":"tool_result","id":"j","ts":1,"status":"ok"}`, "", false},
		{"UTF-16", "\xff\xfe{\x00\"\x00t\x00y\x00p\x00e\x00\"\x00:\x001\x00}\x00\n\x00", "", false},
		{"events", `{"type":"message","text":"x","timestamp":1}`, "", false},
		{"a header of nobody", `{"type":"session","version":3}`, "", false},
		{"logs", `{"level":"info","msg":"x","time":"2026-02-24T10:00:00Z"}`, "", false},
		{"long line first", `{"type":"user","content":"` + strings.Repeat("x", 1<<20) + `","ts":1}` + "\n" + iso, dialect.Claw0, true},
	} {
		got, sure, err := dialect.Detect(strings.NewReader(tt.data), int64(len(tt.data)))
		if err != nil || got != tt.want || sure != tt.sure {
			t.Errorf("%s: %q, %v, %v, want %q, %v", tt.name, got, sure, err, tt.want, tt.sure)
		}
	}
	for _, tt := range situations {
		for d, data := range forms(tt.data) {
			got, sure, err := dialect.Detect(strings.NewReader(data), int64(len(data)))
			if err != nil || sure && got != d && tt.name != "two headers" && tt.name != "each call twice" {
				t.Errorf("%s, %s: %q, %v, %v", tt.name, d, got, sure, err)
			}
		}
	}
	_, _, err := dialect.Detect(strings.NewReader("short"), 100)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A first record may be longer than the part of a file that is read otherwise.
func TestDetectLongLine(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for data, want := range map[string]dialect.Dialect{
		`{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"` + long + `"},"uuid":"u"}`: dialect.ClaudeCode,
		`{"type":"user","content":"` + long + `","ts":1771927201.5}`:                                                      dialect.Claw0,
		`{"type":"user","content":"` + long + `","ts":"2026-02-24T10:00:00.5+00:00"}` + "\n":                              dialect.MiniClaw,
		`{"timestamp":"2026-02-24T10:00:00Z","type":"session_meta","payload":{"x":"` + long + `"}}`:                       dialect.Codex,
		`{"x":"` + long + `","ts":`:         "",
		`{"x":"` + long + `","ts":1`:        "",
		`{"type":"user","content":"` + long: dialect.MiniClaw,
		long:                                "",
	} {
		got, _, err := dialect.Detect(strings.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		require.Equal(t, want, got, "%.40s ... %s", data, data[max(0, len(data)-40):])
	}
}

// The rest of a transcript whose beginning is lost is native, whatever its lines are.
func TestDetectLines(t *testing.T) {
	for _, kind := range []string{
		"compaction", "clip", "hide", "rewind", "system", "tools", "meta", "current", "calibration", "tool_status", "used", "commit",
		"extracted", "dispatch", "decision", "interrupt", "queued", "draft", "pin", "value", "erased", "custom",
	} {
		data := `{"type":"` + kind + `","id":"a","ts":"2026-02-24T10:00:00Z"}` + "\n"
		d, sure, err := dialect.Detect(strings.NewReader(data), int64(len(data)))
		require.NoError(t, err, kind)
		require.Equal(t, dialect.Native, d, kind)
		require.True(t, sure, kind)
	}
}
