package replay_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// compacted appends a compaction as a session makes it.
func (x *text) compacted(id, first, covers string) {
	x.t.Helper()
	items, c, err := x.begin(true).Complete([]transcript.Item{transcript.Compaction{Summary: "summary", FirstKept: first, CoversTo: covers}})
	require.NoError(x.t, err)
	require.NotNil(x.t, c)
	var entries []transcript.Entry
	for i, item := range items {
		body, ok := item.(transcript.Body)
		require.True(x.t, ok)
		entries = append(entries, x.entry(fmt.Sprint(id, i), body))
	}
	x.add("", entries...)
}

// A key is known if its whole batch was read, with a place at or before it.
func TestKeys(t *testing.T) {
	x := textOf(t, "u1 user x", "K1: u2 user y; u3 user z")
	at, _ := x.write("K2: u4 user x")
	r := x.begin(true)
	for _, known := range []bool{true, false} {
		require.Equal(t, known, r.HasKey(map[bool]string{true: "K1", false: "K3"}[known]))
	}
	place, held := r.PlaceOf("K2")
	require.Equal(t, at.Start, place)
	require.Nil(t, held)
	place, _ = r.PlaceOf("K1")
	require.NotZero(t, place)
	require.Less(t, place, at.Start)

	res, entries := x.write("K3: u5 user x; u6 user y")
	require.NoError(t, r.Own(res, entries))
	place, _ = r.PlaceOf("K3")
	require.Equal(t, res.Start, place)

	_, entries = x.write("K4: u7 user x; u8 user y")
	x.data = x.data[:len(x.data)-len(entries[1].Line())-1]
	require.NoError(t, r.ReadOn(x.scan))
	require.False(t, r.HasKey("K4"), "of a cut batch")
	r.TakeNews()
	x.write("K4: u7 user x; u8 user y; u9 user z")
	require.NoError(t, r.ReadOn(x.scan))
	require.True(t, r.HasKey("K4"))
	news := r.TakeNews()
	require.Len(t, news, 1)
	require.Equal(t, 1, news[0].Superseded)
	require.Empty(t, r.TakeNews())

	require.False(t, r.HasKey("K5"))
	r.AddKey("K5", 7)
	require.True(t, r.HasKey("K5"))
	place, _ = r.PlaceOf("K5")
	require.Equal(t, driver.Cursor(7), place)
}

// A compaction holds the last 64 keys. A reader that begins with it knows these, and the
// keys of the lines that it reads.
func TestKeysOfACompaction(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 200} {
		x := textOf(t)
		for i := range n {
			x.write(fmt.Sprintf("K%d: u%d user hello", i, i))
		}
		x.write("kept user x")
		x.compacted("k", "kept", fmt.Sprint("u", n-1))
		x.write("L: later user x")
		r := x.begin(false)
		require.False(t, r.Whole())
		for i := range n {
			key := fmt.Sprint("K", i)
			require.Equal(t, i >= n-64, r.HasKey(key), "%s of %d", key, n)
			place, held := r.PlaceOf(key)
			require.Zero(t, place)
			if i >= n-64 {
				require.Equal(t, fmt.Sprint("u", i), held.ID)
			}
		}
		require.True(t, r.HasKey("L"))

		// The next compaction holds all of them but the oldest.
		x.compacted("l", "later", "kept")
		r = x.begin(false)
		require.True(t, r.HasKey(fmt.Sprint("K", n-1)))
		require.Equal(t, n < 64, r.HasKey(fmt.Sprint("K", max(n-64, 0))), n)
		require.True(t, r.HasKey("L"))
	}
}

// A compaction of another program holds no keys, and removes none.
func TestKeysOfAForeignCompaction(t *testing.T) {
	x := textOf(t, "K: u1 user x", "u2 user x", "k compact u2 u1 1")
	require.True(t, x.begin(true).HasKey("K"))
	require.False(t, x.begin(false).HasKey("K"))
}
