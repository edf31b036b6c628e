package filedriver

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session/driver"
)

// Every whole line is decoded once, in order and at its offset, wherever chunks and
// the file end. A file that cannot be read is an error.
func TestDecodeChunks(t *testing.T) {
	seeds := uint64(100)
	if flag.Lookup("faults").Value.String() == "short" {
		seeds = 20
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var text []byte
		var want []string
		for range 1 + rnd.IntN(60) {
			id := strings.Repeat("x", []int{1, rnd.IntN(40), rnd.IntN(chunk), rnd.IntN(4 * chunk)}[rnd.IntN(4)])
			text = fmt.Appendf(text, `{"delete":"%s%d"}`+"\n", id, len(text))
			want = append(want, fmt.Sprintf("%s%d", id, len(text)))
		}
		size := int64(len(text))
		from := rnd.Int64N(min(size, 2*chunk))
		from += int64(bytes.IndexByte(text[from:], '\n')) + 1
		first := bytes.Count(text[:from], []byte("\n"))
		whole := bytes.Count(text[from:size-int64(seed%2)], []byte("\n"))
		name := filepath.Join(t.TempDir(), "index")
		require.NoError(t, os.WriteFile(name, text, 0o600))
		f, err := os.Open(name)
		require.NoError(t, err)
		x := &index{a: &agent{}, file: f}
		got := []string{}
		end := from
		for p, err := range x.pieces(from, size-int64(seed%2)) {
			require.NoError(t, err)
			require.Equal(t, end, p.at, "seed %d", seed)
			for _, l := range x.decode(nil, p) {
				end = l.end
				got = append(got, fmt.Sprintf("%s%d", strings.TrimRight(l.Delete, "0123456789"), l.end))
			}
		}
		require.Equal(t, want[first:first+whole], got, "seed %d", seed)
		require.NoError(t, f.Close())
		for _, err := range x.pieces(0, size) {
			require.ErrorIs(t, err, os.ErrClosed)
		}
	}
}

// An index that becomes shorter while it is read, as it does when a failed write is
// taken back, is read up to its end. If another process has written to it again since,
// it is damaged, and made again from the transcripts.
func TestReadMeetsAShorterIndex(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, `{"change":"%d"}`+"\n", i)
	}
	name := filepath.Join(t.TempDir(), indexName)
	require.NoError(t, os.WriteFile(name, []byte(text.String()), 0o600))
	f, err := os.Open(name)
	require.NoError(t, err)
	x := &index{a: &agent{d: &Driver{}}}
	require.NoError(t, x.forget())
	x.file = f
	size := int64(len(text.String()))
	require.NoError(t, x.read(size+5*chunk))
	require.Equal(t, size, x.applied)
	require.Len(t, x.changes, 3000)

	require.NoError(t, os.WriteFile(name, []byte(text.String()+`{"change":"late"}`+"\n"), 0o600))
	require.NoError(t, x.read(size+5*chunk))
	require.Len(t, x.changes, 3001)

	// The old end of the last line is now in the middle of another.
	x.lost, x.applied = false, x.applied-5
	require.NoError(t, x.read(size+5*chunk))
	require.True(t, x.lost)
	require.NoError(t, x.forget())
}

// The table of rows agrees with a plain map about every page and every current
// session, whatever it has computed before.
func TestRowsAgreeWithAMap(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		table := newRows(0)
		model := map[string]driver.Row{}
		for range 150 {
			id := fmt.Sprintf("s%02d", rnd.IntN(40))
			switch rnd.IntN(6) {
			case 0:
				if e := table.find(id); e != nil {
					table.del(e)
				}
				delete(model, id)
			case 1:
				after, n := driver.Position{}, rnd.IntN(5)
				if rnd.IntN(2) == 0 {
					after = driver.Position{UpdatedAt: time.Unix(int64(rnd.IntN(9)), 0), ID: id}
				}
				var got, want []string
				for _, e := range table.page(after, n) {
					got = append(got, e.id)
				}
				var places []driver.Position
				for _, row := range model {
					if (after == driver.Position{} || after.Compare(row.Position()) < 0) {
						places = append(places, row.Position())
					}
				}
				slices.SortFunc(places, driver.Position.Compare)
				for i, p := range places {
					if n == 0 || i < n {
						want = append(want, p.ID)
					}
				}
				require.Equal(t, want, got, "seed %d: page of %d behind %v", seed, n, after)
				require.True(t, table.sorted, "the next page costs nothing")
			case 2:
				key := ownedKey{[]string{"", "ada"}[rnd.IntN(2)], fmt.Sprint("k", rnd.IntN(4))}
				var want driver.Row
				for _, row := range model {
					if ownedKeyOf(row.KeyRef()) != key {
						continue
					}
					if (row.Gen > 0 || row.Size == 0) && (want.ID == "" || entryOf(row).newer(entryOf(want))) {
						want = row
					}
				}
				cur := table.current(key)
				require.Equal(t, want.ID == "", cur == nil, "seed %d: current of %s", seed, key)
				if cur != nil {
					require.Equal(t, want.ID, cur.id, "seed %d: current of %s", seed, key)
				}
			default:
				row := driver.Row{ID: id, Owner: []string{"", "ada"}[rnd.IntN(2)], Key: fmt.Sprint("k", rnd.IntN(4)), Gen: int64(rnd.IntN(5)), Size: int64(rnd.IntN(2)), UpdatedAt: time.Unix(int64(rnd.IntN(9)), 0)}
				if rnd.IntN(2) == 0 {
					row.LastID = "x"
				}
				e := entryOf(row)
				e.n = rnd.IntN(3)
				table.set(e)
				model[id] = row
			}
			if rnd.IntN(40) == 0 {
				table.sorted = false // as after the index was read anew
			}
			require.Len(t, table.byID, len(model))
			bytes := int64(0)
			for _, e := range table.byID {
				bytes += int64(e.n)
			}
			require.Equal(t, bytes, table.bytes)
			keys := map[ownedKey]bool{}
			for _, row := range model {
				keys[ownedKeyOf(row.KeyRef())] = true
			}
			require.Len(t, table.byKey, len(keys))
		}
	}
}

