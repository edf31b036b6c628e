package filelog

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyFault runs the workload with each of its operations failing, once and
// for good, with short writes of several lengths, and returns what it broke and
// how many runs it took. It stops after limit findings.
func everyFault(t *testing.T, mutate func(file) file, limit int) (broken []string, runs int) {
	shorts := []int{0, 7, 1 << 20}
	if flag.Lookup("faults").Value.String() != "short" {
		shorts = []int{0, 1, 7, 8, 1 << 20}
	}
	for _, sticky := range []bool{false, true} {
		for _, short := range shorts {
			if len(broken) >= limit {
				return broken, runs
			}
			for n := 1; ; n++ {
				d := &faultDisk{failAt: n, sticky: sticky, short: short, mutate: mutate}
				w := newWorkload(t, d)
				w.run()
				runs++
				for _, b := range w.broken {
					broken = append(broken, fmt.Sprintf("operation %d, sticky %v, short %d: %s", n, sticky, short, b))
				}
				if !d.failed || len(broken) >= limit {
					break
				}
			}
		}
	}
	return broken, runs
}

func TestEveryOperationFails(t *testing.T) {
	t.Parallel()
	broken, runs := everyFault(t, nil, 1<<30)
	for _, b := range broken {
		t.Error(b)
	}
	t.Logf("%d runs", runs)
	require.GreaterOrEqual(t, runs, 180, "the faults are not injected")
}

// Naive variants. The harness must find their faults, or it would miss the same
// faults in the package.
type (
	blind    struct{ file } // does not look for an unterminated tail
	hopeful  struct{ file } // syncs again when a sync fails, and trusts that
	careless struct{ file } // does not cut a short write back
)

func (b blind) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.file.ReadAt(p, off)
	if len(p) == 1 && n == 1 {
		p[0] = '\n'
	}
	return n, err
}

func (h hopeful) Sync() error {
	if h.file.Sync() != nil {
		return h.file.Sync()
	}
	return nil
}

func (careless) Truncate(int64) error { return nil }

func TestHarnessBites(t *testing.T) {
	t.Parallel()
	for what, mutate := range map[string]func(file) file{
		"no tail check":           func(f file) file { return blind{f} },
		"trusts a retried sync":   func(f file) file { return hopeful{f} },
		"short write not cut off": func(f file) file { return careless{f} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			broken, runs := everyFault(t, mutate, 1)
			require.NotEmpty(t, broken, "%d runs found nothing wrong with it", runs)
			t.Logf("%d of %d runs, such as: %s", len(broken), runs, broken[0])
		})
	}
}
