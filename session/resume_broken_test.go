package session_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/transcript"
)

// Whatever the lines of a transcript are, a resumed session, and a process that
// reads the lines one by one, have the history that the fold of all of them gives.
func TestResumeOfABrokenTranscript(t *testing.T) {
	t.Parallel()
	seeds := []uint64{
		5271,  // keeps from a value, and covers the header
		26651, // continues the last batch
	}
	for seed := range uint64(storetest.Few(storetest.Extent(*storetest.Faults, 30, 600, 30_000))) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 11))
		dir := t.TempDir()
		st := storetest.Open(t, dir, storetest.Unsynced)
		s := storetest.Load(t, st, storetest.CLI)
		path, ref := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), s.Ref()
		storetest.Close(t, st)
		reads := storetest.Open(t, dir, storetest.Unsynced)
		reader := mustGet(t, reads, ref)
		b := &brokenLines{rnd: rnd, ids: []string{s.Ref().ID}}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		for step := range 4 {
			for range 1 + rnd.IntN(6) {
				b.batch()
			}
			_, err = f.Write(b.take())
			require.NoError(t, err)
			where := fmt.Sprintf("seed %d, step %d", seed, step)
			storetest.CompareWithWhole(t, where+", reading on", reader, 0)
			if rnd.IntN(2) == 0 {
				storetest.LoseIndex(t, dir)
			}
			st = storetest.Open(t, dir, storetest.Unsynced)
			s = mustGet(t, st, ref)
			storetest.CompareWithWhole(t, where, s, 0)
			info := storetest.Info(t, s)
			storetest.Close(t, st)
			require.Equal(t, fmt.Sprint(info), fmt.Sprint(storetest.Info(t, reader)), where)
		}
		require.NoError(t, f.Close())
		storetest.Close(t, reads)
	}
}

// brokenLines makes lines that refer to each other as no program would.
type brokenLines struct {
	rnd   *rand.Rand
	ids   []string // of entries; the first is the session's
	n     int
	lines [][]byte
}

// id returns the ID of an entry that may be there.
func (b *brokenLines) id() string {
	switch b.rnd.IntN(12) {
	case 0:
		return "nowhere"
	case 1:
		return ""
	case 2:
		return b.ids[0]
	}
	return b.ids[len(b.ids)-1-b.rnd.IntN(min(len(b.ids), 8))]
}

func (b *brokenLines) body() transcript.Body {
	text := transcript.TextBlock{Text: fmt.Sprint("text ", b.n)}
	switch b.rnd.IntN(12) {
	case 0, 1:
		return transcript.Compaction{Summary: fmt.Sprint("summary ", b.n), FirstKept: b.id(), CoversTo: b.id(), TurnsBefore: b.rnd.IntN(3)}
	case 2:
		return transcript.Rewind{To: b.id()}
	case 3:
		return transcript.Pin{Entry: b.id(), Text: text.Text, Off: b.rnd.IntN(3) == 0}
	case 4, 5, 6:
		return transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant}.WithContent(text)
	case 7:
		return transcript.Value{Name: fmt.Sprint("v", b.rnd.IntN(2)), Value: fmt.Append(nil, b.n)}
	}
	return transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(text)
}

// batch adds the lines of one append, of which some may be missing, damaged or out of
// order. The append may then be retried, or be there twice.
func (b *brokenLines) batch() {
	idem := ""
	if b.rnd.IntN(4) == 0 {
		idem = fmt.Sprint("k", b.rnd.IntN(3))
	}
	bodies := make([]transcript.Body, 1+b.rnd.IntN(4)/2*b.rnd.IntN(3))
	for i := range bodies {
		bodies[i] = b.body()
	}
	lines := b.append(idem, bodies)
	for b.rnd.IntN(5) == 0 && len(lines) > 0 {
		at := b.rnd.IntN(len(lines))
		switch b.rnd.IntN(4) {
		case 0:
			lines = slices.Delete(lines, at, at+1)
		case 1:
			lines = slices.Insert(lines, at, []byte("damage\n"))
		case 2:
			lines[at], lines[0] = lines[0], lines[at]
		case 3:
			lines[at] = append(slices.Clone(lines[at][:len(lines[at])/2]), '\n')
		}
	}
	b.lines = append(b.lines, lines...)
	switch b.rnd.IntN(16) {
	case 0, 1, 2, 3:
		b.lines = append(b.lines, b.append(idem, bodies)...)
	case 4:
		b.lines = append(b.lines, lines...)
	}
}

// append returns the lines of one append.
func (b *brokenLines) append(idem string, bodies []transcript.Body) (lines [][]byte) {
	for i, body := range bodies {
		b.n++
		e := transcript.Entry{ID: fmt.Sprint("e", b.n), Time: time.Unix(int64(b.n), 0).UTC(), Body: body}
		switch {
		case i > 0:
			e.Part = i + 1
		case len(bodies) > 1:
			e.Batch, e.Idem = len(bodies), idem
		default:
			e.Idem = idem
		}
		b.ids = append(b.ids, e.ID)
		lines = append(lines, append(e.Line(), '\n'))
	}
	return lines
}

// take returns the lines that were added since it was called last.
func (b *brokenLines) take() []byte {
	text := slices.Concat(b.lines...)
	b.lines = nil
	return text
}
