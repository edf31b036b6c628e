package transcript_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/transcript"
)

// sealed returns the lines of a few batches with checksums.
func sealed(t testing.TB) [][]byte {
	t.Helper()
	var lines [][]byte
	for _, items := range [][]transcript.Item{
		{transcript.UserText("read a.go – 你好")},
		{answer(transcript.TextBlock{Text: "Let me look."}, transcript.ToolCallBlock{ID: "t1", Name: "read", Input: raw(`{"path": "a.go", "crc":"00000000"}`)})},
		{transcript.ToolResult("t1", "package a\n")},
		{transcript.Custom{Name: "n", Data: raw(`{"a":[1,2,{"type":"user","id":"z","ts":"2027-01-01T00:00:00Z","content":"inner"}]}`)}},
		{transcript.Meta{Title: new("T"), Keep: new(true)}, transcript.Rewind{To: "e1"}},
	} {
		entries, err := transcript.NewBatchWithChecksums(at, ids(), items...)
		require.NoError(t, err)
		for _, e := range entries {
			lines = append(lines, e.Line())
		}
	}
	return lines
}

func scanLine(t testing.TB, line []byte) (recs []transcript.Record) {
	t.Helper()
	for rec, err := range transcript.Scan(bytes.NewReader(line), int64(len(line)), &transcript.ScanOptions{Final: true}) {
		require.NoError(t, err)
		recs = append(recs, rec)
	}
	return recs
}

// The checksum follows docs/FORMAT.md, and the entry is the same without it.
func TestSealed(t *testing.T) {
	for _, line := range sealed(t) {
		n := len(line) - len(`,"crc":"00000000"}`)
		sum := crc32.Checksum(line[:n], crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, fmt.Sprintf(`,"crc":"%08x"}`, sum), string(line[n:]))
		require.True(t, checksum.Intact(line))

		e := parse(t, string(line))
		without := parse(t, string(line[:n])+"}")
		require.Equal(t, without.Body, e.Body)
		require.Equal(t, string(line), string(e.Line()), "a copy is not the line")
		require.Equal(t, string(line), string(e.WithChecksum().Line()), "sealed twice")
		require.Equal(t, string(line), string(without.WithChecksum().Line()))
		require.Equal(t, string(line[:n])+"}", string(without.Line()), "sealing has changed another entry's line")
		require.Nil(t, scanLine(t, line)[0].Damage)
	}
}

// The CRC of "123456789" is the one of the catalogues: it is CRC-32C.
func TestSealedPolynomial(t *testing.T) {
	require.Equal(t, uint32(0xe3069283), crc32.Checksum([]byte("123456789"), crc32.MakeTable(crc32.Castagnoli)))
}

// The checksum of a line covers a new idempotency key; a line without one gets
// none.
func TestSealedIdem(t *testing.T) {
	for _, tt := range []struct {
		make func() ([]transcript.Entry, error)
		want bool
	}{
		{func() ([]transcript.Entry, error) { return transcript.NewBatch(at, ids(), transcript.UserText("a")) }, false},
		{func() ([]transcript.Entry, error) {
			return transcript.NewBatchWithChecksums(at, ids(), transcript.UserText("a"))
		}, true},
	} {
		entries, err := tt.make()
		require.NoError(t, err)
		entries, err = transcript.WithIdem(entries, "k")
		require.NoError(t, err)
		line := entries[0].Line()
		require.Contains(t, string(line), `"idem":"k"`)
		require.Equal(t, tt.want, bytes.Contains(line, []byte(`,"crc":"`)))
		require.True(t, checksum.Intact(line))
	}
}

// Every changed byte in a line with a checksum is reported; an entry that still
// parses is kept.
func TestSealedFlips(t *testing.T) {
	if testing.Short() {
		t.Skip("many samples in one goroutine")
	}
	for _, line := range sealed(t) {
		require.Nil(t, scanLine(t, line)[0].Damage)
		for i := range line {
			if *soak == "short" && i%3 > 0 && i < len(line)-20 {
				continue
			}
			for b := range 256 {
				// Of the bytes before the checksum the flips of one bit and the
				// special bytes of a line.
				one := bits.OnesCount8(byte(b)^line[i]) == 1
				if byte(b) == line[i] || !one && i < len(line)-20 && !strings.ContainsRune("\x00\n ,:\"\\{}[]", rune(b)) {
					continue
				}
				flipped := slices.Clone(line)
				flipped[i] = byte(b)
				damaged := false
				for _, rec := range scanLine(t, flipped) {
					damaged = damaged || rec.Damage != nil
					if rec.HasEntry() && (rec.Entry.Body == nil || rec.Damage != nil && rec.Damage.Size != int64(len(line))) {
						t.Fatalf("byte %d to %#x: %+v", i, b, rec)
					}
				}
				if !damaged {
					t.Fatalf("byte %d to %#x is not reported: %s", i, b, flipped)
				}
				if e, err := transcript.ParseEntry(flipped); err == nil && checksum.Intact(e.Line()) {
					t.Fatalf("byte %d to %#x: Intact: %s", i, b, flipped)
				}
			}
		}
	}
}

