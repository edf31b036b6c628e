package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
)

const tooLong = "prompt is too long: 3000 tokens > 2000 maximum"

// The errors of SDKs, by the shape of their types.
type (
	// A status in a field and the body in a method. Error panics on a value
	// without its request.
	rawError struct {
		StatusCode int
		Request    *http.Request
		Response   *http.Response
		raw        string
	}

	// Fields only.
	fieldError struct {
		Code, Message, Param, Type string
		StatusCode                 int
		err                        error
	}

	// A value, with a number as code and a name as status.
	valueError struct {
		Code    int
		Message string
		Status  string
		Details []map[string]any
	}

	// Parts in pointers, and methods for them.
	pointerError struct{ Message *string }

	// A code of any type, and an inner error.
	anyCodeError struct {
		Code           any
		Message        string
		HTTPStatusCode int
		InnerError     *struct{ Code string }
	}

	bodyError struct {
		HTTPStatus string
		Err        error
		Body       []byte
	}

	embeddingError struct{ fieldError }

	responseError struct{ RawResponse *http.Response }

	loopError struct{ text string }

	forkError struct{ text string }

	timeoutError struct{ error }

	wrapError struct{ err error }

	wrapped struct {
		text string
		err  error
	}
)

func (e wrapped) Error() string { return e.text }

func (e wrapped) Unwrap() error { return e.err }

func (e *rawError) Error() string { return e.Request.Method + ": " + e.raw }

func (e *rawError) RawJSON() string { return e.raw }

func (e *fieldError) Error() string { return "call failed" }

func (e *fieldError) Unwrap() error { return e.err }

func (e valueError) Error() string { return fmt.Sprintf("Error %d, Status: %s", e.Code, e.Status) }

func (e *pointerError) Error() string        { return "api error" }
func (e *pointerError) ErrorCode() string    { return "ValidationException" }
func (e *pointerError) ErrorMessage() string { return *e.Message }
func (e *pointerError) HTTPStatusCode() int  { return 400 }

func (e *anyCodeError) Error() string   { return "x" }
func (e *bodyError) Error() string      { return "x" }
func (e *bodyError) Unwrap() error      { return e.Err }
func (e *embeddingError) Error() string { return "x" }
func (e *responseError) Error() string  { return "x" }

func (e *loopError) Error() string { return e.text }
func (e *loopError) Unwrap() error { return e }

func (e *forkError) Error() string   { return e.text }
func (e *forkError) Unwrap() []error { return []error{e, e, e} }

func (e *wrapError) Error() string { return "call failed" }
func (e *wrapError) Unwrap() error { return e.err }

func (e timeoutError) Timeout() bool { return true }

