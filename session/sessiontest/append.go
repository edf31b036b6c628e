package sessiontest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var appendRules = []rule{
	{"append/contiguous", "Append adds lines, one or more, all or none and with nothing in between", appendContiguous},
	{"append/lines", "Driver stores sessions: for each an append-only sequence of lines and a [Row] that describes it. ... one JSON object, without a newline ... A nil error means that the write is as durable as the settings of the driver promise.", appendLines},
	{"append/result", "Result is the place of the lines of an append.", appendResult},
	{"append/foreign", "All methods may be called by several goroutines, and several processes may use one storage at a time. ... or anywhere if at is negative", appendForeign},
	{"append/owned", textOwned, appendOwned},
}

// textOwned is a rule that package driver does not state.
const textOwned = "A method keeps none of its arguments: changing them after it has returned changes nothing that is stored."

func appendContiguous(c *check) {
	const rounds = 8
	d, other, ref := c.startSession()
	type batch struct {
		ids []string
		at  driver.Result
	}
	var mu sync.Mutex
	batches := map[string]batch{} // by the ID of the first line
	c.together(writers, d, other, func(i int, d driver.Driver) {
		for range rounds {
			lines := c.triple("a")
			r := c.append(d, ref, lines...)
			mu.Lock()
			batches[lines[0].ID] = batch{lineIDs(lines...), r}
			mu.Unlock()
		}
	})
	recs := c.scan(d, ref, 0, driver.Forward)
	c.errorIf(len(recs) != 1+writers*rounds*3, "%d goroutines appended %d lines to a session of one, and it has %d", writers, writers*rounds*3, len(recs))
	for i, rec := range recs {
		b, ok := batches[rec.Entry.ID]
		if !ok || i == 0 {
			continue
		}
		delete(batches, rec.Entry.ID)
		got := recs[i:min(i+3, len(recs))]
		c.wantIDs("the lines of one append", idsOf(got), b.ids)
		if int64(b.at.Start) > got[0].Offset || int64(b.at.Start) < recs[i-1].End || int64(b.at.End) != got[len(got)-1].End {
			c.errorf("the result of an append is %v, and its lines begin at %d and end at %d", b.at, got[0].Offset, got[len(got)-1].End)
		}
	}
	c.errorIf(len(batches) > 0, "the lines of %d appends are missing", len(batches))
}

// Many lines, long lines, and lines whose text is easily changed.
func appendLines(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	for i, n := range []int{1, 4095, 4096, 64 << 10, 1 << 20, 1<<20 + 1, 2, 3, 4, 5} {
		lines := append(c.users(strings.Repeat("汉", n/3)+strings.Repeat("a", n%3)), c.notes(1000)...)
		for _, body := range []transcript.Body{
			transcript.Custom{Name: "text", Data: []byte(`"汉字 \u2028 \\ \" \n < > & 😀"`)},
			transcript.Rewind{To: ref.ID},
			transcript.Unknown{Kind: "future"},
		} {
			lines = append(lines, line(c.id(), body))
		}
		c.append([]driver.Driver{d, other}[i%2], ref, lines...)
		want.append(ref, lines...)
	}
	c.everywhere("after appends", want, d, other)
}

func appendResult(c *check) {
	d, _, ref := c.startSession()
	for i := range 3 {
		before := c.end(d, ref)
		lines := c.triple(fmt.Sprint(i))
		r := c.append(d, ref, lines...)
		c.errorIf(r.Start < before || r.End <= r.Start, "Append after cursor %d: lines at %v", before, r)
		c.wantIDs("a scan from Result.Start", idsOf(c.scan(d, ref, r.Start, driver.Forward)), lineIDs(lines...))
		c.wantIDs("a scan from Result.End", idsOf(c.scan(d, ref, r.End, driver.Forward)), nil)
	}
}

func appendForeign(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	for i := range 10 {
		lines := c.triple(fmt.Sprint(i))
		c.append([]driver.Driver{d, other}[i%2], ref, lines...)
		want.append(ref, lines...)
		c.wantState("after an append by one of two drivers", want, d, other)
	}
}

func appendOwned(c *check) {
	d := c.start()
	labels := []string{"a", "b"}
	more := c.triple("more")
	row := c.create(d, keyK)
	labelled, err := c.make(d, keyOther, c.id(), func(row *driver.Row) { row.Labels = labels }, more...)
	c.noErr("Create", err)
	lines := c.triple("text")
	c.append(d, row.Ref(), lines...)
	want := state{}
	labelled.Labels = slices.Clone(labels)
	want.create(row, lines...)
	want.create(labelled, more...)
	for _, l := range append(lines, more...) {
		clear(l.Data)
	}
	clear(lines)
	runtime.Gosched()
	for _, call := range []string{"Create", "Put"} {
		labels[0] = "changed"
		c.wantState("after the caller of "+call+" has changed its slices", want, d)
		put := labelled
		labels = slices.Clone(labelled.Labels)
		put.Labels = labels
		c.put(d, put)
	}
}
