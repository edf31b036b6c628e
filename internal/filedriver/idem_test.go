package filedriver_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// keyed returns a batch of n lines under an idempotency key.
func keyed(key string, n int) []driver.Line {
	lines := make([]driver.Line, n)
	for i := range lines {
		e := transcript.Entry{ID: fmt.Sprint(key, i), Part: i + 1, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
		if i == 0 {
			e.Part, e.Idem, e.IdemHash = 0, key, "hash"
			if n > 1 {
				e.Batch = n
			}
		}
		lines[i] = driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
	}
	return lines
}

func notes(n int) []driver.Line {
	lines := make([]driver.Line, n)
	for i := range lines {
		lines[i] = note(fmt.Sprint("n", i))
	}
	return lines
}

// A key is honoured however long its batch is and however much follows it.
func TestEveryKeyIsHonoured(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	other := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	firsts := map[string]driver.Result{}
	lines := map[string][]driver.Line{"old": keyed("old", 2), "long": keyed("long", 3000)}
	for _, key := range []string{"old", "long"} {
		r, err := d.Append(ctx, ref, lines[key], driver.Cond{Idem: key, IdemHash: "hash"})
		require.NoError(t, err)
		firsts[key] = r
	}
	check := func(when string, d driver.Driver) {
		t.Helper()
		for key, first := range firsts {
			r, err := d.Append(ctx, ref, lines[key], driver.Cond{Idem: key, IdemHash: "hash"})
			if err != nil || !r.Repeated || r.Start != first.Start || r.End != first.End || len(r.IDs) != len(lines[key]) {
				t.Errorf("%s: Append under the key of the %s batch: repeated %v, %d to %d, %d IDs, %v", when, key, r.Repeated, r.Start, r.End, len(r.IDs), err)
			}
		}
	}
	check("at once", d)
	check("by another driver", other)
	_, err := other.Append(ctx, ref, notes(5000), driver.Cond{})
	require.NoError(t, err)
	check("after many lines", d)
	require.NoError(t, other.Close())
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	check("after opening it again", d)
	require.NoError(t, d.Close())
}

// A condition costs what was added since the last one, not what is there.
func TestConditionsReadNewLines(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	ref := create(t, d, "a", "k").Ref()
	_, err := d.Append(t.Context(), ref, notes(3000), driver.Cond{})
	require.NoError(t, err)
	n := 0
	allocs := testing.AllocsPerRun(10, func() {
		n++
		key := fmt.Sprint("key", n)
		_, err := d.Append(t.Context(), ref, keyed(key, 1), driver.Cond{Idem: key, IdemHash: "hash", Head: driver.NoHead})
		require.NoError(t, err)
	})
	if allocs > 500 {
		t.Errorf("%.0f allocations for a new key", allocs)
	}
	allocs = testing.AllocsPerRun(10, func() {
		res, err := d.Append(t.Context(), ref, keyed("key1", 1), driver.Cond{Idem: "key1", IdemHash: "hash"})
		require.NoError(t, err)
		require.True(t, res.Repeated)
	})
	if allocs > 500 {
		t.Errorf("%.0f allocations for a key that is known", allocs)
	}
	require.NoError(t, d.Close())
}