func TestClassifyErrors(t *testing.T) {
	message := tooLong
	tests := []struct {
		name string
		err  error
		want guard.Kind
	}{
		{"nil", nil, guard.NotOverflow},
		{"wrapped", fmt.Errorf("turn 3: %w", errors.New(tooLong)), guard.Tokens},
		{"joined", errors.Join(errors.New("close failed"), errors.New(tooLong)), guard.Tokens},
		{"joined with a rate limit", errors.Join(errors.New("429 rate limit reached"), errors.New(tooLong)), guard.Tokens},
		{"joined with a cancellation", errors.Join(errors.New(tooLong), context.Canceled), guard.NotOverflow},
		{"two verbs", fmt.Errorf("%w: %w", errors.New("provider"), errors.New(tooLong)), guard.Tokens},
		{"text around branches", fmt.Errorf("%w: "+tooLong+": %w", errors.New("a"), errors.New("b")), guard.Tokens},
		{"wrapped cancellation", fmt.Errorf(tooLong+": %w", context.Canceled), guard.NotOverflow},
		{"deadline", fmt.Errorf(tooLong+": %w", context.DeadlineExceeded), guard.NotOverflow},
		{"file deadline", fmt.Errorf(tooLong+": %w", os.ErrDeadlineExceeded), guard.NotOverflow},
		{"timeout", timeoutError{errors.New(tooLong)}, guard.NotOverflow},

		{"raw JSON", &rawError{StatusCode: 400, raw: `{"type":"error","error":{"type":"invalid_request_error","message":"` + tooLong + `"}}`}, guard.Tokens},
		{"raw JSON, bytes", &rawError{StatusCode: 413, raw: `{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`}, guard.Bytes},
		{"status of a response", &rawError{Response: &http.Response{StatusCode: 413}}, guard.Bytes},
		{"status of a raw response", &responseError{&http.Response{StatusCode: 413}}, guard.Bytes},
		{"rate limit by status", &rawError{StatusCode: 429, raw: `{"error":{"message":"` + tooLong + `"}}`}, guard.NotOverflow},
		{"code in a field", &fieldError{Code: "context_length_exceeded", StatusCode: 400}, guard.Tokens},
		{"message in a field", &fieldError{Message: tooLong}, guard.Tokens},
		{"type in a field", &fieldError{Type: "rate_limit_error", Message: tooLong}, guard.NotOverflow},
		{"embedded", &embeddingError{fieldError{Message: tooLong}}, guard.Tokens},
		{"value", valueError{Code: 400, Status: "INVALID_ARGUMENT", Message: "The input token count (3000) exceeds the maximum number of tokens allowed (2000)."}, guard.Tokens},
		{"value, quota", valueError{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: tooLong}, guard.NotOverflow},
		{"value, details", valueError{Message: "no", Details: []map[string]any{{"reason": "CONTEXT_LENGTH_EXCEEDED"}}}, guard.Tokens},
		{"value, details with a text", valueError{Message: "no", Details: []map[string]any{{"error_message": tooLong, "input": "rate limit"}}}, guard.Tokens},
		{"methods", &pointerError{&message}, guard.Tokens},
		{"any code", &anyCodeError{Code: "context_length_exceeded"}, guard.Tokens},
		{"any code, number", &anyCodeError{Code: 413.0}, guard.Bytes},
		{"inner code", &anyCodeError{InnerError: &struct{ Code string }{"context_length_exceeded"}}, guard.Tokens},
		{"body", &bodyError{Body: []byte(`[{"error":{"code":400,"message":"` + tooLong + `","status":"INVALID_ARGUMENT"}}]`)}, guard.Tokens},
		{"status line", &bodyError{HTTPStatus: "413 Request Entity Too Large"}, guard.Bytes},
		{"error of this module", wire.NewAPIError(400, []byte(`{"error":{"type":"invalid_request_error","message":"`+tooLong+`"}}`)), guard.Tokens},
		{"error of this module, 413", &wire.APIError{Status: 413}, guard.Bytes},

		{"typed nil", (*fieldError)(nil), guard.NotOverflow},
		{"wrapped typed nil", fmt.Errorf("a: %w", (*rawError)(nil)), guard.NotOverflow},
		{"wraps itself", &loopError{tooLong}, guard.Tokens},
		{"wraps itself often", &forkError{tooLong}, guard.Tokens},
		{"huge", errors.New(tooLong + strings.Repeat(" x", 1<<20)), guard.Tokens},
		{"huge, at the end", errors.New(strings.Repeat(`{"a`, 1<<20) + tooLong), guard.Tokens},
		{"deep", errors.New(strings.Repeat(`{"error":`, 20000) + `"` + tooLong), guard.Tokens},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := guard.Classify(tt.err)
			require.Equal(t, tt.want, got.Kind, got.Rule)
		})
	}
}

