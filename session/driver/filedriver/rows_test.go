package filedriver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// randomRow has texts that look like the text of a row.
func randomRow(rnd *rand.Rand, id string) driver.Row {
	texts := []string{"", "plain", `","size":7,"gen":9`, `"key":"x"`, "日本語", "a\\\"b", "}\n{", `{"id":"x"}`}
	text := func() string { return texts[rnd.IntN(len(texts))] }
	at := func() time.Time {
		return time.Unix(1_780_000_000+rnd.Int64N(5), []int64{0, 500_000_000, 225_967_000, 225_900_000}[rnd.IntN(4)]).UTC()
	}
	row := driver.Row{
		ID: id, Key: "k" + text(), Agent: "main", Owner: text(), Title: text(), File: id + ".jsonl",
		CreatedAt: at(), UpdatedAt: at(), Messages: rnd.IntN(9), Size: rnd.Int64N(1e9), LastID: text(), Gen: rnd.Int64N(4),
	}
	if rnd.IntN(2) == 0 {
		row.Labels, row.Base, row.BaseID, row.TTL, row.Pinned = []string{text(), text()}, 5, text(), 9, true
	}
	return row
}

// What a row says is the same whether it was decoded or not, and after it was
// written and read.
func TestRowsAsText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var doc bytes.Buffer
	want := map[string]driver.Row{}
	doc.WriteString(snapshotHead + "7" + snapshotRows)
	for i := range 500 {
		id := fmt.Sprintf("s%03d", i)
		row := randomRow(rnd, id)
		want[id] = row
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			doc.WriteString(",")
		}
		fmt.Fprintf(&doc, "\n%q:%s", id, text)
	}
	doc.WriteString("\n" + snapshotEnd + "\n")

	generation, all, ok := divideSnapshot(doc.String())
	if !ok || generation != 7 || all.len() != len(want) {
		t.Fatal(generation, ok)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, doc.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{pretty.String(), strings.TrimSpace(doc.String()), strings.ReplaceAll(doc.String(), "\n", "")} {
		if _, _, ok := divideSnapshot(other); ok {
			t.Error("a snapshot of another form was divided")
		}
		if _, decoded, ours, err := parseSnapshot(&other); err != nil || ours || decoded.len() != len(want) {
			t.Errorf("a snapshot of another form has %d rows, %v", decoded.len(), err)
		}
	}
	for id, row := range want {
		l, _ := all.find(id)
		if size, ok := all.size(id); !ok || size != row.Size || l.row != nil {
			t.Errorf("%s: size %d, want %d", id, size, row.Size)
		}
		s, err := l.standing(id)
		if err != nil || s.Key != row.Key || s.Gen != row.Gen || (s.LastID == "") != (row.LastID == "") || s.ID != id {
			t.Errorf("%s: standing %+v, %v, want %+v", id, s, err, row)
		}
		if at := l.updated(id); at != (lazyRow{row: &row}).updated(id) {
			t.Errorf("%s: updated %s, want %s", id, at, row.UpdatedAt)
		}
		if got, ok := all.get(id); !ok || !reflect.DeepEqual(got, row) {
			t.Errorf("%s: %+v, want %+v", id, got, row)
		}
	}
	for i := range 60 { // in as many orders of a map
		n := []int{1, 2, 10, 499, 500, 600}[i%6]
		_, fresh, _ := divideSnapshot(doc.String())
		got := fresh.recent(n)
		sorted := slices.SortedFunc(fresh.all(), func(a, b driver.Row) int {
			if c := b.UpdatedAt.Compare(a.UpdatedAt); c != 0 {
				return c
			}
			return strings.Compare(b.ID, a.ID)
		})
		if !reflect.DeepEqual(got, sorted[:min(n, len(sorted))]) {
			t.Errorf("the %d newest differ", n)
		}
	}
}

// A text that is no row is found out when it is asked for.
func TestRowsThatAreNone(t *testing.T) {
	doc := snapshotHead + "1" + snapshotRows + "\n" + `"a":{"id":"a","key":"k","size":"x","gen":1}` + ",\n" + `"b":{"id":"b","key":"k","size":5,"gen":2}` + "\n" + snapshotEnd + "\n"
	_, all, ok := divideSnapshot(doc)
	if !ok || all.len() != 2 {
		t.Fatal(ok, all.len())
	}
	if _, ok := all.size("a"); ok || !all.lost || all.has("a") {
		t.Error("the broken row is there")
	}
	if row, ok := all.get("b"); !ok || row.Size != 5 {
		t.Error(row, ok)
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(snapshotHead + "1" + snapshotRows + "\n" + `"a":{"id":"a","key":"k","size":1,"gen":1}` + "\n" + snapshotEnd + "\n"))
	f.Add([]byte(`{"version":1,"generation":2,"sessions":{}}`))
	f.Add([]byte(snapshotHead + "1" + snapshotRows + "\n" + `"":{"id":"","key":"` + "\n" + snapshotEnd + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := string(data)
		_, all, _, err := parseSnapshot(&text)
		if err != nil && all.len() > 0 {
			t.Error("rows of no index")
		}
		x := &index{}
		x.reset(all)
		x.byKey()
		for id := range x.rows.each() {
			_, _ = x.rows.size(id)
		}
		x.rows.recent(3)
		for row := range x.rows.all() {
			if cur, _, ok := x.current(row.Key); x.rows.has(row.ID) && !x.rows.lost && (!ok || row.Newer(cur) && row.ID != cur.ID) {
				t.Errorf("%+v is the current session of %q, not %+v", cur, row.Key, row)
			}
		}
	})
}
