package filedriver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// keyedLine is a line under an idempotency key, of a batch of n.
func keyedLine(id, key, hash string, n int) string {
	e := transcript.Entry{ID: id, Idem: key, IdemHash: hash, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
	if n > 1 {
		e.Batch = n
	}
	return string(e.Line()) + "\n"
}

// A remembered batch stands only where every line of it is still what it was.
func TestStands(t *testing.T) {
	line := keyedLine("a", "key", "hash", 1)
	k := keyed{hash: "hash", ids: []string{"a"}, start: 3, end: 3 + int64(len(line))}
	for _, test := range []struct {
		name, text string
		want       bool
	}{
		{"as it was", "{}\n" + line, true},
		{"another key", "{}\n" + keyedLine("a", "KEY", "hash", 1), false},
		{"another hash", "{}\n" + keyedLine("a", "key", "HASH", 1), false},
		{"an erased hash", "{}\n" + keyedLine("a", "key", transcript.ErasedHash, 1), false}, // of another length
		{"another ID", "{}\n" + keyedLine("b", "key", "hash", 1), false},
		{"elsewhere", "{}\n  " + line, false},
		{"NULs", "{}\n" + string(make([]byte, len(line)-1)) + "\n", false},
		{"cut", ("{}\n" + line)[:len(line)], false},
	} {
		require.Equal(t, test.want, k.stands(bytes.NewReader([]byte(test.text)), "key"), test.name)
	}
	k.ids = append(k.ids, "b")
	require.False(t, k.stands(bytes.NewReader([]byte("{}\n"+line)), "key"), "a line less")
}

// unreadable fails every read.
type unreadable struct{}

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errors.New("read") }

// Keys are looked for from where the history begins, or over the last 1,024
// lines if these are more, and never from within a batch.
func TestKeysBegin(t *testing.T) {
	var text bytes.Buffer
	var at []int64 // where each line begins
	for i := range 3000 {
		at = append(at, int64(text.Len()))
		e := transcript.Entry{ID: fmt.Sprint(i), Part: 1 + i%3, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
		if e.Part == 1 {
			e.Part, e.Batch = 0, 3
		}
		text.Write(append(e.Line(), '\n'))
	}
	end := int64(text.Len())
	for _, test := range []struct {
		name  string
		r     io.ReaderAt
		since int64
		want  int64
	}{
		{"all lines", unreadable{}, 0, 0},
		{"the history has less", bytes.NewReader(text.Bytes()), at[2990], at[1974]},
		{"the history has more", bytes.NewReader(text.Bytes()), at[602], at[600]},
		{"the history begins with a batch", bytes.NewReader(text.Bytes()), at[600], at[600]},
		{"the history begins in the first batch", bytes.NewReader(text.Bytes()), at[1], 0},
	} {
		from, err := keysBegin(test.r, end, test.since)
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, from, test.name)
	}
	_, err := keysBegin(unreadable{}, end, 1)
	require.ErrorContains(t, err, "read")

	// What was read is not read again.
	s := new(seen)
	require.NoError(t, s.readKeys(bytes.NewReader(text.Bytes()), end, at[602]))
	require.NoError(t, s.readKeys(unreadable{}, end, at[602]))
	require.NoError(t, s.readKeys(unreadable{}, end, at[2990]))
	require.Error(t, s.readKeys(unreadable{}, end, at[599]))
}
