package soak_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A turn does not depend on which turns were made before it.
func TestSoakLoadIsDeterministic(t *testing.T) {
	w := soakLoad{Seed: 3}
	var forward []soakTurn
	for n := range 200 {
		forward = append(forward, w.turn(n))
	}
	for n := 199; n >= 0; n-- {
		require.Equal(t, forward[n], w.turn(n))
	}
	if other := (soakLoad{Seed: 4}).turn(0); reflect.DeepEqual(other, forward[0]) {
		t.Error("another seed makes the same turn")
	}
}

// A workload is as documented, a strict model accepts all of it, and each fact
// is in one turn only.
func TestSoakLoad(t *testing.T) {
	storetest.SkipRace(t)
	const window = 32_000
	turns := storetest.Extent(*storetest.Soak, 1_600, 3_000, 3_000)
	w := soakLoad{Seed: 1, Window: window}
	seen := map[string]int{}
	places := map[string]int{}
	texts := map[string]int{} // request or fact -> its turn
	count := func(what string, is bool) {
		if is {
			seen[what]++
		}
	}
	for n := range turns {
		turn := w.turn(n)
		messages := []transcript.Message{turn.User}
		for i, s := range turn.Steps {
			a := turn.reply(i)
			if a.Text != s.Text || len(a.Calls) != len(s.Calls) || len(s.Calls) == 0 || len(s.Results) != len(s.Calls) {
				t.Fatalf("turn %d: the reply to step %d is %+v", n, i, a)
			}
			var said []transcript.Block
			if s.Text != "" {
				said = append(said, transcript.TextBlock{Text: s.Text})
			}
			results := transcript.Message{Role: transcript.RoleUser}
			for j, c := range s.Calls {
				said = append(said, c)
				results.Content = append(results.Content, s.Results[j].Content...)
			}
			messages = append(messages, transcript.Message{Role: transcript.RoleAssistant, Content: said}, results)
			count("parallel calls", len(s.Calls) > 1)
			for _, b := range results.Content {
				r := b.(transcript.ToolResultBlock)
				size := tokens.Estimator{}.Count("", nil, []transcript.Message{{Content: []transcript.Block{r}}})
				count("error", r.IsError)
				count("image in a result", len(r.Content) > 1)
				count("result larger than the window", size > window)
				count("base64", len(r.Text()) > 250 && !strings.ContainsAny(r.Text(), " \n"))
			}
		}
		if last := turn.reply(len(turn.Steps)); turn.Answer != "" {
			if last.Text != turn.Answer || len(last.Calls) > 0 {
				t.Fatalf("turn %d ends with %+v", n, last)
			}
			messages = append(messages, transcript.AssistantText(turn.Answer), transcript.UserText("go on"))
		}
		count("given up", turn.Answer == "")
		count("long", len(turn.Steps) >= 30)
		if v := wiretest.Validate(transcript.Request{Messages: messages}); len(v) > 0 {
			t.Fatalf("turn %d: %v", n, v)
		}

		all := allSaid(t, messages)
		if !strings.HasPrefix(turn.User.Text(), turn.Request) {
			t.Fatalf("turn %d: the user does not say %q", n, turn.Request)
		}
		texts[turn.Request] = n
		for _, f := range turn.Facts {
			require.Equal(t, n, f.Turn)
			require.Equal(t, 1, strings.Count(all, f.Text))
			if _, was := texts[f.Text]; was {
				t.Fatalf("turn %d: %+v was told before", n, f)
			}
			texts[f.Text] = n
			seen[fmt.Sprintf("fact of %s", f.Place)]++
			seen[string(f.Kind)]++
			places[fmt.Sprintf("%s of %s", f.Kind, f.Place)]++
		}
		for name, table := range map[string]*unicode.RangeTable{
			"Cyrillic": unicode.Cyrillic, "Chinese": unicode.Han, "Japanese": unicode.Hiragana,
			"Arabic": unicode.Arabic, "Hindi": unicode.Devanagari, "emoji": unicode.So,
		} {
			count(name, strings.ContainsFunc(turn.Request, func(r rune) bool { return unicode.Is(table, r) }))
		}
	}
	for _, what := range []string{
		"parallel calls", "error", "image in a result", "result larger than the window", "base64", "given up", "long",
		"Cyrillic", "Chinese", "Japanese", "Arabic", "Hindi", "emoji",
		"identifier", "path", "number", "decision",
		"fact of user", "fact of assistant", "fact of input", "fact of change", "fact of error", "fact of result",
	} {
		if seen[what] == 0 {
			t.Errorf("%d turns without %s", turns, what)
		}
	}
	t.Log(seen, places)
}

// allSaid is all the text of messages, as it is written.
func allSaid(t *testing.T, messages []transcript.Message) string {
	t.Helper()
	body, _, err := anthropic.Format{}.Request(transcript.Request{Messages: messages})
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(body, &v))
	var sb strings.Builder
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			sb.WriteString(v + "\n")
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return sb.String()
}
