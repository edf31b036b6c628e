package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// If a decider fails, or gives an impossible answer, words decide.
func TestDeciders(t *testing.T) {
	for name, decide := range map[string]deciderFunc{
		"fails":   func(context.Context, Candidate, []Memory) (Decision, error) { return Decision{}, errors.New("down") },
		"nothing": func(context.Context, Candidate, []Memory) (Decision, error) { return Decision{}, nil },
		"other": func(context.Context, Candidate, []Memory) (Decision, error) {
			return Decision{Action: Merge, Into: "x"}, nil
		},
		"huge": func(_ context.Context, _ Candidate, s []Memory) (Decision, error) {
			return Decision{Action: Merge, Text: Text{Abstract: "x", Content: strings.Repeat("x", maxText)}}, nil
		},
		"no text":   func(context.Context, Candidate, []Memory) (Decision, error) { return Decision{Action: Merge}, nil },
		"no choice": func(context.Context, Candidate, []Memory) (Decision, error) { return Decision{Action: Create}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir, c := t.TempDir(), newTalk(t, "anna")
			ex := &script{found: map[string][]Candidate{
				"one": {candidate(profile, "", "Is Anna", "")}, "two": {candidate(profile, "", "Likes tea", "")},
			}}
			m := openStore(t, dir, &Options{Extractor: ex, Decider: decide})
			for _, text := range []string{"one", "two"} {
				_, err := m.Extract(t.Context(), c.Session, c.commit(text))
				require.NoError(t, err)
			}
			require.Equal(t, map[string]string{"owners/anna/user/memories/.overview.md": "Is Anna; Likes tea\n"}, files(t, dir))
		})
	}
}

// Candidates that were paid for count, even if late; then words decide.
func TestLate(t *testing.T) {
	dir, c := t.TempDir(), newTalk(t, "anna")
	m := openStore(t, dir, nil)
	learn(t, m, c, candidate(preferences, "drinks", "Likes tea", ""))
	m.opts.Extractor = extractorFunc(func(ctx context.Context, _ Input) ([]Candidate, error) {
		<-ctx.Done()
		return []Candidate{candidate(preferences, "drinks", "Likes coffee", "")}, nil
	})
	m.opts.Timeout = time.Millisecond
	calls := 0
	m.opts.Decider = deciderFunc(func(ctx context.Context, c Candidate, similar []Memory) (Decision, error) {
		calls++ // under the lock there is new time, if memories changed
		return lexical{}.Decide(ctx, c, similar)
	})
	r, err := m.Extract(t.Context(), c.Session, c.commit("hi"))
	require.NoError(t, err)
	require.Equal(t, transcript.ExtractedCount{Merged: 1}, r.Counts["preferences"])
	require.Zero(t, calls)
	require.Contains(t, r.Outcomes[0].Reason, "decided by words")
}

// Two commits that learn the same at once are merged, whether or not the memory
// exists before.
func TestAtOnce(t *testing.T) {
	join := deciderFunc(func(_ context.Context, c Candidate, similar []Memory) (Decision, error) {
		return Decision{Action: Merge, Text: Text{Abstract: similar[0].Abstract + ", " + c.Abstract}}, nil
	})
	for _, there := range []bool{false, true} {
		dir, c := t.TempDir(), newTalk(t, "anna")
		m := openStore(t, dir, &Options{Decider: join})
		if there {
			learn(t, m, c, candidate(preferences, "drinks", "Likes water", ""))
		}
		names := []string{c.commit("tea"), c.commit("milk")}
		var both sync.WaitGroup
		both.Add(2)
		m.announce = func(step string) {
			if step == "planned" {
				both.Done()
				both.Wait()
			}
		}
		m.opts.Extractor = extractorFunc(func(_ context.Context, in Input) ([]Candidate, error) {
			return []Candidate{candidate(preferences, "drinks", in.Messages[0].Text(), "")}, nil
		})
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				if _, err := m.Extract(context.Background(), c.Session, name); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		list := memories(t, m, anna)
		require.Len(t, list, 1)
		require.Contains(t, list[0].Abstract, "tea")
		require.Contains(t, list[0].Abstract, "milk")
		require.Equal(t, there, strings.HasPrefix(list[0].Abstract, "Likes water, "))
		require.Len(t, list[0].Sources, len(c.chapters()))
	}
}

