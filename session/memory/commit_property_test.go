package memory_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A talker uses a session like programs do, in any order.
type talker struct {
	t     *testing.T
	r     *rand.Rand
	s     *session.Session
	n     int
	ids   []string // of entries
	calls []string // without a result
	base  []string // words that a fork copied
	least int64    // initial length of the fork's transcript
	log   []string
}

// word returns the next word, which occurs nowhere else.
func (k *talker) word() string {
	k.n++
	return fmt.Sprintf("w%d.", k.n)
}

func (k *talker) add(items ...transcript.Item) {
	ids, err := k.s.Append(storetest.Background, items...)
	require.NoError(k.t, err, k.log)
	k.ids = append(k.ids, ids...)
}

func (k *talker) answer(calls int) {
	var ids []string
	for range calls {
		ids = append(ids, fmt.Sprintf("c%d-%d", k.n, len(ids)))
	}
	k.calls = ids
	k.add(storetest.Answer(k.word(), ids...))
}

func (k *talker) results() {
	for _, id := range k.calls {
		k.add(transcript.ToolResult(id, k.word()))
	}
	k.calls = nil
}

func (k *talker) step() {
	act := k.r.IntN(20)
	k.log = append(k.log, fmt.Sprint(act))
	switch act {
	case 0, 1, 2, 3:
		k.add(transcript.UserText(k.word()))
		k.answer(0)
	case 4, 5:
		k.add(transcript.UserText(k.word()))
		k.answer(1 + k.r.IntN(2))
		if k.r.IntN(3) > 0 {
			k.results()
			k.answer(0)
		}
	case 6:
		k.add(transcript.UserText(k.word()))
	case 7:
		k.results()
		k.answer(k.r.IntN(2))
	case 8, 9:
		if len(k.ids) > 0 {
			to := k.ids[k.r.IntN(len(k.ids))]
			if k.r.IntN(8) == 0 {
				to = k.s.Ref().ID
			}
			require.NoError(k.t, k.s.Rewind(storetest.Background, to), k.log)
			k.calls = nil
		}
	case 10:
		_, err := k.s.Compact(storetest.Background, &compact.Options{Keep: compact.Keep{Turns: 1 + k.r.IntN(3)}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
		if err != nil {
			require.ErrorIs(k.t, err, compact.ErrNotSmaller, k.log)
		}
	case 11:
		if len(k.ids) > 0 && k.r.IntN(2) == 0 {
			f, err := k.s.Fork(storetest.Background, k.ids[k.r.IntN(len(k.ids))], nil)
			require.NoError(k.t, err, k.log)
			k.s, k.ids, k.calls, k.least = f, nil, nil, storetest.Info(k.t, f).Size
			h, err := exchange.FullHistory(storetest.Background, f)
			require.NoError(k.t, err)
			k.base = wordsOf(h)
			for e, err := range f.Entries(storetest.Background, "") {
				require.NoError(k.t, err)
				k.ids = append(k.ids, e.ID)
			}
			k.ids = k.ids[1:]
		}
	case 12:
		require.NoError(k.t, memory.RecordUse(storetest.Background, k.s, memory.Use{URI: fmt.Sprint("u", k.r.IntN(4))}))
	case 13:
		require.NoError(k.t, storetest.ErrOf(turn.Queue(storetest.Background, k.s, transcript.UserText(k.word()))))
		tn, err := turn.Begin(k.t.Context(), k.s)
		require.NoError(k.t, err)
		require.NoError(k.t, storetest.ErrOf(turn.Drain(storetest.Background, k.s, 0)))
		require.NoError(k.t, tn.End())
	case 14:
		tn, err := turn.Begin(k.t.Context(), k.s)
		require.NoError(k.t, err)
		d := tn.Draft("anthropic", "m", transcript.Made{})
		require.NoError(k.t, d.Write(storetest.Background, k.word()+"\n"))
		require.NoError(k.t, d.Flush(storetest.Background))
		require.NoError(k.t, tn.End())
	case 15: // a text that arrives during an answer
		h, err := k.s.History(storetest.Background)
		require.NoError(k.t, err)
		k.add(transcript.UserText(k.word()))
		a := storetest.Answer(k.word())
		a.Made = transcript.Made{After: h.After}
		k.add(a)
	case 16: // a call waits for a person
		p, err := k.s.Pending(storetest.Background)
		require.NoError(k.t, err)
		for _, c := range p.Calls {
			_ = turn.Decide(storetest.Background, k.s, c.Entry, transcript.Hold, "policy", "") // may be held already
		}
	default:
		k.commit()
	}
}

func (k *talker) commit() {
	opts := &memory.CommitOptions{KeepHistory: k.r.IntN(3) == 0}
	if k.r.IntN(3) == 0 {
		opts.Keep = compact.Keep{Turns: 1 + k.r.IntN(3)}
	}
	done, err := memory.Commit(storetest.Background, k.s, opts)
	require.NoError(k.t, err, k.log)
	k.log = append(k.log, fmt.Sprintf("%s%s", done.Chapter, done.Reason))
	again, err := memory.Commit(storetest.Background, k.s, opts)
	require.NoError(k.t, err, k.log)
	require.False(k.t, again.Chapter != "", k.log)
	if done.Chapter != "" && k.r.IntN(2) == 0 {
		k.add(transcript.Extracted{Commit: done.Entry, Counts: map[string]transcript.ExtractedCount{"events": {Added: 1}}})
	}
}

// wordsOf returns the words of a history.
func wordsOf(h rebuild.History) (all []string) {
	for _, m := range h.Messages {
		for _, b := range m.Content {
			text := ""
			switch b := b.(type) {
			case transcript.TextBlock:
				text = b.Text
			case transcript.ToolResultBlock:
				text = b.Text()
			}
			if strings.HasPrefix(text, neutral.SummaryHeading) || strings.HasPrefix(text, neutral.CarriedHeading) {
				continue
			}
			for w := range strings.FieldsSeq(text) {
				if strings.HasPrefix(w, "w") && strings.HasSuffix(w, ".") {
					all = append(all, w)
				}
			}
		}
	}
	return all
}

// check checks the promise: each word of the conversation is in one chapter, or
// live.
func (k *talker) check() {
	var filed []string
	chapters, err := memory.Chapters(storetest.Background, k.s)
	require.NoError(k.t, err, k.log)
	for _, a := range chapters {
		h, err := memory.ReadChapter(storetest.Background, k.s, a.Name)
		require.NoError(k.t, err, k.log)
		require.NotEmpty(k.t, h.Messages, k.log)
		valid(k.t, h)
		filed = append(filed, wordsOf(h)...)
	}
	sorted := slices.Clone(filed)
	slices.Sort(sorted)
	require.Equal(k.t, len(filed), len(slices.Compact(sorted)), "in two chapters: %v\n%v", filed, k.log)
	h, err := memory.Uncommitted(storetest.Background, k.s)
	require.NoError(k.t, err)
	now := wordsOf(h)
	for _, w := range now {
		require.NotContains(k.t, filed, w, k.log)
		require.NotContains(k.t, k.base, w, k.log)
	}
	full, err := exchange.FullHistory(storetest.Background, k.s)
	require.NoError(k.t, err)
	for _, w := range wordsOf(full) {
		if !slices.Contains(k.base, w) {
			require.True(k.t, slices.Contains(filed, w) || slices.Contains(now, w), "%s is nowhere: in chapters %v, live %v\n%v", w, filed, now, k.log)
		}
	}
	h, err = k.s.History(storetest.Background)
	require.NoError(k.t, err)
	valid(k.t, h)
}

func valid(t *testing.T, h rebuild.History) {
	t.Helper()
	msgs := slices.Clone(h.Messages)
	if n := len(msgs); n == 0 || msgs[n-1].Role == transcript.RoleAssistant {
		msgs = append(msgs, transcript.UserText("go on"))
	}
	require.Empty(t, wiretest.Validate(transcript.Request{System: h.System, Messages: msgs}))
}

// In every program, each message of the conversation is either in exactly one
// chapter or live; and a restart agrees.
func TestCommitProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storetest.Extent(*storetest.Soak, 15, 400, 10_000)) {
		r := rand.New(rand.NewPCG(seed, 15))
		drv := memdriver.New(nil)
		opts := vikingly()
		st, other := session.OpenDriver(drv, opts), session.OpenDriver(drv, opts)
		k := &talker{t: t, r: r, s: storetest.Load(t, st, storetest.CLI)}
		for i := range 30 {
			if r.IntN(6) == 0 { // another process continues
				s, err := other.Get(storetest.Background, k.s.Ref())
				require.NoError(t, err)
				k.s, st, other = s, other, st
			}
			k.step()
			if i%5 == 4 {
				k.check()
				again, err := session.OpenDriver(drv, opts).Get(storetest.Background, k.s.Ref())
				require.NoError(t, err)
				require.Equal(t, stats(t, k.s), stats(t, again), "%d: %v", seed, k.log)
				require.Equal(t, live(t, k.s), live(t, again))
			}
		}
		storetest.Close(t, st)
	}
}

