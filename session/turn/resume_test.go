package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A session that is resumed from the last compaction has the history that the
// fold of all lines gives.
func TestResumeIsTheWholeFold(t *testing.T) {
	t.Parallel()
	seeds := storetest.Extent(*storetest.Faults, 25, 150, 600)
	skipped := 0
	for seed := range uint64(seeds) {
		mem := memdriver.New(nil)
		skipped += resumeAtRandom(t, seed, "", func() driver.Driver { defer func() { mem = memdriver.Reopen(mem) }(); return mem })
	}
	if skipped < seeds {
		t.Errorf("in %d runs %d times lines were left out: the test shows nothing", seeds, skipped)
	}
}

// The same without an index, in transcripts that are worth a search.
func TestSearchIsTheWholeFold(t *testing.T) {
	t.Parallel()
	seeds := storetest.Extent(*storetest.Faults, 4, 40, 160)
	skipped := 0
	for seed := range uint64(seeds) {
		dir := t.TempDir()
		skipped += resumeAtRandom(t, seed, strings.Repeat(" and so on", 500), func() driver.Driver {
			storetest.LoseIndex(t, dir)
			d, err := filedriver.Open(dir, &filedriver.Options{Sync: session.SyncNever})
			require.NoError(t, err)
			return d
		})
	}
	if skipped < seeds/2 {
		t.Errorf("in %d runs %d times lines were left out: the test shows nothing", seeds, skipped)
	}
}

func resumeAtRandom(t *testing.T, seed uint64, padding string, reopen func() driver.Driver) (skipped int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 7))
	summary := "s"
	if padding != "" {
		summary = storetest.WholeSummary
	}
	opts := &session.Options{Summary: rebuild.SummaryForm(seed % 3)}
	st := session.OpenDriver(reopen(), opts)
	s := storetest.Load(t, st, storetest.CLI)
	ref := s.Ref()
	var ids []string
	call := 0
	for step := range 60 {
		switch rnd.IntN(20) {
		case 0, 1, 2:
			ids = append(ids, storetest.Add(t, s, transcript.UserText(fmt.Sprint("question ", step, padding)))...)
		case 3, 4:
			ids = append(ids, storetest.Add(t, s, storetest.Answer(fmt.Sprint("answer ", step, padding)))...)
		case 5:
			call++
			ids = append(ids, storetest.Add(t, s, storetest.Answer("", fmt.Sprint("c", call)))...)
		case 6:
			ids = append(ids, storetest.Add(t, s, transcript.ToolResult(fmt.Sprint("c", max(call-rnd.IntN(2), 0)), "out"))...)
		case 7, 8:
			_, _ = s.Compact(t.Context(), &compact.Options{
				Keep: compact.Keep{Turns: 1 + rnd.IntN(4)}, Summarizer: compact.SummarizerFunc(storetest.Says(summary)),
			})
		case 9:
			if len(ids) > 0 && rnd.IntN(3) == 0 {
				require.NoError(t, s.Rewind(t.Context(), ids[rnd.IntN(len(ids))]))
			}
		case 10:
			if len(ids) > 0 {
				storetest.Add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: ids[rnd.IntN(len(ids))], Content: "clipped"}}})
			}
		case 18:
			storetest.Add(t, s, transcript.Interrupt{Ended: "stopped"})
		case 19:
			if len(ids) > 0 {
				change := []func(context.Context, *session.Session, ...string) ([]string, error){turn.Hide, turn.Hide, turn.Show}[rnd.IntN(3)]
				_, err := change(t.Context(), s, ids[rnd.IntN(len(ids))])
				require.True(t, err == nil || errors.Is(err, session.ErrConflict) || errors.Is(err, session.ErrNoEntry), "%v", err)
			}
		case 12:
			require.NoError(t, storetest.ErrOf(turn.Queue(t.Context(), s, transcript.UserText(fmt.Sprint("queued ", step)))))
		case 13:
			tn, err := turn.Begin(t.Context(), s)
			require.NoError(t, err)
			done, err := turn.Drain(t.Context(), s, 0)
			require.NoError(t, err)
			ids = append(ids, done...)
			if rnd.IntN(2) == 0 { // of a turn that dies
				d := tn.Draft("anthropic", "m", transcript.Made{})
				require.NoError(t, d.Write(t.Context(), fmt.Sprint("drafted ", step)))
				require.NoError(t, d.Flush(t.Context()))
			}
			require.NoError(t, tn.End())
		case 14, 15:
			if p, err := s.Pending(t.Context()); err == nil && len(p.Calls) > 0 {
				c := p.Calls[rnd.IntN(len(p.Calls))]
				storetest.Add(t, s, []transcript.Item{
					transcript.Dispatch{Call: c.Entry, CallID: c.Call.ID},
					transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Hold},
					transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Reject, Reason: "no"},
				}[rnd.IntN(3)])
			}
		case 16:
			if len(ids) > 0 {
				if id := ids[rnd.IntN(len(ids))]; rnd.IntN(3) == 0 {
					require.NoError(t, turn.Unpin(t.Context(), s, id))
				} else {
					_ = turn.Pin(t.Context(), s, id) // calls lack a text
				}
			}
		case 17:
			require.NoError(t, storetest.ErrOf(turn.SetValue(t.Context(), s, fmt.Sprint("v", rnd.IntN(3)), []json.RawMessage{nil, fmt.Append(nil, step)}[rnd.IntN(2)], "")))
		case 11: // an append with an idempotency key, and again
			cond, item := session.Cond{Idem: fmt.Sprint("k", rnd.IntN(5))}, transcript.AssistantText("once")
			done, err := s.AppendIf(t.Context(), cond, item)
			require.NoError(t, err)
			if again, err := s.AppendIf(t.Context(), cond, item); err != nil || !again.Repeated || !slices.Equal(again.IDs, done.IDs) || again.Rewound != done.Rewound {
				t.Fatalf("seed %d: %+v, %v, and then %+v", seed, done, err, again)
			}
		}
		if rnd.IntN(4) > 0 {
			continue
		}
		info := storetest.Info(t, s)
		storetest.CompareWithWhole(t, fmt.Sprintf("seed %d, step %d, before the restart", seed, step), s, opts.Summary)
		storetest.Close(t, st)
		d := &storetest.CountingDriver{Driver: reopen()}
		st = session.OpenDriver(d, opts)
		var err error
		s, err = st.Get(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, storetest.ErrOf(s.History(t.Context())))
		read := d.Records
		whole := storetest.CompareWithWhole(t, fmt.Sprintf("seed %d, step %d", seed, step), s, opts.Summary)
		require.Equal(t, info, storetest.Info(t, s), "seed %d, step %d", seed, step)
		if total := d.Records - read; read < total {
			skipped++
		}
		if rnd.IntN(3) == 0 {
			health, err := s.Health(t.Context())
			require.NoError(t, err)
			if a, b := fmt.Sprint(health.Repairs), fmt.Sprint(whole.Report()); a != b {
				t.Fatalf("seed %d, step %d: repairs %s, want %s", seed, step, a, b)
			}
		}
	}
	storetest.Close(t, st)
	return skipped
}
