package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// A row sums up the lines, one after the other.
func TestRow(t *testing.T) {
	keep, ttl := true, int64(60)
	x := &text{t: t}
	head := transcript.Header{
		Version: transcript.Version, Key: "main:cli:user", Gen: 3, Rev: 2, Owner: "anna", Created: time.Unix(9, 0).UTC(),
		Meta: transcript.Meta{Labels: []string{"a"}}, Parent: transcript.Link{Session: "p"},
	}
	x.add("", x.entry("s", head))
	want := driver.Row{
		ID: "s", Agent: "main", Key: "main:cli:user", Gen: 3, Rev: 2, Owner: "anna", CreatedAt: time.Unix(9, 0).UTC(),
		UpdatedAt: time.Unix(1, 0).UTC(), Labels: []string{"a"}, Parent: transcript.Link{Session: "p"},
	}
	at := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	for _, step := range []struct {
		batch  string
		body   transcript.Body
		change func()
	}{
		{batch: "u1 user  first question", change: func() {
			want.Messages, want.Title, want.LastID, want.LastUserAt, want.UpdatedAt = 1, "first question", "u1", at(2), at(2)
			want.Turns, want.TokenEstimate, want.Waits = 1, 2, "answer"
		}},
		{batch: "a1 answer m 3 yes; c1 call a1 id", change: func() {
			want.Messages, want.LastID, want.UpdatedAt = 2, "c1", at(4)
			want.Usage = map[string]driver.Usage{"m": {Answers: 1, Input: 3, Output: 1}}
			want.TokenEstimate, want.Waits = 3, "tool"
		}},
		{batch: "r1 result id done", change: func() { want.LastID, want.UpdatedAt, want.Waits = "r1", at(5), "answer" }},
		{batch: "a2 answer m 4 yes", change: func() {
			want.Messages, want.LastID, want.UpdatedAt, want.TokenEstimate, want.Waits = 3, "a2", at(6), 4, ""
			want.Usage = map[string]driver.Usage{"m": {Answers: 2, Input: 7, Output: 2}}
		}},
		{batch: "a3 answer n 1 no", change: func() {
			want.Messages, want.LastID, want.UpdatedAt, want.TokenEstimate = 4, "a3", at(7), 5
			want.Usage = map[string]driver.Usage{"m": {Answers: 2, Input: 7, Output: 2}, "n": {Answers: 1, Input: 1, Output: 1}}
		}},
		{batch: "n note", change: func() { want.LastID = "n" }},
		{body: transcript.Meta{Title: new("by a model"), TitleBy: transcript.ByModel}, change: func() {
			want.Title, want.TitledAt, want.LastID = "by a model", 4, "m"
		}},
		{body: transcript.Meta{Labels: []string{}, TTL: &ttl, Keep: &keep}, change: func() {
			want.Labels, want.TTL, want.Keep = []string{}, 60, true
		}},
		{batch: "t title by hand", change: func() { want.Title, want.TitleByHand, want.LastID = "by hand", true, "t" }},
		{batch: "u2 user second", change: func() {
			want.Messages, want.LastID, want.LastUserAt, want.UpdatedAt = 5, "u2", at(12), at(12)
			want.Turns, want.TokenEstimate, want.Waits = 2, 6, "answer"
		}},
		{batch: "g current 7", change: func() { want.Gen, want.LastID = 7, "g" }},
		{batch: "g2 current 5", change: func() { want.LastID = "g2" }},
		{body: transcript.Header{Key: "another"}, change: func() {}},
		{batch: "k compact u2 a3 1", change: func() {
			want.Compactions, want.LastID, want.UpdatedAt, want.TokenEstimate = 1, "k", at(16), 1+4
		}},
	} {
		if step.body != nil {
			x.add("", x.entry("m", step.body))
		} else {
			x.write(step.batch)
		}
		step.change()
		want.Size = int64(len(x.data))
		got := x.row(x.begin(true))
		if len(got.Labels) == 0 {
			got.Labels = want.Labels
		}
		require.Equal(t, want, got, "%s %v", step.batch, step.body)
	}
	got, err := replay.Row(row, x.scan, opts)
	require.NoError(t, err)
	require.Equal(t, want.Messages, got.Messages)
	r := x.begin(true)
	require.Equal(t, []any{"anna", 2}, []any{r.Owner(), r.Rev()})

	// An empty title set by hand is not replaced.
	x = textOf(t)
	x.add("", x.entry("t", transcript.Meta{Title: new("")}))
	x.write("u user text")
	require.Empty(t, x.row(x.begin(true)).Title)
}

// The row of a fork counts copied messages. It ignores copied titles, compactions
// and usage.
func TestRowOfAFork(t *testing.T) {
	x := &text{t: t}
	x.add("", x.entry("s", transcript.Header{Version: transcript.Version, Key: "main:cli:user", Gen: 1, Base: transcript.Link{Session: "b", Lines: 4}}))
	for _, b := range []string{"u1 user x", "a1 answer m 3 y", "t title copied", "k compact u1 u1 1", "a2 answer m 5 y", "t2 title own", "k2 compact a1 u1 1"} {
		x.write(b)
	}
	got := x.row(x.begin(true))
	require.Equal(t, []any{3, 1, "own"}, []any{got.Messages, got.Compactions, got.Title})
	require.Equal(t, map[string]driver.Usage{"m": {Answers: 1, Input: 5, Output: 1}}, got.Usage)
}

