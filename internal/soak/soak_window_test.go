package soak_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript/tokens"
)

// refusals turn the refusal of a strict model into the words that providers use
// for a prompt that is too long, with its figures or without.
var refusals = []func(e *wire.APIError, prompt, window int) *wire.APIError{
	func(e *wire.APIError, _, _ int) *wire.APIError { return e },
	func(_ *wire.APIError, prompt, window int) *wire.APIError {
		return &wire.APIError{Status: http.StatusBadRequest, Type: "context_length_exceeded", Message: fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", window, prompt)}
	},
	func(_ *wire.APIError, prompt, window int) *wire.APIError {
		return &wire.APIError{Status: http.StatusBadRequest, Type: "INVALID_ARGUMENT", Message: fmt.Sprintf(
			"The input token count (%d) exceeds the maximum number of tokens allowed (%d).", prompt, window)}
	},
	func(_ *wire.APIError, _, _ int) *wire.APIError {
		return &wire.APIError{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "prompt is too long"}
	},
	func(_ *wire.APIError, _, _ int) *wire.APIError {
		return &wire.APIError{Status: http.StatusBadRequest, Type: "ValidationException", Message: "Input is too long for requested model."}
	},
	func(_ *wire.APIError, _, _ int) *wire.APIError {
		return &wire.APIError{Status: http.StatusRequestEntityTooLarge, Type: "request_too_large", Message: "Request exceeds the maximum size"}
	},
}

// vocabularies are the known vocabularies that models count by.
var vocabularies = []tokens.Family{tokens.Default, tokens.Gemini, tokens.DeepSeek, tokens.ClaudeX, tokens.Llama, tokens.Cl100k}

// TestSoakVocabularies runs conversations with models whose window is known and
// that count by another vocabulary than the estimate. The guard learns from the
// reported usage, so overflows are rare although the script of the conversation
// changes.
func TestSoakVocabularies(t *testing.T) {
	t.Parallel()
	turns := storetest.Extent(*storetest.Soak, 9, 120, 1_500)
	for _, family := range vocabularies[1:] {
		k := newSoak(t, 32_000)
		k.model.Counter = tokens.Estimator{Family: family}
		k.begin()
		k.run(turns, nil)
		r := &k.report
		t.Logf("family %d: %d of %d requests did not fit, %d recovered, %d compactions, at least %.0f %% of the window between two",
			family, r.Asked.Overflows, r.Asked.Requests, r.Recovered, r.Compactions, 100*r.Closest)
		storetest.CheckAccepted(t, k.model.Model)
		if r.Recovered < r.Asked.Overflows || r.RequestsLost > 0 || (r.Asked.Overflows-1)*200 > r.Asked.Requests {
			t.Errorf("family %d\n%s", family, r)
		}
	}
}

// TestSoakHiddenWindow runs sessions with models whose windows are unknown. Each
// window is smaller than the one before, and the models count by other
// vocabularies than the estimate. Every overflow is recovered inside its Do.
func TestSoakHiddenWindow(t *testing.T) {
	t.Parallel()
	sessions, least := storetest.Extent(*storetest.Soak, 36, 30, 72), storetest.Extent(*storetest.Soak, 5, 100, 200)
	step := storetest.Extent(*storetest.Soak, 13, 1, 1) // 13: few vocabularies, each kind of refusal
	all := &soakReport{Name: t.Name(), Closest: 1, Recall: map[string]*carriers{}}
	for i := 0; i < sessions; i += step {
		family := vocabularies[i/len(refusals)%len(vocabularies)]
		say := refusals[i%len(refusals)]
		k := newSoak(t, 0)
		k.load.Seed, k.load.Window = uint64(i), 24_000
		if i%len(refusals) > 2 {
			// Without figures a Do halves the history once: additions at a time
			// must not exceed the window.
			k.load.Window = 6_000
		}
		k.g.Window = 0
		k.opts.Compact.Trigger = compact.Trigger{}
		k.opts.Compact.Summarizer = k.summarizer([]string{"extractive", "lossy", "adversarial"}[i%3])
		k.model.Counter = tokens.Estimator{Family: family}
		k.model.ReserveOutput = i%len(refusals) == 0 // other refusals do not mention it
		k.refusal = func(err error) error {
			e, ok := errors.AsType[*wire.APIError](err)
			over := slices.DeleteFunc(k.model.Requests(), func(r guardtest.Recorded) bool { return r.Outcome != guardtest.Overflow })
			if !ok || len(over) == 0 {
				return err
			}
			return say(e, over[len(over)-1].Tokens, k.model.Window)
		}
		k.begin()
		for j, window := range []int{48_000, 32_000, 24_000, 16_000, 12_000} {
			k.window, k.model.Window = window, window
			k.g.Model = fmt.Sprint("model-", j)
			k.run(storetest.Extent(*storetest.Soak, 9, 14, 14), nil)
		}
		storetest.CheckAccepted(t, k.model.Model)
		r := &k.report
		if r.Recovered < r.Asked.Overflows || r.Lost > 0 || r.RequestsLost > 0 {
			t.Errorf("session %d: %d overflows, %d calls made again, %d turns failed, %d requests of the user lost", i, r.Asked.Overflows, r.Recovered, r.Lost, r.RequestsLost)
		}
		if r.Summarizer.Invalid > 0 || r.Summarizer.Overflows > 0 {
			t.Errorf("session %d: %d requests of the summarizer were invalid, %d too long", i, r.Summarizer.Invalid, r.Summarizer.Overflows)
		}
		all.merge(r)
	}
	t.Logf("%d sessions\n%s", sessions, all)
	if all.Asked.Overflows < least {
		t.Errorf("%d overflows, want %d", all.Asked.Overflows, least)
	}
}