// A decision is made anew if a person then changes its memory.
func TestPersonMeanwhile(t *testing.T) {
	dir, c := t.TempDir(), newTalk(t, "anna")
	m := openStore(t, dir, nil)
	learn(t, m, c, candidate(preferences, "drinks", "Likes tea", ""))
	name := filepath.Join(dir, "owners/anna/user/memories/preferences/drinks.md")
	for i, text := range []string{"Likes green tea\n", "", "Likes water\n"} {
		m.announce = func(step string) {
			if step != "diff" {
				return
			}
			if text == "" {
				require.NoError(t, os.Remove(name))
			} else {
				require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
			}
		}
		r := learn(t, m, c, candidate(preferences, "drinks", fmt.Sprint("Likes number ", i), ""))
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Contains(t, string(data), strings.TrimSpace(text))
		require.Contains(t, string(data), fmt.Sprint("Likes number ", i))
		var d diff
		_, err = m.readJSON(t.Context(), r.Diff, &d)
		require.NoError(t, err)
		require.True(t, d.Done)
		require.Equal(t, string(data), d.steps()[0].After)
	}
	m.announce = func(step string) {
		if step == "diff" { // a file with the name that the diff gives a new one
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(name), "cats.md"), []byte("Has two cats\n"), 0o600))
		}
	}
	r := learn(t, m, c, candidate(preferences, "cats", "The cats are Mia and Leo", ""))
	require.Equal(t, transcript.ExtractedCount{Merged: 1}, r.Counts["preferences"])
	require.Equal(t, "Has two cats\n\n## Content\n\nLater:\n\nThe cats are Mia and Leo\n", files(t, dir)["owners/anna/user/memories/preferences/cats.md"])
}

// A full profile continues to learn: its oldest lines are dropped. A memory that
// a person edited is never shortened.
func TestFull(t *testing.T) {
	dir, c := t.TempDir(), newTalk(t, "anna")
	m := openStore(t, dir, nil)
	for i := range 5 {
		r := learn(t, m, c, candidate(profile, "", fmt.Sprint("Fact ", i), fmt.Sprint("It is ", i, strings.Repeat(fmt.Sprintf("\nword%d", i), 1000))))
		require.Equal(t, 1, r.Counts["profile"].Added+r.Counts["profile"].Merged)
	}
	mem := memories(t, m, anna)[0]
	require.LessOrEqual(t, mem.size(), maxText)
	require.Contains(t, mem.Content, "It is 4")
	require.Equal(t, 1, strings.Count(mem.Content, earlierLine))
	require.Equal(t, "Fact 0; Fact 1; Fact 2; Fact 3; Fact 4", mem.Abstract)

	file := filepath.Join(dir, mem.file)
	require.NoError(t, os.WriteFile(file, []byte("Mine\n\n"+strings.Repeat("mine ", maxText/5-2)), 0o600))
	r := learn(t, m, c, candidate(profile, "", "Fact 5", "It is five"))
	require.Equal(t, transcript.ExtractedCount{Failed: 1}, r.Counts["profile"])
	require.Contains(t, r.Outcomes[0].Reason, "shorten the file")
	require.True(t, strings.HasPrefix(files(t, dir)[mem.file], "Mine\n"))
}

// A candidate is compared with the five memories of its category whose words are most like
// its words. The memories of its topic come first.
func TestSimilar(t *testing.T) {
	v := newView()
	for id, m := range []Memory{
		{Topic: "tea", Text: Text{Abstract: "green"}},
		{Topic: "drinks", Text: Text{Abstract: "likes green tea in the morning and at noon"}},
		{Topic: "other", Text: Text{Abstract: "likes green tea"}},
		{Topic: "far", Text: Text{Abstract: "one two three four five six seven eight nine ten eleven tea"}},
		{Topic: "cold", Text: Text{Abstract: "likes green"}},
		{Topic: "wet", Text: Text{Abstract: "likes"}},
		{Topic: "hot", Text: Text{Abstract: "green"}},
		{Topic: "likes", Category: entities, Text: Text{Abstract: "likes green tea"}},
	} {
		m.ID = fmt.Sprint(id)
		m.Category = cmp.Or(m.Category, preferences)
		v.put(m)
	}
	ids := func(c Candidate) (list []string) {
		for _, m := range v.similar(c) {
			list = append(list, m.ID)
		}
		return list
	}
	require.Equal(t, []string{"0", "2", "4", "1", "5"}, ids(candidate(preferences, "tea", "likes green tea", "")))
	require.Equal(t, []string{"6"}, ids(candidate(preferences, "hot", "air", "")))
	require.Empty(t, ids(candidate(preferences, "none", "eleven words of zinc", "")))
}
