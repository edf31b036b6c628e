package replay_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// talk is a turn that takes two lines.
func talk(from, to int) (batches []string) {
	for i := from; i <= to; i++ {
		batches = append(batches, fmt.Sprintf("u%d user hello %d", i, i), fmt.Sprintf("a%d answer . . hi", i))
	}
	return batches
}

// A session is opened with the lines that its history needs, and shows the same as
// with all lines.
func TestBegin(t *testing.T) {
	for name, test := range map[string]struct {
		then  []string // after 20 turns
		shown string
		read  int // records at most, header and lines that are read twice included
		whole bool
	}{
		"nothing compacted": {nil, "", 42, true},
		"compacted":         {[]string{"k compact u20 a19 19"}, "[summary] u20 =a20", 5, false},
		"compacted twice":   {[]string{"k compact u20 a19 19", "u user x", "l compact u a20 20"}, "[summary] u", 5, false},
		"covered alone":     {[]string{"k compact . a19 19"}, "[summary] u20 =a20", 6, false},
		"before its batch": {
			[]string{"b1 user x; b2 user y", "k compact b2 a20 20"}, "[summary] b1 b2", 6, false,
		},
		"rewound after the compaction": {
			[]string{"k compact u20 a19 19", "u user x", "a answer . . y", "r rewind u"}, "[summary] u20 =a20 u", 9, false,
		},
		"rewound before the compaction": {[]string{"u user x", "r rewind u20", "k compact u20 a19 19"}, "[summary] u20", 8, false},
		"rewound, and the rewind undone": {
			[]string{"k compact u20 a19 19", "u user x", "r rewind u20", "v user y", "q rewind u"}, "[summary] u20 =a20 u", 10, false,
		},
		"the compaction is rewound": {[]string{"k compact u20 a19 19", "r rewind a19"}, "", 46, true},
		"rewound to the beginning":  {[]string{"k compact u20 a19 19", "r rewind s", "u user x"}, "u", 46, true},
		"rewound to no entry":       {[]string{"k compact u20 a19 19", "r rewind nowhere"}, "[summary] u20 =a20", 46, true},
		"rewound in its batch":      {[]string{"b1 user x; b2 rewind a20; b3 user y", "k compact b3 a20 20"}, "[summary] b3", 48, true},
		"unknown turns":             {[]string{"k compact u20 a19"}, "[summary] u20 =a20", 45, true},
		"nothing named":             {[]string{"k compact . . 20"}, "[summary]", 45, true},
		"an entry that is missing":  {[]string{"k compact nowhere a19 20"}, "[summary] u20 =a20", 45, true},
		"an entry of no message":    {[]string{"t title x", "k compact t a20 20"}, "[summary]", 45, true},
		"the entry was left": {
			[]string{"u user x", "r rewind a20", "v user y", "k compact u a19 19"}, "[summary] u20 =a20 v", 10, false,
		},
		"the entry was left, and compacted again": {
			[]string{"u user x", "r rewind a20", "k compact u a19 19", "v user y", "l compact u a20 20"}, "[summary] v", 10, false,
		},
		"the entry was left, and nothing is covered": {
			[]string{"u user x", "r rewind a20", "k compact u . 20"}, "[summary]", 45, true,
		},
		"the covered entry was left too": {
			[]string{"u user x", "v user y", "r rewind a20", "k compact v u 20"}, "[summary]", 46, true,
		},
		"the covered entry comes after it": {
			[]string{"u user x", "r rewind a20", "v user y", "k compact u v 21"}, "[summary]", 46, true,
		},
		"an entry of no message was left": {
			[]string{"t title x; u user x", "r rewind a20", "k compact t a19 19"}, "[summary] u20 =a20", 46, true,
		},
		"of two entries with the ID the last was left": {
			[]string{"u18 user x", "r rewind a20", "k compact u18 a19 19"}, "[summary] u20 =a20", 9, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := textOf(t, append(talk(1, 20), test.then...)...)
			all := x.begin(true)
			x.records = 0
			r := x.begin(false)
			require.LessOrEqual(t, x.records, test.read)
			require.Equal(t, test.whole, r.Whole())
			require.Equal(t, shown(all.Fold), shown(r.Fold))
			require.Equal(t, all.Fold.Turns(), r.Fold.Turns())
			require.Equal(t, x.row(all), x.row(r))
			if test.shown != "" {
				require.Equal(t, test.shown, shown(r.Fold))
			}
		})
	}
}

// A reader does not begin at a batch that damage or a kill has cut.
func TestBeginAtADamagedBatch(t *testing.T) {
	for name, damage := range map[string]func(x *text){
		"lines are missing": func(x *text) {
			_, entries := x.write("b1 user x; b2 user y; b3 user z")
			x.data = x.data[:len(x.data)-len(entries[2].Line())-1]
		},
		"a line in the middle is damaged": func(x *text) {
			_, entries := x.write("b1 user x; b2 user y; b3 user z")
			at := len(x.data) - len(entries[2].Line()) - len(entries[1].Line()) - 2
			copy(x.data[at:], "damage")
		},
		"the first line is damaged": func(x *text) {
			res, _ := x.write("b1 user x; b2 user y; b3 user z")
			copy(x.data[res.Start:], "damage")
		},
	} {
		for _, first := range []string{"b1", "b2", "b3"} {
			t.Run(name+" "+first, func(t *testing.T) {
				x := textOf(t, talk(1, 20)...)
				damage(x)
				x.write("k compact " + first + " a20 20")
				all, r := x.begin(true), x.begin(false)
				require.True(t, r.Whole())
				require.Equal(t, shown(all.Fold), shown(r.Fold))
				require.Len(t, r.Damage, len(all.Damage))
			})
		}
	}
}

