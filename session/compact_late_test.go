package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A result that came in while its call was summarised is a conflict: the
// summary was written without it.
func TestLateResultWhileCompacting(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "slow"))
	storetest.Talk(t, s, 0, 4)
	_, err := s.Compact(t.Context(), &compact.Options{
		Keep: compact.Keep{Turns: 2},
		Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
			storetest.Add(t, s, transcript.ToolResult("slow", "at last"))
			return storetest.ShortSummary, nil
		}),
	})
	require.ErrorIs(t, err, session.ErrConflict)
	require.Contains(t, storetest.History(t, s), "at last")
}

// A result may come in at any moment until the compaction is committed: it is
// in the history or it is a conflict.
func TestLateResultAtAnyMoment(t *testing.T) {
	run := func(at int) (counts int, shown bool, err error) {
		dir := t.TempDir()
		st, st2 := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
		defer storetest.Close(t, st)
		defer storetest.Close(t, st2)
		s, s2 := storetest.Load(t, st, storetest.CLI), storetest.Load(t, st2, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "slow"))
		storetest.Talk(t, s, 0, 6)
		_, err = s.Compact(t.Context(), &compact.Options{
			Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary)),
			Counter: calling{&counts, at, func() { storetest.Add(t, s2, transcript.ToolResult("slow", "AT-LAST")) }},
		})
		return counts, strings.Contains(storetest.History(t, s), "AT-LAST"), err
	}
	total, _, err := run(0)
	require.NoError(t, err)
	for at := 1; at <= total; at++ {
		if _, shown, err := run(at); err == nil && !shown {
			t.Errorf("a result that came during count %d of %d is lost", at, total)
		} else if err != nil && !errors.Is(err, session.ErrConflict) {
			t.Error(err)
		}
	}
}

// calling is a counter that does something when it is called for the at-th
// time.
type calling struct {
	n  *int
	at int
	do func()
}

func (c calling) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	if *c.n++; *c.n == c.at {
		c.do()
	}
	return tokens.Estimator{}.Count(system, tools, msgs)
}

// The result comes between the check and the append, where no counter is
// called.
func TestLateResultBeforeTheAppend(t *testing.T) {
	dir := t.TempDir()
	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	files, err := filedriver.Open(dir, &filedriver.Options{})
	require.NoError(t, err)
	late := &lateDriver{Driver: files}
	st := session.OpenDriver(late, nil)
	defer storetest.Close(t, st)
	s, s2 := storetest.Load(t, st, storetest.CLI), storetest.Load(t, other, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("go"), storetest.Answer("", "slow"))
	storetest.Talk(t, s, 0, 6)
	late.before = func(lines []driver.Line) {
		if bytes.HasPrefix(lines[0].Data, []byte(`{"type":"compaction"`)) && late.n < 1 {
			late.n++
			storetest.Add(t, s2, transcript.ToolResult("slow", "AT-LAST"))
		}
	}
	lost, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
	if !errors.Is(err, session.ErrConflict) || lost.Compaction.Summary != storetest.ShortSummary || lost.Entry != "" || !strings.Contains(storetest.History(t, s), "AT-LAST") {
		t.Errorf("%v\n%s", err, storetest.History(t, s))
	}

	// Another compaction in between is a conflict: only one is committed.
	late.n = 0
	late.before = func(lines []driver.Line) {
		if bytes.HasPrefix(lines[0].Data, []byte(`{"type":"compaction"`)) && late.n < 1 {
			late.n++
			require.NoError(t, storetest.ErrOf(s2.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says("theirs"))})))
		}
	}
	_, err = s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says("ours"))})
	require.ErrorIs(t, err, session.ErrConflict)
	require.Contains(t, storetest.History(t, s), "theirs")

	// A hide of a summarised part is a conflict, and the error names it.
	late.n = 0
	late.before = func(lines []driver.Line) {
		if bytes.HasPrefix(lines[0].Data, []byte(`{"type":"compaction"`)) && late.n < 1 {
			late.n++
			h, err := s2.History(t.Context())
			require.NoError(t, err)
			at := slices.IndexFunc(h.Messages[0].Origins, func(o transcript.Origin) bool { return o.Batch > 0 }) // after the summary
			require.GreaterOrEqual(t, at, 0)
			storetest.Add(t, s2, transcript.Hide{Entries: []string{h.Messages[0].Origins[at].Entry}})
		}
	}
	storetest.Talk(t, s, 0, 6)
	_, err = s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
	require.ErrorIs(t, err, session.ErrConflict)
	require.ErrorContains(t, err, "hidden")

	// A result of a kept call is not a conflict, nor is any number of texts.
	storetest.Add(t, s, transcript.UserText("next"), storetest.Answer("", "quick"))
	late.n = -1
	late.before = func(lines []driver.Line) {
		if bytes.HasPrefix(lines[0].Data, []byte(`{"type":"compaction"`)) && late.n < 1 {
			late.n++
			storetest.Add(t, s2, transcript.UserText(fmt.Sprint("hurry ", late.n)))
			if late.n == 0 {
				storetest.Add(t, s2, transcript.ToolResult("quick", "HERE"))
			}
		}
	}
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))})
	got := storetest.History(t, s)
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	require.Contains(t, got, "HERE")
	require.Contains(t, got, "hurry")
}

// A hide of a kept part changes nothing that a summary replaces, even if the message
// before it grows.
func TestHideWhileCompacting(t *testing.T) {
	parts := []string{"summarised", "first", "answer", "go", "quick", "steer", "second", "done"}
	for i, part := range parts {
		for _, keep := range []compact.Keep{{Turns: 2}, {Turns: 1}, {Tokens: 60}} {
			st := storetest.Open(t, t.TempDir(), nil)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Talk(t, s, 0, 6)
			ids, results := map[string]string{}, map[string][]string{}
			for j, item := range []transcript.Item{
				transcript.UserText("summarised"), transcript.UserText("first"), storetest.Answer("answer"), transcript.UserText("go"),
				storetest.Answer("", "quick"), transcript.UserText("steer"), storetest.Answer("", "second"), storetest.Answer("done"),
			} {
				added := storetest.Add(t, s, item)
				if ids[parts[j]] = added[len(added)-1]; parts[j] == "quick" || parts[j] == "second" {
					results[parts[j]] = storetest.Add(t, s, transcript.ToolResult(parts[j], "of "+parts[j]))
				}
				if j == 0 {
					storetest.Add(t, s, storetest.Answer("summarised too"))
				}
			}
			first := ""
			done, err := s.Compact(t.Context(), &compact.Options{Keep: keep, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
				_, err := s.Append(t.Context(), transcript.Hide{Entries: append([]string{ids[part]}, results[part]...)})
				return storetest.WholeSummary, err
			})})
			for k, id := range ids {
				if id == done.Cut.FirstKept {
					first = k
				}
			}
			t.Log(part, keep, first, err)
			if kept := slices.Index(parts, first); i < kept {
				require.ErrorIs(t, err, session.ErrConflict, "%s of %v from %s on", part, keep, first)
			} else {
				require.NoError(t, err, "%s of %v from %s on", part, keep, first)
				require.NotContains(t, storetest.History(t, s), ids[part])
			}
			storetest.CompareWithWhole(t, part, s, rebuild.SummaryUser)
			storetest.Close(t, st)
		}
	}
}

// lateDriver does something before each append.
type lateDriver struct {
	driver.Driver
	n      int
	before func(lines []driver.Line)
}

func (d *lateDriver) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	if d.before != nil {
		d.before(lines)
	}
	return d.Driver.Append(ctx, ref, lines, at, decide)
}
