package turn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// titler is a Titler that counts its calls.
type titler struct {
	asked int
	title func(in []transcript.Message, current string) (string, error)
}

func (t *titler) Title(_ context.Context, in []transcript.Message, current string) (string, error) {
	t.asked++
	return t.title(in, current)
}

// A title is made at the milestones, and not in between.
func TestRetitleMilestones(t *testing.T) {
	model := &titler{}
	model.title = func([]transcript.Message, string) (string, error) { return fmt.Sprint("Title ", model.asked), nil }
	dir := t.TempDir()
	opts := &session.Options{AfterTurn: []func(context.Context, *session.Session) error{turn.Titles(model)}}
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	var asked []int
	for i := range 100 {
		was := model.asked
		storetest.Add(t, s, []transcript.Item{transcript.UserText(fmt.Sprint("text ", i)), storetest.Answer("yes")}[i%2])
		require.NoError(t, storetest.ErrOf(s.AfterTurn(t.Context())))
		if model.asked > was {
			asked = append(asked, i+1)
			require.Equal(t, fmt.Sprint("Title ", model.asked), storetest.Info(t, s).Title)
			require.False(t, storetest.Info(t, s).TitleByHand)
		}
		if i == 50 { // a restart asks for no title again
			storetest.Close(t, st)
			st = storetest.Open(t, dir, opts)
			s = storetest.Load(t, st, storetest.CLI)
		}
	}
	require.Equal(t, []int{4, 12, 30, 80}, asked)
	storetest.Close(t, st)
}

// A title that was set by hand stays, whenever that was done.
func TestRetitleByHand(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 3)
	set := func(title string) { require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title})) }
	meanwhile := &titler{title: func([]transcript.Message, string) (string, error) {
		set("mine")
		return "The model's", nil
	}}
	changed, err := turn.Retitle(t.Context(), s, meanwhile)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, "mine", storetest.Info(t, s).Title)
	storetest.Talk(t, s, 3, 20)
	changed, err = turn.Retitle(t.Context(), s, meanwhile)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, 1, meanwhile.asked)

	// By hand over a model's.
	s, err = st.Create(t.Context(), storetest.CLI, nil)
	require.NoError(t, err)
	storetest.Talk(t, s, 0, 3)
	changed, err = turn.Retitle(t.Context(), s, &titler{title: func([]transcript.Message, string) (string, error) { return "The model's", nil }})
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "The model's", storetest.Info(t, s).Title)
	set("mine")
	require.True(t, storetest.Info(t, s).TitleByHand)
	_, err = s.Append(t.Context(), transcript.Meta{Title: new("x"), TitleBy: "somebody"})
	require.Error(t, err)
	require.Equal(t, "mine", storetest.Info(t, s).Title)
}

// For every answer of a model, the title is a short line or unchanged.
func TestRetitleAnswers(t *testing.T) {
	long := strings.Repeat("词", 60) + "…"
	for answer, want := range map[string]string{
		"Fix the build":                    "Fix the build",
		"":                                 "",
		" \n\t ":                           "",
		"\"Fix the build\"\n":              "Fix the build",
		"# Title: **Fix the build**\nmore": "Fix the build",
		"\n\n- Fix\t the\x1b[2J build":     "Fix the[2J build",
		"Fix\u202e the build":              "Fix the build",
		"<thinking>":                       "",
		"\"...\"":                          "",
		"\xff\xfe":                         "",
		strings.Repeat("词", 1<<20):         long,
		strings.Repeat("\n", 1<<20) + "a":  "",
	} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Talk(t, s, 0, 3)
		was := storetest.Info(t, s).Title
		changed, err := turn.Retitle(t.Context(), s, &titler{title: func(in []transcript.Message, current string) (string, error) {
			require.Equal(t, was, current)
			require.NotEmpty(t, in)
			return answer, nil
		}})
		require.NoError(t, err)
		require.Equal(t, want != "", changed, "%.40q", answer)
		if want == "" {
			want = was
		}
		require.Equal(t, want, storetest.Info(t, s).Title, "%.40q", answer)
		storetest.Close(t, st)
	}
}

// A titler that fails does no harm to a turn, and Titles does not ask it again at
// once. It gets a bounded part of the conversation.
func TestRetitleFails(t *testing.T) {
	failing := &titler{title: func(in []transcript.Message, _ string) (string, error) {
		require.LessOrEqual(t, len(in), 12)
		for _, m := range in {
			require.LessOrEqual(t, len(m.Text()), 4_100)
		}
		return "half", errors.New("no connection")
	}}
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText(strings.Repeat("long ", 10_000)))
	storetest.Talk(t, s, 0, 20)
	titles := turn.Titles(failing)
	require.ErrorContains(t, titles(t.Context(), s), "no connection")
	require.NoError(t, titles(t.Context(), s))
	require.Equal(t, 1, failing.asked)
	require.ErrorContains(t, storetest.ErrOf(turn.Retitle(t.Context(), s, failing)), "no connection")
	require.Equal(t, 2, failing.asked)
	require.NotContains(t, storetest.Info(t, s).Title, "half")
}

// A Titler gets messages with a text, the first and the last ones.
func TestRetitleMessages(t *testing.T) {
	s := fresh(t)
	storetest.Add(t, s, transcript.UserText("read"))
	storetest.Add(t, s, storetest.Answer("", "c"))
	storetest.Add(t, s, transcript.ToolResult("c", "a result"))
	var said []string
	for n := range 16 {
		said = append(said, fmt.Sprint("text ", n))
		storetest.Add(t, s, []transcript.Item{storetest.Answer(said[n]), transcript.UserText(said[n])}[n%2])
	}
	var got []string
	require.NoError(t, storetest.ErrOf(turn.Retitle(t.Context(), s, &titler{title: func(in []transcript.Message, _ string) (string, error) {
		for _, m := range in {
			got = append(got, m.Text())
		}
		return "Reading", nil
	}})))
	require.Equal(t, slices.Concat([]string{"read"}, said[:3], said[8:]), got)
}

// The Titler is not asked for a session that takes no writes, nor about words that are
// erased while it works.
func TestRetitleUnwritten(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("the code is 4711"), storetest.Answer("yes"))
	storetest.Talk(t, s, 0, 2)
	erasing := &titler{title: func([]transcript.Message, string) (string, error) {
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[:1]}}})
		require.NoError(t, err)
		require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
		return "4711", nil
	}}
	require.ErrorIs(t, storetest.ErrOf(turn.Retitle(t.Context(), s, erasing)), session.ErrReplaced)
	require.NotContains(t, storetest.Info(t, s).Title, "4711")
	storetest.Close(t, st)

	st = storetest.Open(t, dir, &session.Options{ReadOnly: true})
	defer storetest.Close(t, st)
	require.ErrorIs(t, storetest.ErrOf(turn.Retitle(t.Context(), storetest.Load(t, st, storetest.CLI), erasing)), session.ErrReadOnly)
	require.Equal(t, 1, erasing.asked)
}
