package replay_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// A fork begins with the lines in force at an entry, and with the state of its header.
func TestCopy(t *testing.T) {
	long := talk(1, 5)
	for name, test := range map[string]struct {
		batches  []string
		at       string
		lines    string
		standing string // IDs
	}{
		"all":           {long, "a5", "u1 a1 u2 a2 u3 a3 u4 a4 u5 a5", ""},
		"in the middle": {long, "a3", "u1 a1 u2 a2 u3 a3", ""},
		"whole batches": {[]string{"u1 user x", "b1 user y; b2 user z"}, "b1", "u1 b1 b2", ""},
		"no branch that was left": {
			append(slices.Clone(long), "r rewind a2", "u6 user x"), "u6", "u1 a1 u2 a2 u6", "",
		},
		"in such a branch": {append(slices.Clone(long), "r rewind a2", "u6 user x"), "a4", "u1 a1 u2 a2 u3 a3 u4 a4", ""},
		"kept lines":       {append(slices.Clone(long), "k compact u5 a4 4", "u6 user x"), "u6", "u5 a5 k u6", ""},
		"the last covered line": {
			append(slices.Clone(long), "k compact . a4 4", "u6 user x"), "u6", "a4 u5 a5 k u6", "",
		},
		"own lines": {[]string{"n1 note", "u1 user x", "s1 status c running", "t title x", "n2 note"}, "n2", "n1 u1 s1 n2", ""},
		"own lines of a branch that was left": {
			[]string{"u1 user x", "u2 user y", "n1 note", "r rewind u1", "u3 user z", "n2 note"}, "n2", "u1 u3 n2", "",
		},
		"no own lines before those that are kept": {
			append(slices.Clone(long), "n1 note", "k compact u5 a4 4"), "k", "u5 a5 n1 k", "",
		},
		"values and pins": {
			[]string{"u1 user x", "v value name 1", "p pin u1 text", "q queued later", "d draft k so far", "u2 user y"}, "u2", "u1 u2", "v u1",
		},
		"no pins of entries that were left": {
			[]string{"u1 user x", "u2 user y", "p pin u2 text", "r rewind u1", "u3 user z"}, "u3", "u1 u3", "",
		},
		"no pins of hidden entries": {
			[]string{"u1 user x", "u2 user y", "p pin u2 text", "h hide u2", "u3 user z"}, "u3", "u1 u2 h u3", "",
		},
		"before an open call": {
			[]string{"u1 user x", "a1 answer m . y", "u2 user z", "a2 answer m . y; c call a2 id"}, "c", "u1 a1 u2", "",
		},
		"keys that are not copied": {
			[]string{"K: u1 user x", "u2 user y", "L: u3 user z", "r rewind u2"}, "r", "u1 u2", "u3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := textOf(t, test.batches...)
			lines, standing, err := replay.Copy(x.scan, row, test.at, opts)
			require.NoError(t, err)
			require.Equal(t, test.lines, idsOf(lines))
			require.Equal(t, test.standing, idsOf(standing))
			for _, e := range standing {
				if e.Idem != "" {
					require.Equal(t, transcript.ErasedHash, e.IdemHash)
				}
			}
		})
	}
	_, _, err := replay.Copy(textOf(t, long...).scan, row, "nowhere", opts)
	require.ErrorIs(t, err, replay.ErrNoEntry)
}

