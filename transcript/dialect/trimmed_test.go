package dialect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/convolog/convolog/transcript/dialect"
)

// A file that ZyHive has trimmed begins with its markers. They are put back if
// repeated messages show their places.
func TestTrimmed(t *testing.T) {
	marker := func(at int64, first string) string {
		return fmt.Sprintf(`{"type":"compaction","summary":"S","firstKeptEntryId":%q,"timestamp":%d}`, first, at)
	}
	said := func(at int64, texts ...string) (lines []string) {
		for i, text := range texts {
			lines = append(lines, fmt.Sprintf(`{"type":"message","message":{"role":"user","content":%q},"timestamp":%d}`, text, at+int64(i)))
		}
		return lines
	}
	const header = `{"type":"session","version":3,"agentId":"a","createdAt":1000000000000}`
	const t0, t1 = 1_000_000_000_000, 1_000_000_001_000
	for _, tt := range []struct {
		name  string
		lines [][]string
		want  string
	}{
		{
			"all messages are there",
			[][]string{{header, marker(t1, "turn-1")}, said(t0, "a", "b", "c"), said(t1, "b", "c", "d")},
			"a b c compaction<b> (repeat) (repeat) d",
		},
		{
			"the oldest are gone, and so the number is wrong",
			[][]string{{header, marker(t1, "turn-2")}, said(t0, "c", "d", "e"), said(t1, "c", "d", "e", "f")},
			"c d e compaction<c> (repeat) (repeat) (repeat) f",
		},
		{
			"two markers",
			[][]string{{header, marker(t1, "turn-1"), marker(t1+500, "turn-1")}, said(t0, "a", "b", "c"), said(t1, "b", "c", "d"), said(t1+500, "c", "d", "e")},
			"a b c compaction<b> (repeat) (repeat) d compaction<c> (repeat) (repeat) e",
		},
		{
			"nothing is repeated: as the program writes it in the first place",
			[][]string{{header, marker(t1, "turn-1")}, said(t0, "b", "c"), said(t1, "d")},
			"compaction<@0> b c d",
		},
		{
			"all in front of the marker are gone",
			[][]string{{header, marker(t1, "turn-1")}, said(t1, "b", "c", "d")},
			"compaction<@0> b c d",
		},
	} {
		var file []string
		for _, lines := range tt.lines {
			file = append(file, lines...)
		}
		data := strings.Join(file, "\n") + "\n"
		recs := scan(t, dialect.ZyHive, data)
		checkScanned(t, []byte(data), recs)
		got := texts(recs)
		for _, text := range []string{"a", "b", "c"} { // IDs are places in the file
			at := strings.Index(data, fmt.Sprintf(`{"type":"message","message":{"role":"user","content":%q}`, text))
			got = strings.ReplaceAll(got, fmt.Sprintf("<@%d>", at), "<"+text+">")
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