// The innermost error decides: the words and numbers of its wrappers do not
// change its result, and count only if it is inconclusive.
func TestClassifyInnermostFirst(t *testing.T) {
	inner := errors.New(tooLong)
	tests := []struct {
		name string
		err  error
		want guard.Overflow
	}{
		{"the words of a wrapper", fmt.Errorf("with max_tokens 8192 at most: %w", inner), guard.Overflow{Kind: guard.Tokens, Prompt: 3000, Limit: 2000, Rule: "over_limit"}},
		{"the numbers of a wrapper", fmt.Errorf("StatusCode: 400, (2013): %w", errors.New("context window exceeds limit")), guard.Overflow{Kind: guard.Tokens, Rule: "window_exceeded"}},
		{"an inner refusal", fmt.Errorf(tooLong+": %w", errors.New("rate limit reached")), guard.Overflow{Rule: "rate_limit"}},
		{"an inner error that says nothing", fmt.Errorf(tooLong+": %w", errors.New("unexpected EOF")), guard.Overflow{Kind: guard.Tokens, Prompt: 3000, Limit: 2000, Rule: "over_limit"}},
		{"the parts of both", &fieldError{StatusCode: 413, err: errors.New("no")}, guard.Overflow{Kind: guard.Bytes, Rule: "status 413"}},
		{"a code around a text", &fieldError{Code: "context_length_exceeded", err: errors.New("no")}, guard.Overflow{Kind: guard.Tokens, Rule: "code context_length_exceeded"}},
		{"branches", fmt.Errorf("max_tokens 8192 exceeds the limit: %w, %w", errors.New("closed"), inner), guard.Overflow{Kind: guard.Tokens, Prompt: 3000, Limit: 2000, Rule: "over_limit"}},
		{"branches without a word", fmt.Errorf(tooLong+": %w, %w", errors.New("a"), errors.New("b")), guard.Overflow{Kind: guard.Tokens, Prompt: 3000, Limit: 2000, Rule: "over_limit"}},
		{"the first refusal", errors.Join(errors.New("closed"), errors.New("insufficient balance of credits: quota"), errors.New("rate limit")), guard.Overflow{Rule: "quota"}},
	}
	for _, tt := range tests {
		if got := guard.Classify(tt.err); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Classify looks at no more than a hundred errors of a tree.
func TestClassifyDepth(t *testing.T) {
	deep := func(n int) error {
		err := errors.New("context_length_exceeded")
		for range n {
			err = &wrapError{err}
		}
		return err
	}
	require.Equal(t, guard.Tokens, guard.Classify(deep(50)).Kind)
	require.Equal(t, guard.NotOverflow, guard.Classify(deep(200)).Kind)
}

// The rules look at a chain of long errors only as often as one of them adds
// something, within the bounds for reading texts.
func TestClassifyLongChain(t *testing.T) {
	for _, wrap := range []func(i int, err error) error{
		func(i int, err error) error {
			return fmt.Errorf("call %d %s: %w", i, strings.Repeat(fmt.Sprintf("says %d ", i), 500), err)
		},
		func(i int, err error) error {
			return wrapped{fmt.Sprintf("call %d %s", i, strings.Repeat(fmt.Sprintf("says %d ", i), 500)), err}
		},
		func(i int, err error) error { return wrapped{"once more", err} },
	} {
		err := error(wrapped{"no", nil})
		for i := range 90 {
			err = wrap(i, err)
		}
		looked := 0
		g := &guard.Guard{Patterns: []guard.Pattern{{Match: func(int, []string, string) (guard.Kind, bool) {
			looked++
			return guard.NotOverflow, false
		}}}}
		require.Equal(t, guard.Overflow{Rule: "none"}, g.Classify(err))
		require.Equal(t, true, looked > 0 && looked < 10, "looked %d times", looked)
	}
}

// Bodies are read anywhere in a text, and only their messages.
func TestClassifyBodies(t *testing.T) {
	inner := `{"error":{"message":"` + tooLong + `","code":400}}`
	quoted, err := json.Marshal(inner)
	require.NoError(t, err)
	type test struct {
		name, text string
		want       guard.Kind
	}
	tests := []test{
		{"after a status", "400 Bad Request " + inner, guard.Tokens},
		{"array", "[" + inner + "]", guard.Tokens},
		{"in a message", `{"error":{"message":` + string(quoted) + `}}`, guard.Tokens},
		{"in metadata", `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":` + string(quoted) + `}}}`, guard.Tokens},
		{"quoted", "body: " + string(quoted), guard.Tokens},
		{"python", `Error code: 400 - {'error': {'message': '` + tooLong + `', 'code': None}}`, guard.Tokens},
		{"event", "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"no\"}}}\n\n", guard.Tokens},
		{"status code of a body", `{"base_resp":{"status_code":1039,"status_msg":"token limit"}}`, guard.Tokens},
		{"1039 of somebody else", `{"code":1039,"message":"no such user"}`, guard.NotOverflow},
		{"stop reason", `{"type":"message_delta","stop_reason":"model_context_window_exceeded"}`, guard.StopReason},
		{"quotes the request", `{"error":{"message":"field required"},"input":"` + tooLong + `","messages":[{"content":"context_length_exceeded"}]}`, guard.NotOverflow},
		{"quotes the request, and a number that no float64 holds", `400: {"error":{"message":"bad thing","type":"x"},"request":{"prompt":"` + tooLong + `","seed":1e400}}`, guard.NotOverflow},
		{"quotes a value", `{"detail":[{"type":"missing","msg":"Field required","input":{"message":"` + tooLong + `"}}]}`, guard.NotOverflow},
		{"in an attempt", `{"error":{"message":"all failed","attempts":[{"details":` + inner + `}]}}`, guard.Tokens},
		{"address", `Post "https://a.example/rate-limit/quota": ` + tooLong, guard.Tokens},
		{"address only", `404 https://a.example/context_length_exceeded`, guard.NotOverflow},
		{"type in a namespace", `{"__type":"com.amazon.coral#ThrottlingException","message":"` + tooLong + `"}`, guard.NotOverflow},
		{"500 with a type", `500 {"error":{"code":500,"type":"exceed_context_size_error","message":"no","n_prompt_tokens":3000,"n_ctx":2000}}`, guard.Tokens},
	}
	for name := range strings.FieldsSeq("messages history input contents content prompt system instructions tools request choices output candidates arguments properties functions chat_history documents payload response_format") {
		text := `{"error":{"message":"no"},"data":{"` + name + `":[{"message":{"error":"` + tooLong + `"}}]}}`
		tests = append(tests, test{"quotes " + name, text, guard.NotOverflow})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := guard.Classify(parts{Message: tt.text})
			require.Equal(t, tt.want, got.Kind, got.Rule)
			if strings.Contains(tt.text, "3000") && got.Kind == guard.Tokens && (got.Prompt != 3000 || got.Limit != 2000) {
				t.Errorf("sizes %d, %d, want 3000, 2000", got.Prompt, got.Limit)
			}
		})
	}
}

