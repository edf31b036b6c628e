package session_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A session has the tokens of its history: in the process that wrote it, after
// a restart, and from the transcript alone.
func TestTokensAreThoseOfTheHistory(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		dir := t.TempDir()
		st := storetest.Open(t, dir, storetest.Unsynced)
		s := storetest.Load(t, st, storetest.CLI)
		ref := s.Ref()
		var ids []string
		for step := range 40 {
			switch rnd.IntN(8) {
			case 0, 1:
				ids = append(ids, storetest.Add(t, s, transcript.UserText(fmt.Sprint("question ", step)))...)
			case 2:
				ids = append(ids, storetest.Add(t, s, storetest.Answer(fmt.Sprint("answer ", step)))...)
			case 3:
				ids = append(ids, storetest.Add(t, s, storetest.Answer("look", fmt.Sprint("c", step)))...)
			case 4:
				ids = append(ids, storetest.Add(t, s, transcript.ToolResult(fmt.Sprint("c", rnd.IntN(step+1)), strings.Repeat("out ", step)))...)
			case 5:
				_, _ = s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1 + rnd.IntN(3)}, Summarizer: compact.SummarizerFunc(storetest.Says("s"))})
			case 6:
				if len(ids) > 0 && rnd.IntN(2) == 0 {
					require.NoError(t, s.Rewind(t.Context(), append(ids, s.Ref().ID)[rnd.IntN(len(ids)+1)]))
				}
			case 7:
				if len(ids) > 0 {
					storetest.Add(t, s, transcript.Clip{Clips: []transcript.Clipping{{Entry: ids[rnd.IntN(len(ids))], Content: "clipped"}}})
				}
			}
			if rnd.IntN(5) > 0 {
				continue
			}
			h, err := s.History(t.Context())
			require.NoError(t, err)
			want := 0
			if h.System != "" {
				want = tokens.Estimator{}.Count(h.System, nil, nil)
			}
			for i := range h.Messages {
				want += tokens.Estimator{}.Count("", nil, h.Messages[i:i+1])
			}
			info := storetest.Info(t, s)
			require.Equal(t, want, info.Tokens, "seed %d, step %d", seed, step)
			storetest.Close(t, st)
			if rnd.IntN(2) == 0 {
				storetest.LoseIndex(t, dir)
			}
			st = storetest.Open(t, dir, storetest.Unsynced)
			if rnd.IntN(2) == 0 {
				infos := storetest.List(t, st, nil)
				require.Equal(t, []session.Info{info}, infos, "seed %d, step %d", seed, step)
			}
			s = mustGet(t, st, ref)
			require.Equal(t, info, storetest.Info(t, s), "seed %d, step %d", seed, step)
		}
		storetest.Close(t, st)
	}
}

// counting counts how many messages it was asked about.
type counting struct {
	tokens.Estimator
	messages *int
}

func (c counting) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	*c.messages += len(msgs)
	return c.Estimator.Count(system, tools, msgs)
}

// Appends and loads count nothing; AfterTurn and Info count new messages.
func TestTokensAreCountedOnDemand(t *testing.T) {
	dir, n := t.TempDir(), 0
	opts := &session.Options{Sync: session.SyncNever, Counter: counting{messages: &n}, Compact: compact.Options{Trigger: compact.Trigger{Window: 1 << 30}}}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 100)
	require.Zero(t, n)
	for i := range 100 {
		storetest.Talk(t, s, 100+i, 1)
		_, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, n, 2*(101+i)+2)
		before := n
		_, err = s.AfterTurn(t.Context())
		require.NoError(t, err)
		storetest.Info(t, s)
		require.Equal(t, before, n, "nothing is new")
	}
	storetest.Close(t, st)
	n = 0
	st = storetest.Open(t, dir, opts)
	defer storetest.Close(t, st)
	storetest.Load(t, st, storetest.CLI)
	require.Zero(t, n)
}

// A changed letter is reported, and the entry is kept.
func TestChecksums(t *testing.T) {
	for _, off := range []bool{false, true} {
		dir := t.TempDir()
		var told []transcript.Damage
		opts := &session.Options{Sync: session.SyncNever, NoChecksum: off, Observe: observeDamage(&told)}
		st := storetest.Open(t, dir, opts)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("hello world"), storetest.Answer("hi"))
		storetest.Close(t, st)
		path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		sealed := strings.Count(string(data), `,"crc":"`)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(data), "world", "would", 1)), 0o600))
		st = storetest.Open(t, dir, opts)
		s = storetest.Load(t, st, storetest.CLI)
		require.Equal(t, "[u:hello would][a:hi]", shape(t, s))
		h, err := s.Health(t.Context())
		require.NoError(t, err)
		if off {
			require.Zero(t, sealed)
			require.Empty(t, h.Damage)
			require.Empty(t, told)
		} else {
			require.Equal(t, 3, sealed)
			require.Len(t, h.Damage, 1)
			require.Equal(t, transcript.DamageCRC, h.Damage[0].Kind)
			require.Equal(t, h.Damage, told)
		}
		storetest.Close(t, st)
	}
}
