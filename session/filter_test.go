package session_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// naming returns a filter that appends its name to texts and notes its calls.
func naming(name string, called *[]string) session.Filter {
	mark := func(ctx context.Context, ref session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		var out []transcript.Entry
		for _, e := range entries {
			if m, ok := e.Body.(transcript.MessageLine); ok {
				e.Body = m.WithContent(transcript.TextBlock{Text: m.Content[0].(transcript.TextBlock).Text + name})
				e = e.WithLine(nil)
			}
			out = append(out, e)
		}
		return out, nil
	}
	return session.Filter{
		Write: mark, Export: mark,
		Model: func(_ context.Context, _ session.Ref, h *rebuild.History) error {
			for i, m := range h.Messages {
				h.Messages[i].Content = []transcript.Block{transcript.TextBlock{Text: m.Text() + name}}
			}
			return nil
		},
		Sweep: func(_ context.Context, ref session.Ref, left iter.Seq2[transcript.Entry, error]) error {
			n := 0
			for _, err := range left {
				if err != nil {
					return err
				}
				n++
			}
			*called = append(*called, name+map[bool]string{true: " of none", false: " of some"}[n == 0]+" in "+ref.ID)
			return nil
		},
	}
}

// Filters see entries in their order on the way in, and in the reverse order on the way out.
func TestFiltersInOrder(t *testing.T) {
	var swept []string
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{naming("1", &swept), {}, naming("2", &swept)}})
	defer storetest.Close(t, st)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "id"})
	storetest.Add(t, s, transcript.UserText("said "))
	text := func(e transcript.Entry) string {
		m, ok := e.Body.(transcript.MessageLine)
		require.True(t, ok)
		return m.Content[0].(transcript.TextBlock).Text
	}
	entries := storetest.Entries(t, s)[1:]
	require.Equal(t, "said 12", text(entries[0]))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, "said 1221", h.Messages[0].Text())
	out, err := s.FilterExport(t.Context(), entries)
	require.NoError(t, err)
	require.Equal(t, "said 1221", text(out[0]))
	require.Equal(t, "said 12", text(entries[0]), "they are not modified")

	require.Empty(t, swept)
	require.NoError(t, s.Rewrite(t.Context(), eraseWord))
	require.Equal(t, []string{"1 of some in id", "2 of some in id"}, swept)
	swept = nil
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.Equal(t, []string{"1 of none in id", "2 of none in id"}, swept)
}

// The result of a filter is checked, and its error fails only the call.
func TestFilterThatFails(t *testing.T) {
	wrong, long := errors.New("wrong"), make([]byte, transcript.DefaultMaxLine+1)
	for name, tt := range map[string]struct {
		write func(entries []transcript.Entry) ([]transcript.Entry, error)
		want  string
	}{
		"an error": {func([]transcript.Entry) ([]transcript.Entry, error) { return nil, wrong }, "wrong"},
		"too few":  {func(entries []transcript.Entry) ([]transcript.Entry, error) { return entries[1:], nil }, "a filter returns 1 entries for 2"},
		"too many": {func(entries []transcript.Entry) ([]transcript.Entry, error) {
			return append(slices.Clip(entries), entries[0]), nil
		}, "a filter returns 3 entries for 2"},
		"a long line": {func(entries []transcript.Entry) ([]transcript.Entry, error) {
			return []transcript.Entry{entries[0], entries[1].WithLine(long)}, nil
		}, "entry 2 of 2: a line of"},
	} {
		t.Run(name, func(t *testing.T) {
			fail := false
			var swept []string
			filter := session.Filter{
				Sweep: naming("x", &swept).Sweep,
				Model: func(context.Context, session.Ref, *rebuild.History) error { return wrong },
			}
			filter.Write = func(_ context.Context, _ session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
				if fail {
					return tt.write(entries)
				}
				return entries, nil
			}
			filter.Export = filter.Write
			st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{filter}})
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
			before := storetest.Lines(t, s)
			entries := storetest.Entries(t, s)[1:]
			fail = true
			for call, err := range map[string]error{
				"append": storetest.ErrOf(s.Append(t.Context(), transcript.UserText("a"), transcript.UserText("b"))),
				"write":  storetest.ErrOf(s.FilterWrite(t.Context(), entries)),
				"export": storetest.ErrOf(s.FilterExport(t.Context(), entries)),
			} {
				require.ErrorContains(t, err, tt.want, call)
				require.ErrorContains(t, err, s.Ref().ID, call)
			}
			require.ErrorIs(t, storetest.ErrOf(s.History(t.Context())), wrong)
			require.Equal(t, before, storetest.Lines(t, s))
			require.Empty(t, swept)
			_, err := s.Fork(t.Context(), ids[1], &session.CreateOptions{ID: "fork"})
			if name == "an error" {
				require.ErrorIs(t, err, wrong)
				require.Equal(t, []string{"x of none in fork"}, swept, "nothing is kept for a session that was not made")
				require.ErrorIs(t, storetest.ErrOf(st.Get(t.Context(), session.Ref{ID: "fork"})), fs.ErrNotExist)
			}
		})
	}
}

// A new session is filtered as long as its caller waits, and one that exists keeps its parts.
func TestFilterOfANewSession(t *testing.T) {
	var swept []string
	var stop context.CancelFunc
	filter := session.Filter{Sweep: naming("x", &swept).Sweep}
	filter.Write = func(ctx context.Context, _ session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		if stop != nil {
			stop()
			<-ctx.Done()
			return nil, errors.New("interrupted")
		}
		return entries, nil
	}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{filter}})
	defer storetest.Close(t, st)
	_ = storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "one"})
	_, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{ID: "one"})
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, "choose another ID")
	require.Empty(t, swept)
	ctx, cancel := context.WithCancel(t.Context())
	stop = cancel
	_, err = st.Create(ctx, storetest.CLI, &session.CreateOptions{ID: "two"})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"x of none in two"}, swept)
	require.Equal(t, session.Filter{}, session.Redact(nil))
}