// Lines as this package writes them need no decoding.
func TestPeek(t *testing.T) {
	row := driver.Row{ID: "a", Key: "main:cli:user", Gen: 12, Size: 9876543210, LastID: "b", UpdatedAt: time.Unix(1700000000, 0), Title: "t"}
	for _, rec := range []record{{Row: &row}, {Row: &driver.Row{ID: "a", Key: "k"}}, {Row: &driver.Row{ID: "a", Owner: "ada", Key: "k"}}, {Row: &driver.Row{ID: "a", Key: "k", Rev: 2, Archived: true}}} {
		text := bytes.TrimSuffix(appendRecord(nil, rec), []byte("\n"))
		l, ok := peek(text)
		require.True(t, ok, "%s", text)
		e := l.row
		require.Equal(t, []string{rec.Row.ID, rec.Row.Owner, rec.Row.Key}, []string{e.id, e.owner, e.key})
		require.Equal(t, rec.Row.LastID != "", e.used)
		require.Equal(t, rec.Row.Archived, e.archived)
		require.Equal(t, rec.Row.Rev, e.rev)
		require.Equal(t, []int64{rec.Row.Size, rec.Row.Gen}, []int64{e.size, e.gen})
		require.JSONEq(t, string(text), string(text[:e.at])+string(text[e.at:e.at+int64(e.n)])+"}")
	}
	for _, text := range []string{``, `{}`, `{"open":1}`, `{"change":"a"}`, `{"row":{"id":"\u0061","size":1,"gen":2,"key":"k"}}`, `{"row":{"id":"a","size":1,"gen":2,"title":"k"}}`} {
		_, ok := peek([]byte(text))
		require.False(t, ok, text)
	}
}

// A row leaves out times that JSON cannot hold, and holds all others.
func TestStorable(t *testing.T) {
	for year, stays := range map[int]bool{-1: false, 0: true, 1: true, 9999: true, 10_000: false} {
		at := time.Date(year, 1, 2, 3, 4, 5, 6, time.UTC)
		row := storable(driver.Row{UpdatedAt: at, CreatedAt: at, LastUserAt: at})
		for _, got := range []time.Time{row.UpdatedAt, row.CreatedAt, row.LastUserAt} {
			require.Equal(t, stays, got.Equal(at), "%d", year)
			require.Equal(t, !stays, got.IsZero(), "%d", year)
		}
		_, err := json.Marshal(row)
		require.NoError(t, err)
	}
}

// The quick look at a row agrees with decoding it.
func FuzzPeekRow(f *testing.F) {
	f.Add("a", "", "k", "", int64(0), int64(0), int64(0))
	f.Add("a", "ada", "main:cli:user", "b", int64(123), int64(4), int64(1700000000123456789))
	f.Add("a", `"<o>`, `with "quotes" \ <and> é`, "\"", int64(1)<<50, int64(9), int64(-1))
	f.Fuzz(func(t *testing.T, id, owner, key, last string, size, gen, at int64) {
		row := driver.Row{ID: id, Owner: owner, Key: key, LastID: last, Size: size, Gen: gen, UpdatedAt: time.Unix(0, at).UTC(), Title: `"},{`}
		text, err := json.Marshal(row)
		require.NoError(t, err)
		line := append(append([]byte(headRow), text...), '}')
		l, ok := peek(line)
		if !ok {
			return // decoded when it is read
		}
		var want driver.Row
		require.NoError(t, json.Unmarshal(text, &want))
		decoded := entryOf(want)
		decoded.row, decoded.at, decoded.n = nil, int64(len(headRow)), len(text)
		require.Equal(t, decoded, l.row)
	})
}

// The quick look at a mark agrees with decoding it.
func FuzzPeekMark(f *testing.F) {
	f.Add(`{"change":"01a21bfd-5dcf-7b06-8121-74386b9c7219"}`)
	f.Add(`{"change":"a\u0062"}`)
	f.Add(`{"change":""}`)
	f.Add(`{"listed":[1795765919188257074,0]}`)
	f.Add(`{"listed":[9223372036854775808,1]}`)
	f.Add(`{"listed":[01,1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := peekMark([]byte(text)); ok && utf8.ValidString(text) && json.Valid([]byte(text)) {
			require.Equal(t, decodeJSON([]byte(text)), got)
		}
	})
}

// Only the whole name of a file with a hashed name is used for its session as it
// is.
func TestFileName(t *testing.T) {
	hashed := filename.Encode(strings.Repeat("x", 200))
	require.Equal(t, hashed+extension, fileName(hashed+extension))
	require.NotEqual(t, "a"+extension, fileName("a"+extension))
	require.Equal(t, filename.Encode(hashed)+extension, fileName(hashed))
	require.NotEqual(t, hashed, fileName(hashed))
}
