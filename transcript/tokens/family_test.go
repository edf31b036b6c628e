package tokens_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

func TestFor(t *testing.T) {
	for model, want := range map[string]tokens.Family{
		"":                                 tokens.Default,
		"gpt-4o-mini":                      tokens.O200k,
		"openai/gpt-4.1":                   tokens.O200k,
		"gpt-5-codex":                      tokens.O200k,
		"o3":                               tokens.O200k,
		"openai/o4-mini":                   tokens.O200k,
		"gpt-4-turbo":                      tokens.Cl100k,
		"gpt-3.5-turbo-0125":               tokens.Cl100k,
		"claude-3-5-sonnet-20241022":       tokens.Claude,
		"us.anthropic.claude-opus-4-1-v1":  tokens.Claude,
		"claude-sonnet-4-20250514":         tokens.Claude,
		"anthropic/claude-sonnet-4.6":      tokens.Claude,
		"claude-opus-4-7":                  tokens.ClaudeX,
		"claude-sonnet-5-5":                tokens.ClaudeX,
		"Claude":                           tokens.ClaudeX,
		"models/gemini-2.5-pro":            tokens.Gemini,
		"deepseek-chat":                    tokens.DeepSeek,
		"meta-llama/Llama-3.3-70B":         tokens.Llama,
		"gpt-6.2-sol":                      tokens.O200k,
		"codex-mini-latest":                tokens.O200k,
		"x-ai/grok-4.5":                    tokens.O200k,
		"moonshotai/kimi-k3":               tokens.DeepSeek,
		"glm-5.2":                          tokens.DeepSeek,
		"llama-2-7b":                       tokens.Cautious,
		"o":                                tokens.Cautious,
		"odd":                              tokens.Cautious,
		"claude-99999999999999999999-0.5.": tokens.ClaudeX,
	} {
		if got := tokens.For(model); got != (tokens.Estimator{Family: want}) {
			t.Errorf("For(%q) is %v, want the family %d", model, got, want)
		}
	}
}

func TestFamilies(t *testing.T) {
	english, russian := strings.Repeat("The quick brown fox. ", 200), strings.Repeat("Разговоры хранятся в файлах. ", 200)
	percent := func(f tokens.Family, text string) int {
		return (100*tokens.Estimator{Family: f}.Text(text) + 50) / est.Text(text)
	}
	for _, tt := range []struct {
		family           tokens.Family
		english, russian int // percent of the default
	}{{tokens.O200k, 100, 100}, {tokens.Claude, 112, 112}, {tokens.ClaudeX, 154, 105}} {
		if e, r := percent(tt.family, english), percent(tt.family, russian); e != tt.english || r < tt.russian-5 || r > tt.russian+5 {
			t.Errorf("family %d: English is %d %%, Russian %d %%, want %d and %d", tt.family, e, r, tt.english, tt.russian)
		}
	}
	require.Equal(t, (tokens.Estimator{Family: tokens.Cautious}).Text(english), (tokens.Estimator{Family: 200}).Text(english))
	if got, want := (tokens.Estimator{Factor: 1.1}).Text(english), est.Text(english)*110/100; got < want || got > want+2 {
		t.Errorf("factor 1.1 makes %d tokens, want %d", got, want)
	}
	tools := []transcript.Tool{{Name: "f", InputSchema: json.RawMessage(`{}`)}}
	if n := (tokens.Estimator{Family: tokens.Claude}).Count("", tools, nil); n < 360 || n > 370 {
		t.Errorf("a tool of Claude's is %d tokens", n)
	}
}
