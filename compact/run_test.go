package compact_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// compactOnce plans, runs and adds the result to the fold.
func compactOnce(t *testing.T, f *rebuild.Fold, opts *compact.Options) (transcript.Compaction, error) {
	t.Helper()
	h := f.History()
	c, err := compact.Run(t.Context(), h, compact.Plan(h, opts), opts)
	if err == nil {
		add(t, f, fmt.Sprintf("c%d", f.Turns()*1000+len(h.Messages)), c)
	}
	return c, err
}

// A summarizer gets the messages without the last compaction's summary, and that
// summary separately, as it was written, in whatever form the history shows it.
func TestInput(t *testing.T) {
	for _, form := range []rebuild.SummaryForm{rebuild.SummaryUser, rebuild.SummaryPair, rebuild.SummarySystem} {
		var in []compact.Input
		opts := &compact.Options{
			Keep: compact.Keep{Turns: 1}, Counter: flat{},
			Summarizer: compact.SummarizerFunc(func(_ context.Context, i compact.Input) (string, error) {
				in = append(in, i)
				return fmt.Sprintf("  summary %d \n", len(in)), nil
			}),
		}
		f := fold(t, strings.Repeat("u a ", 4), &rebuild.Options{Summary: form})
		c, err := compactOnce(t, f, opts)
		if err != nil || c.Summary != "summary 1" || len(in[0].Messages) != 6 || in[0].Previous != "" || c.TokensBefore != 80 {
			t.Fatalf("form %d: %+v, %v, %+v", form, c, err, in)
		}
		for i := range 3 {
			add(t, f, fmt.Sprintf("f%d", i), transcript.UserText(fmt.Sprint("more ", i)), transcript.AssistantText("yes"))
		}
		if c, err = compactOnce(t, f, opts); err != nil || c.Summary != "summary 2" {
			t.Fatalf("form %d: %+v, %v", form, c, err)
		}
		if in[1].Previous != "summary 1" {
			t.Errorf("form %d: the previous summary is %q", form, in[1].Previous)
		}
		var said []string
		for _, m := range in[1].Messages {
			said = append(said, m.Text())
		}
		if got := strings.Join(said, "|"); got != "question 6|answer 7|more 0|yes|more 1|yes" {
			t.Errorf("form %d: the summarizer is given %s", form, got)
		}
		if f.Turns() != 7 {
			t.Errorf("form %d: %d turns", form, f.Turns())
		}
	}
}

// Compactions inside a turn keep the user's request, however many there are,
// until the turn is over.
func TestRequestIsCarried(t *testing.T) {
	opts := &compact.Options{
		Keep: compact.Keep{Tokens: 450},
		Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
			if strings.Contains(in.Previous, "WISH") {
				t.Errorf("the summarizer is given what is carried: %q", in.Previous)
			}
			return nthSummary(1), nil
		}),
	}
	f := rebuild.New(nil)
	next := 0
	say := func(items ...transcript.Item) {
		t.Helper()
		next++
		add(t, f, fmt.Sprintf("n%d", next), items...)
	}
	round := func(extra ...transcript.Item) {
		id := fmt.Sprint("x", next)
		say(transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: id, Name: "f", Input: []byte("{}")},
		}})
		say(append([]transcript.Item{transcript.ToolResult(id, facts(10))}, extra...)...)
	}
	say(transcript.UserText("an older wish"), transcript.AssistantText("granted"))
	say(transcript.UserText("WISH one\nwith a second line"))
	carried := 0
	for i := range 20 {
		var steering []transcript.Item
		if i == 4 {
			steering = []transcript.Item{transcript.UserText("STEER to the left")}
		}
		round(steering...)
		c, err := compactOnce(t, f, opts)
		if err != nil {
			continue // nothing to do
		}
		carried += strings.Count(rebuild.CarriedText(c), "WISH")
		var shown strings.Builder
		for _, m := range f.History().Messages {
			shown.WriteString(strings.ReplaceAll(m.Text(), "\n  ", "\n") + "\n") // carried lines are indented
		}
		want := map[string]int{"WISH one\nwith a second line": 1, "STEER to the left": 0, "goes on below:\n- WISH": strings.Count(rebuild.CarriedText(c), "WISH")}
		if i >= 4 {
			want["STEER to the left"] = 1
		}
		for text, n := range want {
			if got := strings.Count(shown.String(), text); got != n {
				t.Fatalf("round %d: %q is in the history %d times, want %d:\n%s", i, text, got, n, &shown)
			}
		}
	}
	if carried < 5 {
		t.Errorf("the request was carried %d times: the test shows nothing", carried)
	}
	// Turns later it is one of the texts of the user.
	say(transcript.AssistantText("done"))
	for i := range 4 {
		say(transcript.UserText(fmt.Sprint("next ", i)), transcript.AssistantText(facts(20)))
	}
	c, err := compactOnce(t, f, opts)
	require.NoError(t, err)
	require.NotContains(t, rebuild.CarriedText(c), "goes on below")
	require.Contains(t, texts(c.Said), "WISH one\nwith a second line")
}

// A request of any length is carried, within a bound.
func TestLongRequest(t *testing.T) {
	f := rebuild.New(nil)
	add(t, f, "u", transcript.UserText("BEGIN "+strings.Repeat("много слов ", 5_000)+"END"))
	for i := range 4 {
		id := fmt.Sprint("x", i)
		add(t, f, fmt.Sprint("a", i), transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: id, Name: "f", Input: []byte("{}")},
		}})
		add(t, f, fmt.Sprint("r", i), transcript.ToolResult(id, "out"))
	}
	c, err := compactOnce(t, f, &compact.Options{
		Keep:       compact.Keep{Tokens: 100},
		Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) { return nthSummary(1), nil }),
	})
	text := rebuild.CarriedText(c)
	if err != nil || !strings.Contains(text, "- BEGIN") || !strings.HasSuffix(text, "END") || sizeOf(text) > 64_000/20/2+50 {
		t.Errorf("%d tokens, %v", sizeOf(text), err)
	}
}

