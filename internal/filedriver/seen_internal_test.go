package filedriver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
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
	return string(e.Sealed().Line()) + "\n"
}

// A remembered batch stands only where every line of it is still what it was.
func TestStands(t *testing.T) {
	line := keyedLine("a", "key", "hash", 1)
	require.Contains(t, line, `"crc"`)
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
		{"another letter", "{}\n" + strings.Replace(line, `"note"`, `"NOTE"`, 1), true},
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

// A letter that has changed since takes no line out of its batch: the retry is a
// repeat, and the head and conflicts are what readers see. Where lines are gone the
// other conditions count.
func TestConditionsOnDamagedLines(t *testing.T) {
	first := transcript.Entry{ID: "a", Idem: "key", IdemHash: "hash", Batch: 2, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
	second := transcript.Entry{ID: "b", Part: 2, Body: transcript.Custom{Name: "note", Data: []byte(`2`)}}
	single := transcript.Entry{ID: "c", Idem: "single", IdemHash: "hash", Body: transcript.Custom{Name: "note", Data: []byte(`3`)}}
	rewind := transcript.Entry{ID: "d", Body: transcript.Rewind{To: "note"}}
	var sound, letter, gone []byte
	for _, e := range []transcript.Entry{first, second, single, rewind} {
		line := append(e.Sealed().Line(), '\n')
		sound = append(sound, line...)
		letter = append(letter, bytes.Replace(line, []byte(`"note"`), []byte(`"NOTE"`), 1)...)
		if e.ID != "a" {
			clear(line[:len(line)-1])
		}
		gone = append(gone, line...)
	}
	end := int64(len(sound))
	check := func(s *seen, text []byte, cond driver.Cond) (driver.Result, error) {
		return s.check(bytes.NewReader(text), 0, end, cond)
	}
	remembered := new(seen)
	for _, key := range []string{"key", "single"} {
		res, err := check(remembered, sound, driver.Cond{Idem: key, IdemHash: "hash"})
		require.NoError(t, err)
		require.True(t, res.Repeated, key)
	}
	require.Len(t, remembered.keys, 2)
	for _, s := range []*seen{remembered, {}} {
		for key, ids := range map[string][]string{"key": {"a", "b"}, "single": {"c"}} {
			res, err := check(s, letter, driver.Cond{Idem: key, IdemHash: "hash"})
			require.NoError(t, err)
			require.True(t, res.Repeated, key)
			require.Equal(t, ids, res.IDs)
			_, err = check(s, letter, driver.Cond{Idem: key, IdemHash: "other"})
			require.ErrorIs(t, err, driver.ErrIdemMismatch)
		}
		_, err := check(s, letter, driver.Cond{Head: "d"})
		require.NoError(t, err)
		_, err = check(s, letter, driver.Cond{Conflicts: []string{transcript.TypeRewind}})
		require.ErrorIs(t, err, driver.ErrConflict)
	}
	for _, s := range []*seen{remembered, {}} {
		for _, key := range []string{"key", "single"} {
			_, err := check(s, gone, driver.Cond{Idem: key, IdemHash: "hash", Head: "x"})
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