func idsOf(entries []transcript.Entry) string {
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

// A fork has the pins of entries before the last compaction, if they are in force, and
// neither the words of hidden entries nor the state of the compaction.
func TestCopyOfACompaction(t *testing.T) {
	x := textOf(t, "u1 user one", "u2 user two", "p1 pin u1 one", "p2 pin u2 two", "h1 hide u1", "u3 user three", "u4 user four")
	x.add("", x.entry("c", transcript.Calibration{Model: "m", Window: 100}))
	x.compacted("k", "u3", "u2")
	x.write("h2 hide u4")
	lines, standing, err := replay.Copy(x.scan, row, "h2", opts)
	require.NoError(t, err)
	require.Equal(t, "u3 u4 k0 h2", idsOf(lines))
	require.NotContains(t, string(lines[1].Line()), "four")
	require.True(t, lines[1].Erased)
	c, ok := lines[2].Body.(transcript.Compaction)
	require.True(t, ok)
	require.Nil(t, c.Standing)
	require.NotContains(t, string(lines[2].Line()), "standing")
	require.Equal(t, " u2", idsOf(standing))
	require.Equal(t, transcript.Calibration{Model: "m", Window: 100}, standing[0].Body)
}

// An entry is found from the end, with its batch.
func TestLocate(t *testing.T) {
	x := textOf(t, "u1 user x", "b1 user x; b2 user y", "c1 user z", "u1 user again")
	for id, want := range map[string]string{"s": "s", "b1": "b1 b2", "b2": "b1 b2", "c1": "c1", "u1": "u1"} {
		p, err := replay.Locate(x.scan, id)
		require.NoError(t, err)
		var got []string
		own := false
		for rec, err := range x.scan(p.Start, driver.Forward) {
			require.NoError(t, err)
			if driver.Cursor(rec.Offset) >= p.End {
				break
			}
			got = append(got, rec.Entry.ID)
			own = own || rec.Offset == p.At && rec.Entry.ID == id
		}
		require.Equal(t, want, strings.Join(got, " "))
		require.True(t, own)
		require.Equal(t, id == "u1", p.End == driver.Cursor(len(x.data)), "of several the last one")
	}
	for _, id := range []string{"nowhere", ""} {
		_, err := replay.Locate(x.scan, id)
		require.ErrorIs(t, err, replay.ErrNoEntry)
		require.ErrorContains(t, err, `"`+id+`"`)
	}
}

var errScan = errors.New("the disk is gone")

// failing returns a scan that fails after some records, over all its calls.
func (x *text) failing(after int) replay.Scan {
	return func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		return func(yield func(transcript.Record, error) bool) {
			for rec, err := range x.scan(from, dir) {
				if after--; after < 0 {
					yield(transcript.Record{}, errScan)
					return
				}
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// Wherever a scan fails, the call that reads returns its error, and keeps no half of
// the data.
func TestScanFails(t *testing.T) {
	old := textOf(t, talk(1, 2)...)
	known := old.row(old.begin(true))
	x := textOf(t, append(talk(1, 5), "k compact u5 a4 4", "p pin u1 hello", "u6 user x", "a6 answer m . y; c6 call a6 id")...)
	for name, do := range map[string]func(scan replay.Scan) error{
		"Begin": func(scan replay.Scan) error {
			r := replay.New(opts)
			return r.Begin(scan, row, false)
		},
		"Begin with more": func(scan replay.Scan) error {
			more := known
			more.Size = int64(len(x.data)) + 1
			r := replay.New(opts)
			return r.Begin(scan, more, false)
		},
		"all": func(scan replay.Scan) error {
			r := replay.New(opts)
			return r.Begin(scan, row, true)
		},
		"Row": func(scan replay.Scan) error {
			_, err := replay.Row(known, scan, opts)
			return err
		},
		"Locate": func(scan replay.Scan) error {
			_, err := replay.Locate(scan, "a3")
			return err
		},
		"Copy": func(scan replay.Scan) error {
			_, _, err := replay.Copy(scan, row, "c6", opts)
			return err
		},
		"a later Row": func(scan replay.Scan) error {
			r := x.with(known)
			_, err := r.Row(scan)
			require.Equal(t, x.row(x.begin(true)), x.row(r))
			return err
		},
		"ReadOn": func(scan replay.Scan) error {
			r := old.begin(true)
			err := r.ReadOn(scan)
			require.Equal(t, shown(x.begin(true).Fold), shown(x.on(r).Fold))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := 0
			require.NoError(t, do(func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
				return func(yield func(transcript.Record, error) bool) {
					for rec, err := range x.scan(from, dir) {
						if all++; !yield(rec, err) {
							return
						}
					}
				}
			}))
			for n := range all {
				require.ErrorIs(t, do(x.failing(n)), errScan)
			}
		})
	}
}