// A reader continues at its place, unless lines refer to older ones that it lacks.
func TestReadOn(t *testing.T) {
	for name, test := range map[string]struct {
		batch string
		err   error
	}{
		"a text":                                 {"u user x", nil},
		"a rewind":                               {"r rewind u20", replay.ErrRewound},
		"a compaction":                           {"l compact a20 u20 20", nil},
		"a compaction that does not count turns": {"l compact a20 u20", replay.ErrRewound},
		"a compaction that keeps a missing entry": {"l compact u10 a9 9", replay.ErrRewound},
		"one that covers a missing entry":         {"l compact . a9 9", replay.ErrRewound},
		"one that covers all":                     {"l compact . a20 20", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, own := range []bool{false, true} {
				x := textOf(t, append(talk(1, 20), "k compact u20 a19 19")...)
				r, all := x.begin(false), x.begin(true)
				res, entries := x.write(test.batch)
				if own {
					require.NoError(t, r.Own(res, entries))
					require.Equal(t, test.err == nil, r.Next == res.End)
					require.NoError(t, all.Own(res, entries))
				}
				require.ErrorIs(t, r.ReadOn(x.scan), test.err)
				require.NoError(t, all.ReadOn(x.scan))
				require.Equal(t, res.End, all.Next)
				if test.err == nil {
					require.Equal(t, shown(all.Fold), shown(r.Fold))
					require.Equal(t, x.row(all), x.row(r))
				}
				require.Equal(t, shown(x.begin(false).Fold), shown(all.Fold))
			}
		})
	}
}

// Lines that do not directly follow those that were read are left to the next reading.
func TestOwnElsewhere(t *testing.T) {
	x := textOf(t, talk(1, 2)...)
	r := x.begin(true)
	x.write("other user x")
	res, entries := x.write("b1 user y; b2 user z")
	require.NoError(t, r.Own(res, entries))
	require.Equal(t, "u1 =a1 u2 =a2", shown(r.Fold))
	require.NoError(t, r.ReadOn(x.scan))
	require.Equal(t, "u1 =a1 u2 =a2 other b1 b2", shown(r.Fold))
	var none replay.Reader
	require.NoError(t, none.Own(res, entries))
	require.Nil(t, none.Fold)
	res, entries = x.write("c1 user y; c2 user z")
	res2, more := x.write("d1 answer m . z")
	require.NoError(t, r.Own(driver.Result{Start: res.Start, End: res2.End}, slices.Concat(entries, more)))
	require.Equal(t, shown(x.begin(true).Fold), shown(r.Fold))
	require.Equal(t, x.row(x.begin(true)), x.row(r))
}

// Lines of a newer format that must not be ignored are an error, and so is the header of
// another session.
func TestStrangeLines(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, test := range []struct {
			data string
			e    transcript.Entry
			want string
		}{
			{string(textOf(t).data), transcript.Entry{ID: "n", Body: transcript.Unknown{Kind: "new", Critical: true}}, rebuild.ErrNewerFormat.Error()},
			{"", transcript.Entry{ID: "other", Body: transcript.Header{Version: 1}}, `names session "other"`},
		} {
			x := &text{t: t, data: []byte(test.data)}
			r := x.begin(true)
			res, entries := x.add("", test.e)
			if own {
				require.ErrorContains(t, r.Own(res, entries), test.want)
			} else {
				require.ErrorContains(t, r.ReadOn(x.scan), test.want)
			}
			again := replay.New(opts)
			require.ErrorContains(t, again.Begin(x.scan, row, false), test.want)
			_, err := replay.NewRow("main", append(entries, transcript.Entry{ID: "other", Body: transcript.Header{}}), opts)
			require.Equal(t, test.data != "", err != nil)
		}
	}
}

// A fork whose last compaction was copied keeps the state in its header, and is read
// whole. After a compaction of its own it is not.
func TestBeginAtAFork(t *testing.T) {
	x := &text{t: t}
	pin := transcript.Entry{ID: "u1", Body: transcript.Pin{Entry: "u1", Text: "pinned"}}
	x.add("", x.entry("s", transcript.Header{
		Version: transcript.Version, Key: "main:cli:user", Gen: 1, Base: transcript.Link{Session: "b", Lines: 3}, Standing: []transcript.Entry{pin},
	}))
	for _, b := range []string{"u2 user x", "u3 user y", "k compact u3 u2 2", "u4 user z"} {
		x.write(b)
	}
	r := x.begin(false)
	require.True(t, r.Whole())
	require.Equal(t, "pin u1 pinned", standing(r.Fold))
	x.compacted("l", "u4", "u3")
	r = x.begin(false)
	require.False(t, r.Whole())
	require.Equal(t, "pin u1 pinned", standing(r.Fold))
	require.Equal(t, shown(x.begin(true).Fold), shown(r.Fold))
}