// The same after kills that cut a transcript at any byte, and without an index.
func TestCommitPropertyTorn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storetest.Extent(*storetest.Soak, 5, 200, 3_000)) {
		r := rand.New(rand.NewPCG(seed, 16))
		dir := storetest.Scratch(t)
		opts := vikingly()
		opts.Sync = session.SyncNever
		st := storetest.Open(t, dir, opts)
		k := &talker{t: t, r: r, s: storetest.Load(t, st, storetest.CLI)}
		for range 6 {
			for range 6 {
				k.step()
			}
			ref := k.s.Ref()
			storetest.Close(t, st)
			name := filepath.Join(dir, "agents", ref.Agent, "sessions", ref.ID+".jsonl")
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			least := max(k.least, int64(bytes.IndexByte(data, '\n')+1))
			require.NoError(t, os.Truncate(name, max(least, int64(len(data)-r.IntN(1+r.IntN(3_000))))))
			if r.IntN(2) == 0 {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, "agents", ref.Agent, "sessions.jsonl")))
			}
			k.log = append(k.log, "torn")
			st = storetest.Open(t, dir, opts)
			k.s, err = st.Get(storetest.Background, ref)
			require.NoError(t, err)
			k.ids, k.calls = nil, nil
			for e, err := range k.s.Entries(storetest.Background, "") {
				require.NoError(t, err)
				k.ids = append(k.ids, e.ID)
			}
			k.ids = k.ids[1:]
			k.check()
		}
		storetest.Close(t, st)
	}
}