// A crc that is not the last member, or is spelled otherwise, is ignored.
func TestSealedElsewhere(t *testing.T) {
	for _, line := range []string{
		`{"type":"user","crc":"00000000","content":"a"}`,
		`{"crc":"00000000","type":"user","content":"a"}`,
		`{"type":"user","content":"a","crc": "00000000"}`,
		`{"type":"user","content":"a","crc":"0000000"}`,
		`{"type":"user","content":"a","crc":0}`,
		`{"type":"user","content":"a","key":"00000000"}`,
		`{"type":"tool_result","tool_use_id":"t","content":"a","x":{"type":"y","crc":"00000000"}}`,
		`{"type":"user","content":"\",\"crc\":\"00000000"}`,
	} {
		recs := scanLine(t, []byte(line))
		require.Len(t, recs, 1)
		require.Nil(t, recs[0].Damage, line)
	}
	// It belongs to the line and not to the block.
	e := parse(t, `{"type":"tool_use","tool_use_id":"t","name":"f","input":{},"crc":"00000000"}`)
	require.Nil(t, e.Body.(transcript.MessageLine).Content[0].(transcript.ToolCallBlock).Extra)
	// An extra of a block with that name is one level down.
	entries, err := transcript.NewBatchWithChecksums(at, ids(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.ToolResultBlock{CallID: "t", Extra: extra{"crc": raw(`"00000000"`)}},
	}})
	require.NoError(t, err)
	require.Contains(t, string(entries[0].Line()), `"extra":{"crc":"00000000"}`)
	require.Nil(t, scanLine(t, entries[0].Line())[0].Damage)
}

// A line with a wrong checksum stays a line of its batch.
func TestSealedBatch(t *testing.T) {
	entries, err := transcript.NewBatchWithChecksums(at, ids(), answer(transcript.TextBlock{Text: "look"}, transcript.ToolCallBlock{ID: "t1", Name: "read", Input: raw(`{}`)}))
	require.NoError(t, err)
	file := strings.ReplaceAll(string(entries[0].Line()), "look", "lock") + "\n" + string(entries[1].Line()) + "\n"
	var damage []transcript.DamageKind
	for rec, err := range transcript.ScanBackward(strings.NewReader(file), int64(len(file)), nil) {
		require.NoError(t, err)
		if rec.Damage != nil {
			damage = append(damage, rec.Damage.Kind)
			require.True(t, rec.HasEntry())
			require.Zero(t, rec.Damage.Offset)
		}
	}
	require.Equal(t, []transcript.DamageKind{transcript.DamageCRC}, damage)
	n := 0
	for b, err := range transcript.Batches(transcript.Scan(strings.NewReader(file), int64(len(file)), nil)) {
		require.NoError(t, err)
		require.True(t, b.Complete)
		require.Len(t, b.Entries, 2)
		n++
	}
	require.Equal(t, 1, n)
}

// A checksum costs an append no allocation.
func TestSealedAllocs(t *testing.T) {
	item := transcript.Item(transcript.UserText(strings.Repeat("word ", 200)))
	newID := func() string { return "0198d2c5-0000-7000-8000-000000000000" }
	allocs := func(f func() ([]transcript.Entry, error)) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := f(); err != nil {
				t.Fatal(err)
			}
		})
	}
	plain := allocs(func() ([]transcript.Entry, error) { return transcript.NewBatch(at, newID, item) })
	seals := allocs(func() ([]transcript.Entry, error) { return transcript.NewBatchWithChecksums(at, newID, item) })
	require.LessOrEqual(t, plain, 4.0, "entries, line, content and body")
	require.Equal(t, plain, seals)
}
