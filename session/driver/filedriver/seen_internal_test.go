package filedriver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
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

	// A second call reads nothing again.
	s := new(seen)
	require.NoError(t, s.readKeys(bytes.NewReader(text.Bytes()), end, at[602]))
	require.NoError(t, s.readKeys(unreadable{}, end, at[602]))
	require.NoError(t, s.readKeys(unreadable{}, end, at[2990]))
	require.Error(t, s.readKeys(unreadable{}, end, at[599]))
	require.Error(t, s.readKeys(unreadable{}, end+100, at[602]), "what was added since")
}

// The head that was read is not read again.
func TestReadHeadOnce(t *testing.T) {
	line := append(transcript.Entry{ID: "a", Body: transcript.Fragment{Kind: transcript.TypeUser, Role: transcript.RoleUser}}.Line(), '\n')
	s := new(seen)
	require.NoError(t, s.readHead(bytes.NewReader(line), int64(len(line))))
	require.Equal(t, "a", s.head)
	require.NoError(t, s.readHead(unreadable{}, int64(len(line))))
	require.Equal(t, "a", s.head)
}

// A batch with a damaged line is not there, and where one becomes so later the
// other conditions count.
func TestDamagedBatchIsNoHit(t *testing.T) {
	first := transcript.Entry{ID: "a", Idem: "key", IdemHash: "hash", Batch: 2, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
	second := transcript.Entry{ID: "b", Part: 2, Body: transcript.Custom{Name: "note", Data: []byte(`2`)}}
	single := transcript.Entry{ID: "c", Idem: "single", IdemHash: "hash", Body: transcript.Custom{Name: "note", Data: []byte(`3`)}}
	var sound, damaged []byte
	for _, e := range []transcript.Entry{first, second, single} {
		line := append(e.Sealed().Line(), '\n')
		sound = append(sound, line...)
		if e.ID != "a" {
			line = bytes.Replace(line, []byte(`"note"`), []byte(`"NOTE"`), 1)
		}
		damaged = append(damaged, line...)
	}
	end := int64(len(sound))
	s := new(seen)
	for _, key := range []string{"key", "single"} {
		res, err := s.check(bytes.NewReader(sound), 0, end, driver.Cond{Idem: key, IdemHash: "hash"})
		require.NoError(t, err)
		require.True(t, res.Repeated, key)
	}
	require.Len(t, s.keys, 2)
	for _, s := range []*seen{s, {}} {
		for _, key := range []string{"key", "single"} {
			_, err := s.check(bytes.NewReader(damaged), 0, end, driver.Cond{Idem: key, IdemHash: "hash", Head: "x"})
			require.ErrorIs(t, err, driver.ErrConflict, key)
		}
		require.Empty(t, s.keys)
	}
}

// A copy of the file may hold lines that could not be read before.
func TestKeysOfACopy(t *testing.T) {
	line := keyedLine("a", "key", "hash", 1)
	broken := append(make([]byte, len(line)-1), '\n')
	cond := driver.Cond{Idem: "key", IdemHash: "hash"}
	var s seen
	res, err := s.check(bytes.NewReader(broken), 0, int64(len(line)), cond)
	require.NoError(t, err)
	require.False(t, res.Repeated)
	res, err = s.check(bytes.NewReader([]byte(line)), 1, int64(len(line)), cond)
	require.NoError(t, err)
	require.Equal(t, driver.Result{End: driver.Cursor(len(line)), Repeated: true, IDs: []string{"a"}}, res)
}
