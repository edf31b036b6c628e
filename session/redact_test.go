package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// masking returns options with a filter that masks texts.
func masking(hook func(context.Context, string) string) *session.Options {
	return &session.Options{Filters: []session.Filter{session.Redact(hook)}}
}

// No byte of a secret is written, whichever call brings it.
func TestRedactEverywhere(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, masking(redact.Secrets))
	ctx := t.Context()
	title := "about " + storetest.Secret
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Title: title})
	image := transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "https://u:" + storetest.Secret + "@h/x.png"}}
	document := transcript.DocumentBlock{Source: transcript.Source{Type: "text", MediaType: "text/plain", Data: storetest.Secret}, Title: storetest.Secret, Context: storetest.Secret}
	ext := transcript.Extra{"ext": json.RawMessage(`{"item":{"id":"i","text":"` + storetest.Secret + `"}}`), "cited_text": json.RawMessage(`"` + storetest.Secret + `"`)}
	storetest.Add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		transcript.TextBlock{Text: "Use " + storetest.Secret, Extra: ext},
		image, document,
		transcript.ContextBlock{URI: "x://a", Kind: "resource", Abstract: storetest.Secret},
		transcript.RawBlock{JSON: json.RawMessage(`{"type":"web_result","id":"r","deep":[{"text":"` + storetest.Secret + `"}]}`)},
	}})
	call := transcript.ToolCallBlock{ID: "c1", Name: "run", Input: json.RawMessage(`{"key": ["` + storetest.Secret + `", 1.50], "password":"swordfish", "n":12e3}`), Extra: ext}
	ids := storetest.Add(t, s, &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ThinkingBlock{Thinking: "the key is " + storetest.Secret, Signature: "sig"}, transcript.TextBlock{Text: "I run it."}, call,
	}}, API: "anthropic", Model: "m"}, transcript.WithApp(transcript.ToolResult("c1", "out: "+storetest.Secret), json.RawMessage(`{"note":"`+storetest.Secret+`"}`)))
	storetest.Add(t, s, transcript.Decision{Call: storetest.Add(t, s, storetest.Answer("", "c2"))[1], CallID: "c2", Verdict: transcript.Reject, By: "me", Reason: "because " + storetest.Secret})
	storetest.Add(t, s, transcript.UserText("cut"), &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "c3", Name: "run", Input: json.RawMessage(`{"password":"Hunter27`)},
	}}}, transcript.ToolError("c3", storetest.Secret))
	require.NoError(t, s.SetMeta(ctx, transcript.Meta{Title: &title}))
	_, err := s.Update(ctx, "set value", func(*session.View) ([]transcript.Item, error) {
		return []transcript.Item{transcript.Value{Name: "a", Value: json.RawMessage(`{"token":"` + storetest.Secret + `"}`)}}, nil
	})
	require.NoError(t, err)
	storetest.Add(t, s, transcript.Queued{Content: transcript.UserText("later " + storetest.Secret).Content})
	storetest.Add(t, s, transcript.Custom{Name: "note", Data: json.RawMessage(`{"deep":{"er":"` + storetest.Secret + `"}}`)}, transcript.System{Text: "You know " + storetest.Secret},
		transcript.Used{Contexts: []string{"x://" + storetest.Secret}, Skill: &transcript.SkillUse{URI: "s", Input: storetest.Secret, Output: storetest.Secret}}, transcript.Commit{N: 1, Abstract: storetest.Secret, Overview: storetest.Secret},
		transcript.Clip{Clips: []transcript.Clipping{{Entry: ids[len(ids)-1], Content: "cut: " + storetest.Secret}}})
	storetest.Add(t, s, transcript.Pin{Entry: ids[0], Text: "Use " + storetest.Secret})
	storetest.Talk(t, s, 0, 4)
	summary := storetest.WholeSummary + " " + storetest.Secret
	done, err := s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(summary))})
	require.NoError(t, err)
	require.Contains(t, done.Compaction.Summary, "[masked]")
	require.NotContains(t, storetest.JSON(t, done.Compaction), storetest.Secret)
	require.NoError(t, storetest.ErrOf(s.Fork(ctx, ids[0], &session.CreateOptions{Title: title})))
	queued := storetest.Standing(t, s).Queued
	require.Len(t, queued, 1)
	storetest.Add(t, s, transcript.Dequeued(queued[0].Message, queued[0].Entry))
	require.Equal(t, "about [masked]", storetest.Info(t, s).Title)
	storetest.Close(t, st)
	for _, word := range []string{storetest.Secret, "swordfish", "Hunter27"} {
		require.Empty(t, storetest.Grep(t, dir, word), word)
	}

	// Numbers, names, spaces and other non-texts are as they were.
	found := storetest.Grep(t, dir, `"input":{"key": ["[masked]", 1.50], "password":"[masked]", "n":12e3}`)
	require.NotEmpty(t, found)
	require.Empty(t, storetest.Grep(t, dir, "the key is"), "the reasoning of an answer that was changed")
	require.Empty(t, storetest.Grep(t, dir, `"sig"`))
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	h, err := storetest.Load(t, st, storetest.CLI).Health(ctx)
	require.NoError(t, err)
	require.Empty(t, h.Damage)
}

