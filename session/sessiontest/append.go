package sessiontest

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// writers is how many goroutines a rule about concurrency uses.
const writers = 16

var appendRules = []Rule{
	{"append/contiguous", "Append adds lines, one or more, all or none and with nothing in between", appendContiguous},
	{"append/order", "Driver stores sessions: for each an append-only sequence of lines and a [Row] that describes it.", appendOrder},
	{"append/result", "Result is the place of the lines of an append.", appendResult},
	{"append/foreign", "All methods may be called by several goroutines, and several processes may use one storage at a time.", appendForeign},
	{"append/many", "Append adds lines, one or more, all or none", appendMany},
	{"append/long", "one JSON object, without a newline", appendLong},
	{"append/owned", textOwned, appendOwned},
}

// textOwned is a rule that package driver does not state.
const textOwned = "A method keeps none of its arguments: changing them after it has returned changes nothing that is stored."

func appendContiguous(c *check) {
	const rounds = 8
	d, ref := c.startSession()
	var mu sync.Mutex
	batches, results := map[string][]string{}, map[string]driver.Result{} // by the ID of the first line
	c.together(writers, []driver.Driver{d, c.second(d)}, func(i int, d driver.Driver) {
		for round := range rounds {
			lines := c.triple(fmt.Sprintf("%d.%d", i, round))
			r := c.append(d, ref, lines...)
			mu.Lock()
			batches[lines[0].ID], results[lines[0].ID] = lineIDs(lines...), r
			mu.Unlock()
		}
	})
	recs := c.scan(d, ref, 0, driver.Forward)
	if n := 1 + writers*rounds*3; len(recs) != n {
		c.errorf("%d goroutines appended %d lines, and the session has %d", writers, n, len(recs))
	}
	found := map[string]int{}
	for i, rec := range recs {
		want, ok := batches[rec.Entry.ID]
		if !ok {
			continue
		}
		found[rec.Entry.ID]++
		got := recs[i:min(i+len(want), len(recs))]
		if !slices.Equal(idsOf(got), want) {
			c.errorf("the lines %s of one append are read as %s", brief(want), brief(idsOf(got)))
			continue
		}
		r := results[rec.Entry.ID]
		if int64(r.Start) > got[0].Offset || i > 0 && int64(r.Start) < recs[i-1].End || int64(r.End) != got[2].End {
			c.errorf("the result of an append is %d to %d, and its lines are at %d to %d",
				r.Start, r.End, got[0].Offset, got[2].End)
		}
	}
	for id, want := range batches {
		c.errorIf(found[id] != 1, "the lines %s of one append are found %d times, want once", brief(want), found[id])
	}
}

func appendOrder(c *check) {
	d := c.start()
	row := c.create(d, "main", "k")
	want := []driver.Line{}
	for i := range 20 {
		lines := c.triple(fmt.Sprint(i))
		if i%2 == 0 {
			lines = lines[:0]
			for _, b := range []transcript.Body{
				transcript.Custom{Name: "text", Data: []byte(`"汉字 \u2028 \\ \" \n < > & 😀"`)},
				transcript.Rewind{To: row.ID},
				transcript.Unknown{Kind: "future"},
			} {
				lines = append(lines, c.entry(b))
			}
		}
		c.append(d, row.Ref(), lines...)
		want = append(want, lines...)
	}
	recs := c.scan(d, row.Ref(), 0, driver.Forward)
	if len(recs) != len(want)+1 {
		c.fatalf("%d lines were appended to a session of one, and it has %d", len(want), len(recs))
	}
	for i, l := range want {
		got := recs[i+1].Entry
		if !bytes.Equal(got.Line(), l.Data) || got.ID != l.ID {
			c.errorf("line %d is read as %s, want %s", i+2, got.Line(), l.Data)
		}
	}
}

