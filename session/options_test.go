package session_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// counter counts n tokens for anything.
type counter int

func (c counter) Count(string, []transcript.Tool, []transcript.Message) int { return int(c) }

// said returns options of a compaction whose functions report a name.
func said(name string, n int, heard *[]string) compact.Options {
	return compact.Options{
		Window: 1_000 * n, Keep: compact.Keep{Turns: n}, Trigger: compact.Trigger{Threshold: 10_000 * n}, Room: 100 * n,
		Summarizer: compact.SummarizerFunc(storetest.Says(name)), Guidance: name, MaxSummary: 10 + n, MaxCarried: 20 + n,
		Files:        func(transcript.ToolCallBlock) (read, modified []string) { return []string{name}, nil },
		Instructions: func(path string) bool { return path == name }, Recall: true,
		Timeout: time.Duration(n), Counter: counter(n),
		Observe: func(context.Context, compact.Step) { *heard = append(*heard, name) },
		Check:   func(compact.Cut) bool { *heard = append(*heard, "check of "+name); return true },
	}
}

// A call's options are its own, field by field, and the store's where it sets none.
func TestOptionsOfACompaction(t *testing.T) {
	var heard []string
	ours := said("store", 1, &heard)
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: ours})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 1)
	theirs := said("call", 2, &heard)
	for i := range reflect.TypeFor[compact.Options]().NumField() {
		field := reflect.TypeFor[compact.Options]().Field(i)
		if !field.IsExported() || field.Name == "Pins" {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			var opts compact.Options
			reflect.ValueOf(&opts).Elem().Field(i).Set(reflect.ValueOf(theirs).Field(i))
			var got compact.Options
			require.NoError(t, s.View(t.Context(), func(v *session.View) (err error) {
				got, err = v.CompactOptions(&opts)
				return err
			}))
			require.True(t, got.Recall, "either wants it")
			for name, by := range optionsBy(got, &heard) {
				require.Equal(t, map[bool]string{false: "store", true: "call"}[name == field.Name], by, name)
			}
		})
	}
}

// optionsBy returns the origin of each field.
func optionsBy(o compact.Options, heard *[]string) map[string]string {
	name := func(call bool) string { return map[bool]string{false: "store", true: "call"}[call] }
	read, _ := o.Files(transcript.ToolCallBlock{})
	summary, _ := o.Summarizer.Summarize(context.Background(), compact.Input{})
	*heard = nil
	o.Observe(context.Background(), compact.Step{})
	observed := *heard
	*heard = nil
	o.Check(compact.Cut{})
	checked := *heard
	by := map[string]string{
		"Window": name(o.Window == 2_000), "Keep": name(o.Keep.Turns == 2), "Trigger": name(o.Trigger.Threshold == 20_000), "Room": name(o.Room == 200),
		"Summarizer": summary, "Guidance": o.Guidance, "MaxSummary": name(o.MaxSummary == 12), "MaxCarried": name(o.MaxCarried == 22),
		"Files": read[0], "Instructions": name(o.Instructions("call")), "Timeout": name(o.Timeout == 2), "Counter": name(o.Counter == counter(2)),
	}
	if len(observed) == 1 {
		by["Observe"] = observed[0]
	}
	if len(checked) == 1 {
		by["Check"] = checked[0][len("check of "):]
	}
	return by
}

// Without options, the form in which the summary is shown sets the defaults.
func TestDefaultsOfACompaction(t *testing.T) {
	for form, most := range map[rebuild.SummaryForm]int{rebuild.SummaryUser: 0, rebuild.SummarySystem: 2_048} {
		st := session.OpenDriver(memdriver.New(nil), &session.Options{Summary: form})
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Talk(t, s, 0, 1)
		require.NoError(t, s.View(t.Context(), func(v *session.View) error {
			o, err := v.CompactOptions(nil)
			require.NoError(t, err)
			require.Equal(t, most, o.MaxSummary)
			require.Equal(t, map[bool]int{true: -1}[most > 0], o.MaxCarried)
			require.Equal(t, tokens.Estimator{}, o.Counter)
			require.False(t, o.Recall)
			o.Observe(t.Context(), compact.Step{})
			return nil
		}))
		storetest.Close(t, st)
	}
}

// AfterTurn calls every function of the options in their order, whatever they return, and
// joins their errors.
func TestAfterTurnFunctions(t *testing.T) {
	first, third := errors.New("first"), errors.New("third")
	var called []string
	do := func(name string, err error) func(context.Context, *session.Session) error {
		return func(_ context.Context, s *session.Session) error {
			called = append(called, name+" "+s.Ref().ID)
			return err
		}
	}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{
		AfterTurn: []func(context.Context, *session.Session) error{do("one", first), do("two", nil), do("three", third)},
		Compact:   compact.Options{Trigger: compact.Trigger{Threshold: 7_000}, Keep: compact.Keep{Turns: 1}},
		Counter:   storetest.Thousands{},
	})
	defer storetest.Close(t, st)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "id"})
	require.Equal(t, st, s.Store())
	storetest.Talk(t, s, 0, 12)
	done, err := s.AfterTurn(t.Context())
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, third)
	require.Equal(t, []string{"one id", "two id", "three id"}, called)
	require.NotEmpty(t, done.Entry, "it compacts all the same")
}
