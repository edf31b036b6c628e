package session_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// placedBatch is an append of random lines that refer to others, after those with the
// IDs.
func placedBatch(r *rand.Rand, ids []string) (batch []transcript.Entry) {
	pick := func() string { return ids[r.IntN(len(ids))] }
	size := max(1, r.IntN(5)-1)
	for n := range size {
		e := transcript.Entry{ID: fmt.Sprint("e", len(ids)+n), Time: time.Unix(1_800_000_000+int64(len(ids)+n), 0)}
		switch r.IntN(12) {
		case 0:
			e.Body = transcript.Rewind{To: pick()}
		case 1:
			e.Body = transcript.Compaction{Summary: `a "rewind"`, FirstKept: pick(), CoversTo: pick(), TurnsBefore: 1}
		case 2:
			e.Body = transcript.Clip{Clips: []transcript.Clipping{{Entry: pick(), Content: "x"}}}
		case 10:
			e.Body = transcript.Hide{Entries: []string{pick(), pick()}, Off: r.IntN(3) == 0}
		case 11:
			e.Body = transcript.Interrupt{Ended: "stopped"}
		case 3:
			e.Body = transcript.Meta{Title: new("title")}
		case 4:
			e.Body = transcript.System{Text: "prompt"}
		default:
			text := transcript.TextBlock{Text: `"type":"clip" of ` + pick()}
			e.Body = transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(text)
		}
		if n > 0 {
			e.Part = n + 1
		}
		batch = append(batch, e)
	}
	if size > 1 {
		batch[0].Batch = size
	}
	if r.IntN(8) == 0 { // a cut append, repeated later
		batch[0].Batch, batch[0].Idem = size+1, fmt.Sprint("k", r.IntN(2))
	}
	return batch
}

// Where agrees with a fold of all lines: for a session in memory, for one that it
// reads, and as the session grows; with damage, or without checksums.
func TestWhere(t *testing.T) {
	for seed := range uint64(storetest.Few(storetest.Extent(*storetest.Faults, 12, 60, 600))) {
		dir, r := t.TempDir(), rand.New(rand.NewPCG(seed, 3))
		var st, other *session.Store
		var s, theirs *session.Session
		open := func() {
			st = storetest.Open(t, dir, &session.Options{Sync: session.SyncNever, NoChecksum: seed%4 == 0})
			other = storetest.Open(t, dir, storetest.Unsynced)
			s = storetest.Load(t, st, storetest.CLI)
			theirs = mustGet(t, other, s.Ref())
		}
		open()
		ids := []string{s.Ref().ID}
		for range 12 {
			for range r.IntN(8) {
				batch := placedBatch(r, ids)
				for _, e := range batch {
					ids = append(ids, e.ID)
				}
				var end int64
				for rec, err := range s.Scan(t.Context(), session.ScanOptions{Backward: true}) {
					require.NoError(t, err)
					end = rec.End
					break
				}
				_, err := s.AppendLines(t.Context(), end, batch...)
				require.NoError(t, err)
			}
			if r.IntN(8) == 0 && seed%4 > 0 {
				storetest.Close(t, st)
				storetest.Close(t, other)
				damage(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), r)
				open()
			}
			fold := rebuild.New(nil)
			for b, err := range transcript.Batches(s.Scan(t.Context(), session.ScanOptions{})) {
				require.NoError(t, err)
				require.NoError(t, fold.Add(b))
			}
			want := map[string]rebuild.Where{}
			for _, id := range ids {
				if w, ok := fold.Where(id); ok {
					want[id] = w
				}
			}
			for _, handle := range []*session.Session{theirs, s} {
				got, err := handle.Where(t.Context(), append(ids, "missing")...)
				require.NoError(t, err)
				require.Equal(t, want, got, "seed %d", seed)
			}
			last := ids[len(ids)-1]
			got, err := s.Where(t.Context(), last)
			require.NoError(t, err)
			require.Equal(t, want[last], got[last], "seed %d", seed)
		}
		storetest.Close(t, st)
		storetest.Close(t, other)
	}
}

// damage changes a byte of a transcript, but not of the header and not the end of a line.
func damage(t *testing.T, file string, r *rand.Rand) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	if i := r.IntN(len(data)); data[i] != '\n' && bytes.IndexByte(data[:i], '\n') >= 0 {
		data[i] = 'x'
	}
	require.NoError(t, os.WriteFile(file, data, 0o600))
}