func appendResult(c *check) {
	d, ref := c.startSession()
	for i := range 3 {
		before := c.settle(d, ref)
		lines := c.triple(fmt.Sprint(i))
		r := c.append(d, ref, lines...)
		if r.Start < before || r.End <= r.Start {
			c.errorf("Append after cursor %d: lines at %d to %d", before, r.Start, r.End)
		}
		c.wantIDs("a scan from Result.Start", idsOf(c.scan(d, ref, r.Start, driver.Forward)), lineIDs(lines...))
		c.wantIDs("a scan from Result.End", idsOf(c.scan(d, ref, r.End, driver.Forward)), nil)
	}
}

func appendForeign(c *check) {
	a := c.start()
	b := c.second(a)
	ref := c.create(a, "main", "k").Ref()
	want := c.ids(a, ref)
	for i := range 10 {
		lines := c.triple(fmt.Sprint(i))
		c.append([]driver.Driver{a, b}[i%2], ref, lines...)
		want = append(want, lineIDs(lines...)...)
		c.wantIDs("the one driver, after an append by one of two", c.ids(a, ref), want)
		c.wantIDs("the other driver, after an append by one of two", c.ids(b, ref), want)
	}
}

func appendMany(c *check) {
	d, ref := c.startSession()
	want := c.ids(d, ref)
	for range 10 {
		lines := c.notes(1000)
		c.append(d, ref, lines...)
		want = append(want, lineIDs(lines...)...)
	}
	c.wantIDs("a session of 10,001 lines, forward", c.ids(d, ref), want)
	slices.Reverse(want)
	c.wantIDs("a session of 10,001 lines, backward", idsOf(c.scan(d, ref, 0, driver.Backward)), want)
}

func appendLong(c *check) {
	d, ref := c.startSession()
	var want []driver.Line
	for _, n := range []int{1, 4095, 4096, 64 << 10, 1 << 20, 1<<20 + 1} {
		want = append(want, c.user(strings.Repeat("汉", n/3)+strings.Repeat("a", n%3)))
	}
	c.append(d, ref, want...)
	for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
		recs := c.scan(d, ref, 0, dir)
		if dir == driver.Backward {
			slices.Reverse(recs)
		}
		if len(recs) != len(want)+1 {
			c.errorf("%d lines were appended to a session of one, and it has %d", len(want), len(recs))
			continue
		}
		for i, l := range want {
			if !bytes.Equal(recs[i+1].Entry.Line(), l.Data) {
				c.errorf("a line of %d bytes is read as another one, of %d bytes", len(l.Data), len(recs[i+1].Entry.Line()))
			}
		}
	}
}

func appendOwned(c *check) {
	d := c.start()
	var headerLine driver.Line
	labels := []string{"a", "b"}
	row, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
		row, l := header("main", "k", c.id())(gen)
		row.Labels, headerLine = labels, l
		return row, l
	})
	c.noErr("Create", err)
	ref := row.Ref()
	lines := c.triple("text")
	want := append([]string{string(headerLine.Data)}, text(lines)...)
	c.append(d, ref, lines...)
	for _, l := range append(lines, headerLine) {
		clear(l.Data)
	}
	clear(lines)
	runtime.Gosched()
	for i, rec := range c.scan(d, ref, 0, driver.Forward) {
		if got := string(rec.Entry.Line()); i < len(want) && got != want[i] {
			c.errorf("line %d reads %q after the caller cleared its slice, want %s", i+1, got, want[i])
		}
	}
	for _, from := range []string{"Create", "Put"} {
		labels[0] = "changed"
		got := c.get(d, ref)
		if !slices.Equal(got.Labels, []string{"a", "b"}) {
			c.errorf("the labels are %q after the caller of %s changed its slice, want [a b]", got.Labels, from)
		}
		got.Labels = []string{"a", "b"}
		labels = got.Labels
		c.put(d, got)
	}
}

func text(lines []driver.Line) []string {
	s := make([]string, len(lines))
	for i, l := range lines {
		s[i] = string(l.Data)
	}
	return s
}