// FuzzClassify checks what holds of any text.
func FuzzClassify(f *testing.F) {
	for _, tt := range classifyTests {
		f.Add(tt.text)
	}
	f.Add(`400 {"error":{"message":"{\"error\":{}}","n_ctx":-1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := guard.Classify(errors.New(text))
		require.Equal(t, got, guard.Classify(errors.New(text)))
		if got.Prompt < 0 || got.Limit < 0 || got.Output < 0 {
			t.Errorf("a size below zero: %+v", got)
		}
		require.NotEmpty(t, got.Rule, "no rule")
		if got.Kind == guard.NotOverflow && (got != guard.Overflow{Rule: got.Rule}) {
			t.Errorf("sizes without an overflow: %+v", got)
		}
		if got.AtLeast && got.Prompt == 0 {
			t.Errorf("a lower bound of nothing: %+v", got)
		}
		if got.Kind == guard.TokensPlusOutput && got.Limit > 0 && got.Prompt > got.Limit {
			t.Errorf("the prompt alone is too long: %+v", got)
		}
		if got.Limit > 0 && got.Limit < 256 && got.Kind != guard.Part && got.Kind != guard.Messages {
			t.Errorf("no model has such a window: %+v", got)
		}
		_ = guard.Classify(parts{len(text), text, text, text})
	})
}
