package filename_test

import (
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/filename"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 121)
	for name, want := range map[string]string{
		"main": "main", "a_b-9": "a_b-9", "Main": "%4dain", "a.b": "a%2eb", "../x": "%2e%2e%2fx", "ü": "%c3%bc", "a:b": "a%3ab",
		"con": "%63on", "com7": "%63om7", "lpt0": "%6cpt0", "nul": "%6eul", "console": "console", "com": "com", "com10": "com10",
	} {
		got := filename.Encode(name)
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if back, ok := filename.Decode(got); !ok || back != name {
			t.Errorf("%q decodes to %q, %v", got, back, ok)
		}
	}
	for _, enc := range []string{"", "con", "Main", "%4Dain", "%6dain", "a%2", "a%zz", filename.Encode(long)} {
		if name, ok := filename.Decode(enc); ok {
			t.Errorf("%q decodes to %q", enc, name)
		}
	}
}

// Names are injective, and so safe on disks that fold case.
func FuzzNames(f *testing.F) {
	f.Add("main", "Main")
	f.Add("con", "%63on")
	f.Add(strings.Repeat("x", 130), strings.Repeat("x", 131))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := filename.Encode(a), filename.Encode(b)
		if (a == b) != (x == y) || strings.ToLower(x) != x || strings.ContainsAny(x, `/\.:*?"<>| `) {
			t.Errorf("%q and %q are %q and %q", a, b, x, y)
		}
		if back, ok := filename.Decode(x); ok && back != a {
			t.Errorf("%q decodes to %q and not to %q", x, back, a)
		}
	})
}
