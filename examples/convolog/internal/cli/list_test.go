package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/search"
)

func TestAge(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "just now", time.Minute: "1 min ago", 119 * time.Second: "1 min ago",
		59 * time.Minute: "59 min ago", time.Hour: "1 h ago", 23 * time.Hour: "23 h ago",
		24 * time.Hour: "1 day ago", 71 * time.Hour: "2 days ago", 29 * 24 * time.Hour: "29 days ago",
	} {
		require.Equal(t, want, age(now.Add(-ago), now))
	}
	local := func(d time.Duration) string { return now.Add(d).Local().Format(time.DateOnly) }
	require.Equal(t, local(-30*24*time.Hour), age(now.Add(-30*24*time.Hour), now))
	require.Equal(t, local(time.Second), age(now.Add(time.Second), now))
	require.Equal(t, "-", age(time.Time{}, now))
}

// A list shows the end of a UUID, and other IDs whole.
func TestShort(t *testing.T) {
	for id, want := range map[string]string{
		"01a21ffc-94fe-7b46-829e-3bf90d78838c": "0d78838c",
		"a-name-of-another-program-2026-11-28": "a-name-of-another-program-2026-11-28",
		"alpha":                                "alpha",
		"":                                     "",
	} {
		require.Equal(t, want, short(id))
	}
}

// Lists have a header, columns that begin at one place, and IDs that commands accept.
func TestLists(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			for n := range 3 {
				id, err := uuid.NewV7()
				require.NoError(t, err)
				sh.must(0, "session", "new", "--id", id.String(), "--title", fmt.Sprint("旅行 ", n))
			}
			sh.must(0, "session", "new", "--id", "alpha")
			lines := strings.Split(strings.TrimSuffix(sh.must(0, "session", "list"), "\n"), "\n")
			require.Equal(t, []string{"ID", "UPDATED", "MESSAGES", "TITLE"}, strings.Fields(lines[0]))
			require.Len(t, lines, 5)
			seen := map[string]bool{}
			for _, line := range lines[1:] {
				short := strings.Fields(line)[0]
				require.LessOrEqual(t, len(short), 8)
				var d described
				require.NoError(t, json.Unmarshal([]byte(sh.must(0, "session", "get", short, "--json")), &d))
				require.True(t, strings.HasSuffix(d.Info.ID, short))
				seen[d.Info.ID] = true
				require.Regexp(t, `  [^ ]`, line[strings.Index(lines[0], "UPDATED")-2:][:3])
			}
			require.Len(t, seen, 4)

			sh.screen = true
			for _, n := range []int{34, 80, 200} {
				sh.env = map[string]string{"CONVOLOG_TOKEN": "secret", "NO_COLOR": "1", "COLUMNS": strconv.Itoa(n)}
				for line := range strings.Lines(sh.must(0, "session", "list")) {
					require.LessOrEqual(t, uniseg.StringWidth(strings.TrimSuffix(line, "\n")), n, line)
				}
			}
		})
	}
}

// A match is in colour wherever it is on the line, and only if it is on the line.
func TestMarked(t *testing.T) {
	var out bytes.Buffer
	c := &call{console: (&shell{TB: t, screen: true}).console(&out, &out)}
	for _, text := range []string{"porto", "a porto", "the\n  porto  of", "port of porto", "旅行 porto", strings.Repeat("long ", 40) + "porto", "\u202eporto"} {
		at := strings.Index(text, "porto")
		got := c.marked(search.Hit{Excerpt: text, Start: at, End: at + 5}, 40)
		require.LessOrEqual(t, uniseg.StringWidth(strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(got)), 40)
		require.Equal(t, !strings.HasPrefix(text, "long"), strings.Contains(got, "\x1b[31mporto\x1b[0m"), "%q", got)
	}
}
