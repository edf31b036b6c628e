package filelog_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
)

// breakTail adds bytes to the file, as a writer that dies in a write.
func breakTail(t testing.TB, root *os.Root, tail string) {
	t.Helper()
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(tail)
	require.NoError(t, err)
}

// observed returns options that note every tail in tails.
func observed(tails *[]filelog.Tail) *filelog.Options {
	return &filelog.Options{
		Sync: filelog.SyncNever,
		Observe: func(_ context.Context, e filelog.Event) {
			if tail, ok := e.(filelog.Tail); ok {
				*tails = append(*tails, tail)
			}
		},
	}
}

func TestTailAtEveryByte(t *testing.T) {
	const (
		head   = `{"type":"session"}` + "\n"
		record = `{"text":"a \"quoted\" \\ line, Zürich 北京","n":[1,{}]}`
	)
	for cut := range len(record) + 2 {
		root, _ := folder(t)
		tail := (record + "\n")[:cut]
		whole := head + tail
		require.NoError(t, root.WriteFile(name, []byte(whole), 0o600))
		var tails []filelog.Tail
		l := open(t, root, observed(&tails))
		var end int64
		if cut%2 == 0 {
			var err error
			if end, err = l.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		start, _ := add(t, l, "next\n")
		unterminated := cut > 0 && cut <= len(record)
		if unterminated {
			whole += "\n"
		}
		if start != int64(len(whole)) || cut%2 == 0 && end != start {
			t.Errorf("cut %d: settled at %d, appended at %d, want %d", cut, end, start, len(whole))
		}
		switch want := (filelog.Tail{Offset: int64(len(head)), Size: int64(cut), Complete: cut == len(record)}); {
		case !unterminated && len(tails) == 0:
		case !unterminated || len(tails) != 1 || tails[0] != want:
			t.Errorf("cut %d: told of %+v, want %+v", cut, tails, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		reopen(t, root, whole+"next\n")
	}
}

func TestTailKinds(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
	for what, c := range map[string]struct {
		head, tail string
		complete   bool
	}{
		"NUL run":            {"h\n", strings.Repeat("\x00", 100<<10), false},
		"only NUL":           {"", "\x00", false},
		"record then NUL":    {"h\n", "{}\x00", false},
		"scalar":             {"h\n", "12", false},
		"array":              {"h\n", "[]", false},
		"object":             {"h\n", "{}", true},
		"object alone":       {"", "{}", true},
		"object, CR":         {"h\n", "{}\r", true},
		"blank":              {"h\n", "  ", false},
		"two glued":          {"h\n", "{}{}", false},
		"larger than chunk":  {"h\n", long, true},
		"larger, torn":       {"h\n", long[:len(long)-1], false},
		"larger, no newline": {"", long, true},
		"exactly a chunk":    {"h\n", `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`, true},
	} {
		t.Run(what, func(t *testing.T) {
			root, _ := folder(t)
			require.NoError(t, root.WriteFile(name, []byte(c.head+c.tail), 0o600))
			var tails []filelog.Tail
			l := open(t, root, observed(&tails))
			add(t, l, "next\n")
			add(t, l, "more\n")
			want := filelog.Tail{Offset: int64(len(c.head)), Size: int64(len(c.tail)), Complete: c.complete}
			if len(tails) != 1 || tails[0] != want {
				t.Errorf("told of %+v, want %+v", tails, want)
			}
			reopen(t, root, c.head+c.tail+"\nnext\nmore\n")
		})
	}
}

// FuzzTail starts from a file of any bytes.
func FuzzTail(f *testing.F) {
	f.Add([]byte(""), []byte("{}"))
	f.Add([]byte("{}\n{\"a\":"), []byte("x"))
	f.Add([]byte("{}\n{}"), []byte(""))
	f.Add([]byte("\x00\x00"), []byte("\x00"))
	f.Add([]byte("\xef\xbb\xbf{}\r"), []byte("\r"))
	f.Add([]byte("\n\n"), []byte("a\nb"))
	f.Fuzz(func(t *testing.T, before, lines []byte) {
		lines = append(lines, '\n')
		root, _ := folder(t)
		require.NoError(t, root.WriteFile(name, before, 0o600))
		var tails []filelog.Tail
		l := open(t, root, observed(&tails))
		start, end := add(t, l, string(lines))
		got := content(t, root)
		switch {
		case !strings.HasPrefix(got, string(before)):
			t.Fatalf("the earlier bytes %q are not a prefix of %q", before, got)
		case end != int64(len(got)) || got[start:end] != string(lines):
			t.Fatalf("lines %q at %d-%d of %q", lines, start, end, got)
		case start > 0 && got[start-1] != '\n':
			t.Fatalf("the lines do not start on a line of their own in %q", got)
		case start-int64(len(before)) != int64(len(tails)):
			t.Fatalf("%d bytes were added for the tails %+v", start-int64(len(before)), tails)
		}
		for _, tail := range tails {
			require.Equal(t, int64(len(before)), tail.Offset+tail.Size)
			require.NotContains(t, string(before[tail.Offset:]), "\n")
		}
		again, err := l.Settle(t.Context())
		require.Equal(t, end, again)
		require.NoError(t, err)
		reopen(t, root, got)
	})
}