// A row of the index covers the lines before its size. The rest is read once, and only
// for the row.
func TestRowFromTheIndex(t *testing.T) {
	x := textOf(t, talk(1, 3)...)
	old := x.row(x.begin(true))
	for _, b := range append(talk(4, 20), "k compact u20 a19 19") {
		x.write(b)
	}
	want := x.row(x.begin(true))
	for name, change := range map[string]func(*driver.Row){
		"as it is":           func(*driver.Row) {},
		"of all lines":       func(r *driver.Row) { *r = want },
		"of another rev":     func(r *driver.Row) { r.Rev, r.Messages = 1, 100 },
		"of more lines":      func(r *driver.Row) { r.Size, r.Messages = int64(len(x.data))+1, 100 },
		"with another owner": func(r *driver.Row) { r.Owner = "bert" },
		"the ID alone":       func(r *driver.Row) { *r = row },
	} {
		t.Run(name, func(t *testing.T) {
			known := old
			change(&known)
			r := x.with(known)
			require.False(t, r.Whole())
			x.records = 0
			require.Equal(t, name != "of all lines", !r.Filled())
			require.Equal(t, want, x.row(r))
			require.Equal(t, name != "of all lines", x.records > 0)
			require.True(t, r.Filled())
			x.records = 0
			require.Equal(t, want, x.row(r))
			require.Zero(t, x.records)
			got, err := replay.Row(known, x.scan, opts)
			if name != "of more lines" {
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}

	// Entries that were appended since then count once.
	r := x.with(old)
	res, entries := x.write("u21 user x")
	require.NoError(t, r.Own(res, entries))
	require.Equal(t, x.row(x.begin(true)), x.row(r))
	res, entries = x.write("u22 user x")
	require.NoError(t, r.Own(res, entries))
	require.Equal(t, x.row(x.begin(true)), x.row(r))
}

// A transcript belongs to the session that its header names.
func TestHeader(t *testing.T) {
	x := textOf(t, talk(1, 2)...)
	r := replay.New(opts)
	require.ErrorContains(t, r.Begin(x.scan, driver.Row{ID: "other", Agent: "main"}, false), `"s"`)

	for name, test := range map[string]struct {
		data  string
		row   driver.Row
		error string
		empty bool
	}{
		"a header":           {string(x.data), row, "", false},
		"no header":          {`{"type":"user","id":"u","content":"x"}` + "\n", row, "header is missing", false},
		"a key in the index": {`{"type":"user","id":"u","content":"x"}` + "\n", driver.Row{ID: "s", Key: "k"}, "", false},
		"nothing":            {"", row, "header is missing", true},
		"damage":             {"damage\n", row, "header is missing", true},
		"a newer version":    {strings.Replace(string(x.data), `"v":1`, `"v":2`, 1), row, "format version 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			y := &text{t: t, data: []byte(test.data)}
			r := replay.New(opts)
			require.NoError(t, r.Begin(y.scan, test.row, false))
			require.Equal(t, test.empty, r.Empty())
			if test.error == "" {
				require.NoError(t, r.Writable())
			} else {
				require.ErrorContains(t, r.Writable(), test.error)
			}
			require.Equal(t, test.data == "damage\n", len(r.TakeNews()) == 1)
		})
	}
}

// The row of a session that is about to be created.
func TestNewRow(t *testing.T) {
	x := textOf(t, "u1 user x", "a1 answer m 3 y; c1 call a1 id")
	var entries []transcript.Entry
	for rec, err := range x.scan(0, driver.Forward) {
		require.NoError(t, err)
		entries = append(entries, rec.Entry)
	}
	got, err := replay.NewRow("main", entries, opts)
	require.NoError(t, err)
	want := x.row(x.begin(true))
	got.Size, want.Size = 0, 0
	require.Equal(t, want, got)
}

// The status of a call holds until its ID is used for a new call.
func TestStatus(t *testing.T) {
	x := textOf(t, "a1 answer m . y; c1 call a1 id1; c2 call a1 id2")
	r := x.begin(true)
	require.Empty(t, r.Status("id1"))
	for _, step := range []struct{ batch, one, two string }{
		{"s1 status id1 running", "running", ""},
		{"s2 status id2 pending", "running", "pending"},
		{"s3 status id1 completed", "completed", "pending"},
		{"u user x", "completed", "pending"},
		{"a2 answer m . y; c3 call a2 id1", "", "pending"},
	} {
		x.write(step.batch)
		x.on(r)
		require.Equal(t, []string{step.one, step.two}, []string{r.Status("id1"), r.Status("id2")}, step.batch)
	}
}

// A line gets a checksum, unless that is off or would make it too long.
func TestWithChecksum(t *testing.T) {
	e := transcript.Entry{ID: "u", Body: bodyOf(t, "user x")}
	require.Contains(t, string(opts.WithChecksum(e).Line()), `"crc"`)
	require.NotContains(t, string((&replay.Options{NoChecksum: true}).WithChecksum(e).Line()), `"crc"`)
}