// The user's last words are carried whole, however many texts came before them
// in the same turn.
func TestLatestWords(t *testing.T) {
	f := rebuild.New(nil)
	add(t, f, "u", transcript.UserText("BEGIN "+strings.Repeat("many words ", 3_000)+"END"))
	latest := "And now LATEST: " + strings.Repeat("do it this way, and not that one; ", 60) + "that is all."
	for i := range 6 {
		id := fmt.Sprint("x", i)
		add(t, f, fmt.Sprint("a", i), called(id, "f", "{}"))
		items := []transcript.Item{transcript.ToolResult(id, "out")}
		if i == 1 {
			items = append(items, transcript.UserText(latest))
		}
		add(t, f, fmt.Sprint("r", i), items...)
	}
	opts := &compact.Options{Keep: compact.Keep{Tokens: 60}, Summarizer: says(nthSummary(1), nil)}
	for round := range 4 {
		c, err := compactOnce(t, f, opts)
		text := rebuild.CarriedText(c)
		if err != nil || !strings.Contains(text, "- BEGIN") || !strings.HasSuffix(text, latest) || sizeOf(text) > 64_000/20/2+50 {
			t.Fatalf("round %d: %d tokens, %v", round, sizeOf(text), err)
		}
		for i := range 6 {
			id := fmt.Sprintf("y%d.%d", round, i)
			add(t, f, "a"+id, called(id, "f", "{}"))
			add(t, f, "r"+id, transcript.ToolResult(id, strings.Repeat("out ", 200)))
		}
	}
}

// A turn that ended without a word of the assistant is still open: its request
// is carried until its answer arrives.
func TestUnanswered(t *testing.T) {
	f := rebuild.New(nil)
	silent := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "hm", Signature: "s"}}}
	for i := range 6 {
		add(t, f, fmt.Sprint("t", i), transcript.UserText(fmt.Sprintf("question %d: what became of the harbour and of the old bridge?", i)), transcript.AssistantText("It was rebuilt."))
	}
	add(t, f, "open", transcript.UserText("OPEN: who paid for it?"), silent)
	add(t, f, "next", transcript.UserText("OTHER: and when was that?"), transcript.AssistantText("In the third year."), transcript.UserText("thanks"))
	opts := &compact.Options{Keep: compact.Keep{Tokens: 45}, Counter: flat{}, Summarizer: says("They ask of the harbour.", nil)}
	h := f.History()
	for at := range h.Messages {
		if h.Messages[at].Text() != "OTHER: and when was that?" {
			continue
		}
		cut := compact.Plan(h, &compact.Options{Keep: compact.Keep{Tokens: 10 * (len(h.Messages) - at)}, Counter: flat{}})
		if cut.At != at || cut.Split {
			t.Fatalf("the cut is %+v, want %d", cut, at)
		}
		c, err := compact.Run(t.Context(), h, cut, opts)
		text := rebuild.CarriedText(c)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(text, "goes on below:\n- OPEN: who paid for it?"), text)
		add(t, f, "c", c)
		for i := range 6 {
			add(t, f, fmt.Sprint("v", i), transcript.AssistantText("Yes."), transcript.UserText("more"))
		}
		if c, err = compactOnce(t, f, opts); err != nil || strings.Contains(rebuild.CarriedText(c), "goes on below:\n- OPEN") {
			t.Errorf("%q, %v", rebuild.CarriedText(c), err)
		}
		return
	}
	t.Error("the history has no such message")
}

func TestRunRefuses(t *testing.T) {
	h := history(t, strings.Repeat("u a ", 4), nil)
	never := &compact.Options{Counter: flat{}, Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		t.Error("the summarizer was called")
		return "", nil
	})}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name string
		ctx  context.Context //nolint:containedctx // a case of the table
		cut  compact.Cut
		want error
	}{
		{"nothing to do", t.Context(), compact.Cut{Nothing: compact.TooShort}, nil},
		{"no cut", t.Context(), compact.Cut{}, nil},
		{"a cut of another history", t.Context(), compact.Cut{At: 8}, nil},
		{"cancelled", cancelled, compact.CutAt(h, 2, never), context.Canceled},
	}
	for _, tt := range tests {
		c, err := compact.Run(tt.ctx, h, tt.cut, never)
		if _, ok := errors.AsType[*compact.Error](err); !ok || !reflect.ValueOf(c).IsZero() || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %+v, %v", tt.name, c, err)
		}
	}
}

// No summary brings control characters or half characters into a prompt.
func TestSummaryIsPrintable(t *testing.T) {
	f := shop(t)
	c, err := compactOnce(t, f, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: says("They move\x00 an order,\r\n\tand a \x1b[31mtest\u009b fails.\xff "+nthSummary(1), nil)})
	require.NoError(t, err)
	require.Contains(t, c.Summary, "They move an order,\n\tand a [31mtest fails.\uFFFD")
}

// The text of Extractive is not refused for a control character in a message.
func TestExtractIsPrintable(t *testing.T) {
	f := rebuild.New(nil)
	for i := range 3 {
		add(t, f, fmt.Sprintf("t%d", i), transcript.UserText("go on"), transcript.AssistantText("\x1b[31m"+facts(400)+"\x00"))
	}
	c, err := compactOnce(t, f, &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.Contains(t, c.Summary, "[31mFact 0")
}
