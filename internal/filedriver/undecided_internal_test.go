package filedriver

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// In a retried source an append is taken back when its end is read, and made again
// before the size is read.
type retried struct {
	text, again string
	cut         int
	isCut       bool
}

func (f *retried) ReadAt(p []byte, off int64) (int, error) {
	if off > int64(f.cut) && !f.isCut {
		f.text, f.isCut = f.text[:f.cut], true
	}
	return bytes.NewReader([]byte(f.text)).ReadAt(p, off)
}

func (f *retried) Size() (int64, error) {
	if f.isCut {
		f.text = f.text[:f.cut] + f.again
	}
	return int64(len(f.text)), nil
}

func (f *retried) TrySize() (int64, bool, error) {
	size, err := f.Size()
	return size, true, err
}

// No batch of a scan mixes lines of a failed append and of its retry.
func TestScanMixesNoAppends(t *testing.T) {
	d, err := Open(t.TempDir(), nil)
	require.NoError(t, err)
	text := func(id string, batch, part, bytes int) string {
		body := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
		e := transcript.Entry{ID: id, Batch: batch, Part: part, Body: body.WithContent(transcript.TextBlock{Text: strings.Repeat("x", bytes)})}
		return string(e.Line()) + "\n"
	}
	first := text("first", 0, 0, 50_000)
	f := &retried{
		text:  first + text("old1", 2, 0, 10_000) + text("old2", 0, 2, 60_000)[:50_000],
		again: text("new1", 2, 0, 10_000) + text("new2", 0, 2, 60_000),
		cut:   len(first),
	}
	var ids []string
	r := reading{d: d, ctx: t.Context(), in: f, size: int64(len(f.text)), yield: func(rec transcript.Record) bool {
		ids = append(ids, rec.Entry.ID)
		return true
	}}
	require.NoError(t, r.forward(0))
	require.Equal(t, []string{"first", "new1", "new2"}, ids)
	require.NoError(t, d.Close())
}