// A filter that fails ends a compaction with its error, and nothing is written.
func TestFilterRefusesASummary(t *testing.T) {
	refused := errors.New("refused")
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{{
		Write: func(_ context.Context, _ session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
			if _, ok := entries[0].Body.(transcript.Compaction); ok {
				return nil, refused
			}
			return entries, nil
		},
	}}})
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 4)
	end := storetest.Info(t, s).End
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
	require.ErrorIs(t, err, refused)
	require.Empty(t, done.Compaction.Summary, "observers and callers see what filters have seen")
	require.Equal(t, end, storetest.Info(t, s).End)
}

// A retry is the same append, whatever was redacted.
func TestRedactRetry(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), masking(redact.Secrets))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	for i := range 2 {
		done, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("Use "+storetest.Secret), storetest.Answer("password=Hunter27", "c"))
		require.NoError(t, err)
		require.Equal(t, i > 0, done.Repeated)
	}
	require.Contains(t, storetest.History(t, s), "Use [masked]")
}

// An answer that stays as it was keeps its reasoning, to the byte.
func TestRedactLeavesAnswers(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), masking(redact.Secrets))
	defer storetest.Close(t, st)
	plain := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, plain)
	resp := &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ThinkingBlock{Thinking: "hm", Signature: "sig-" + storetest.Secret},
		transcript.TextBlock{Text: "fine"},
		transcript.ToolCallBlock{ID: "sk-ant-api03-aB3dE5gH7jK9mN1pQ3sT5vW7y", Name: "ghp_tool", Input: json.RawMessage(`{ "a" : "\u0041" }`)},
	}}, API: "anthropic", Model: "m", RequestID: storetest.Secret}
	var histories []string
	for _, one := range []*session.Store{st, plain} {
		s := storetest.Load(t, one, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("go"), resp)
		histories = append(histories, storetest.History(t, s))
	}
	require.Equal(t, histories[1], histories[0])
	require.Contains(t, histories[0], storetest.Secret)
}

// The hook is a function of the application, which may do anything to a text.
func TestRedactAnyHook(t *testing.T) {
	for name, hook := range map[string]func(context.Context, string) string{
		"empty":   func(context.Context, string) string { return "" },
		"quotes":  func(_ context.Context, s string) string { return strings.ReplaceAll(s, "a", "\"\\\n\x00") },
		"invalid": func(_ context.Context, s string) string { return strings.ReplaceAll(s, "a", "\xff") },
	} {
		st := session.OpenDriver(memdriver.New(nil), masking(hook))
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("a banana"), storetest.Answer("a", "c"), transcript.ToolResult("c", "abc"), transcript.UserText("a"))
		h, err := s.Health(t.Context())
		require.NoError(t, err, name)
		require.Empty(t, h.Damage, name)
		storetest.Close(t, st)
	}
}

// The names of tools stay, so a text names callable tools in the same way as the request
// that defines them.
func TestRedactKeepsToolNames(t *testing.T) {
	hook := func(_ context.Context, text string) string { return strings.ReplaceAll(text, "secret", "[masked]") }
	st := session.OpenDriver(memdriver.New(nil), masking(hook))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.System{Text: "a secret"}, transcript.Tools{Names: []string{"read_secret"}})
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a [masked]\n\n[Only these tools may be called from here on]\nread_secret", h.Prompt)
}
