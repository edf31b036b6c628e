package filedriver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/convolog/convolog/session/driver"
)

// What is kept of a key is what its rows say, after any changes.
func TestKeys(t *testing.T) {
	x := &index{}
	x.reset(newRows())
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		row := driver.Row{ID: fmt.Sprint(r.IntN(12)), Key: fmt.Sprint("k", r.IntN(3)), Gen: r.Int64N(5)}
		if r.IntN(2) == 0 {
			row.LastID = "x"
		}
		if r.IntN(3) == 0 {
			x.drop(row.ID)
		} else {
			x.set(row.ID, lazyRow{row: &row})
		}
		if r.IntN(50) == 0 {
			x.keys, x.allKeys = nil, false
			x.byKey("k0", "k2")
		}
		for key := range 3 {
			key := fmt.Sprint("k", key)
			var (
				want    driver.Row
				highest int64
				found   bool
			)
			for row := range x.rows.all() {
				if row.Key != key {
					continue
				}
				highest = max(highest, row.Gen)
				if !found || row.Newer(want) {
					want, found = row, true
				}
			}
			cur, gen, ok := x.current(key)
			if cur.ID != want.ID || cur.Gen != want.Gen || gen != highest || ok != found {
				t.Fatalf("key %s: %+v, %d, %v, want %+v, %d, %v", key, cur, gen, ok, want, highest, found)
			}
		}
	}
}
