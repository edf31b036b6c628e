package filedriver

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/convolog/convolog/session/driver"
)

func checkRowText(t *testing.T, row driver.Row) {
	t.Helper()
	want, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	if got := appendRow([]byte("x"), &row); string(got) != "x"+string(want) {
		t.Errorf("%s, want x%s", got, want)
	}
}

func TestRowTextIsThatOfEncodingJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	checkRowText(t, driver.Row{})
	for range 5000 {
		row := randomRow(rnd, "a")
		row.Turns, row.TokenEstimate, row.TitleByHand = rnd.IntN(3), -rnd.IntN(3), rnd.IntN(2) == 0
		if rnd.IntN(2) == 0 {
			row.LastUserAt = row.CreatedAt.In(time.FixedZone("", rnd.IntN(20_000)-10_000))
		}
		checkRowText(t, row)
	}
}

func FuzzRowText(f *testing.F) {
	f.Add("title", "label", int64(1_780_000_000), int64(5), 0)
	f.Add("a<b>&\u2028\xff\"\\\x00\x7f", "\u00e9\ufffd", int64(-62135596800), int64(0), 3600)
	f.Fuzz(func(t *testing.T, text, label string, sec, n int64, zone int) {
		at := time.Unix(sec, n).In(time.FixedZone("", zone%86400))
		row := driver.Row{
			ID: label, Key: text, Agent: label, Owner: text, Title: label, Labels: []string{text, label}, File: text, LastID: label,
			Messages: int(n), Size: sec, Base: driver.Cursor(n), BaseID: text, Gen: n, TTL: sec,
		}
		if _, err := at.MarshalJSON(); err == nil {
			row.UpdatedAt = at
		}
		checkRowText(t, row)
		row.CreatedAt = at
		var back driver.Row
		if err := json.Unmarshal(appendRow(nil, &row), &back); err != nil {
			t.Error(err)
		}
	})
}

// A time without a form in JSON does not take the row with it.
func TestRowAfterTheYear9999(t *testing.T) {
	row := driver.Row{ID: "a", Key: "k", Title: "kept", CreatedAt: time.Unix(1_780_000_000, 0).UTC(), UpdatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}
	back, err := decodeRow("a", appendRow(nil, &row))
	if err != nil || back.Title != "kept" || !back.CreatedAt.Equal(row.CreatedAt) || !back.UpdatedAt.IsZero() {
		t.Errorf("%+v, %v", back, err)
	}
}

func BenchmarkRowText(b *testing.B) {
	row := randomRow(rand.New(rand.NewPCG(5, 6)), "a")
	row.Title, row.Owner, row.Labels, row.Key, row.BaseID, row.LastID = "Why does the build fail?", "", nil, "main:web:user", "", "0198"
	var buf []byte
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = appendRow(buf[:0], &row)
		}
	})
	b.Run("encoding", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(row); err != nil {
				b.Fatal(err)
			}
		}
	})
}
