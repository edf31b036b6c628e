package guard_test

import (
	"errors"
	"testing"

	"github.com/convolog/convolog/guard"
)

// The errors are of many providers, as short as they can be, and those that
// only look like an overflow. Sizes are written prompt, limit, output.
var classifyTests = []struct {
	text  string
	kind  guard.Kind
	sizes [3]int
}{
	// Tokens, with sizes.
	{"prompt is too long: 211,353 tokens > 200,000 maximum", guard.Tokens, [3]int{211353, 200000, 0}},
	{"This model's maximum context length is 8192 tokens. However, your messages resulted in over 9000 tokens.", guard.Tokens, [3]int{9000, 8192, 0}},
	{"You passed 8193 input tokens and requested 1 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8191 tokens. Please reduce the length of the input prompt.", guard.Tokens, [3]int{8193, 8192, 1}},
	{"number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.", guard.Tokens, [3]int{204703, 202752, 0}},
	{"Requested 319487 tokens, max 300000 tokens per request", guard.Tokens, [3]int{319487, 300000, 0}},
	{"Requested tokens (5123) exceed context window of 4096", guard.Tokens, [3]int{5123, 4096, 0}},
	{"Number of tokens (757) exceeded maximum context length (512).", guard.Tokens, [3]int{757, 512, 0}},
	{"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length", guard.Tokens, [3]int{65673, 32768, 0}},
	{"The prompt is too long: 9047, model maximum context length: 8191", guard.Tokens, [3]int{9047, 8191, 0}},
	{"Unable to submit request because the input token count is 33000 but model only supports up to 32768. Reduce the input token count and try again.", guard.Tokens, [3]int{33000, 32768, 0}},
	{"The decoder prompt (length 40000) is longer than the maximum model length of 32768.", guard.Tokens, [3]int{40000, 32768, 0}},
	{"Input prompt (36893 tokens) is too long and exceeds limit of 32768", guard.Tokens, [3]int{36893, 32768, 0}},
	{"Prompt length 40000 is greater than max_seq_len 32768", guard.Tokens, [3]int{40000, 32768, 0}},
	{"the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model", guard.Tokens, [3]int{5000, 4096, 0}},
	{"BAD_REQUEST: prompt token count (5100) cannot exceed 4096", guard.Tokens, [3]int{5100, 4096, 0}},
	{"too many tokens: size limit exceeded by 1234 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens.", guard.Tokens, [3]int{129234, 128000, 0}},
	{"Too many input tokens. Max input tokens: 8192, request input token count: 10562", guard.Tokens, [3]int{10562, 8192, 0}},
	{"Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens)", guard.Tokens, [3]int{5000, 4096, 0}},
	{"The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8000).", guard.TokensPlusOutput, [3]int{0, 8000, 0}},
	{"The request exceeds the maximum context of a 200K token window", guard.Tokens, [3]int{0, 200000, 0}},
	{"Token indices sequence length is longer than the specified maximum sequence length for this model (25461 > 16384)", guard.Tokens, [3]int{25461, 16384, 0}},
	{"prompt too long: 131 073 tokens exceed the context window of 131_072 tokens", guard.Tokens, [3]int{131073, 131072, 0}},
	{"input exceeds context window: 1.2M tokens > 1M tokens", guard.Tokens, [3]int{1200000, 1000000, 0}},

	{"Your request exceeded model token limit : 262144", guard.Tokens, [3]int{0, 262144, 0}},
	{"This model's maximum context length is 131072 tokens, but you sent 140000", guard.Tokens, [3]int{140000, 131072, 0}},
	{"prompt length 9000 > 8192", guard.Tokens, [3]int{9000, 8192, 0}},
	{"prompt is too long with reasoning tokens: 210000 tokens > 200000 maximum", guard.Tokens, [3]int{210000, 200000, 0}},
	{"total tokens 9000 exceed max 8192 at retry 3", guard.Tokens, [3]int{9000, 8192, 0}},
	{"input token count of 33,000 > 32,768", guard.Tokens, [3]int{33000, 32768, 0}},
	{"token count 9000 exceeds maximum 8192, upgrade to gpt-4-32k", guard.Tokens, [3]int{9000, 8192, 0}},
	{"context length exceeded: used 131,100 of 131,072 tokens", guard.Tokens, [3]int{131100, 131072, 0}},
	{"prompt is 130000 tokens long, which is above the 128000 limit", guard.Tokens, [3]int{130000, 128000, 0}},
	{"This model only supports prompts of up to 128000 tokens, but the prompt has 150000", guard.Tokens, [3]int{150000, 128000, 0}},
	{"Prompt has too many tokens (5000), limit 4096", guard.Tokens, [3]int{5000, 4096, 0}},
	{"input_tokens 5000 > max_input_tokens 4096", guard.Tokens, [3]int{5000, 4096, 0}},
	{"input must be shorter than 4096 tokens", guard.Tokens, [3]int{0, 4096, 0}},
	{"Prompt has 2000 tokens, but the configured context size is 1000 tokens", guard.Tokens, [3]int{2000, 1000, 0}},
	{"Cannot process new request: Prompt length (5056) exceeds maximum sequence length (2048)", guard.Tokens, [3]int{5056, 2048, 0}},
	{"Prompt token count exceeds max token count (5910 / 4095).", guard.Tokens, [3]int{5910, 4095, 0}},
	{"max tokens of 200000 exceeded", guard.Tokens, [3]int{0, 200000, 0}},
	{"Input prompt (2664 tokens) is too long and exceeds limit of 2048/2560", guard.Tokens, [3]int{2664, 2048, 0}},
	{"prompt too long: exceeds the context window of 8192 tokens by 500 tokens", guard.Tokens, [3]int{8692, 8192, 0}},
	{"gpt-4: 400 context length exceeded: 9000 tokens > 8192", guard.Tokens, [3]int{9000, 8192, 0}},
	{"llama3.2:3b (attempt 3/5): the prompt has 9000 tokens, which is more than the model's context window of 4096", guard.Tokens, [3]int{9000, 4096, 0}},
	{"ai-context-limit: estimated input tokens 150000 exceeds max_context_tokens 128000", guard.Tokens, [3]int{150000, 128000, 0}},
	{"request has 140,000 input tokens but gemini-2.5-flash allows at most 131,072", guard.Tokens, [3]int{140000, 131072, 0}},
	{"conversation uses 33000 tokens; the model's context is only 32768", guard.Tokens, [3]int{33000, 32768, 0}},
	{"messages must have fewer than 32768 tokens", guard.Tokens, [3]int{0, 32768, 0}},
	{"upstream claude-3-5-sonnet-20241022 refused: prompt is too long: 210000 tokens > 200000 maximum", guard.Tokens, [3]int{210000, 200000, 0}},
	{"prompt (12000 tokens) does not fit in the 8192 token context", guard.Tokens, [3]int{12000, 8192, 0}},
	{"total prompt tokens 9000 exceeds n_ctx 8192", guard.Tokens, [3]int{9000, 8192, 0}},
	{"On your plan the maximum context length is 32768 tokens, but the prompt has 40000 tokens", guard.Tokens, [3]int{40000, 32768, 0}},
	{"prompt is too long for your account: 50000 tokens > 32000 maximum", guard.Tokens, [3]int{50000, 32000, 0}},

	// Tokens, without.
	{"Your input exceeds the context window of this model. Please adjust your input and try again.", guard.Tokens, [3]int{}},
	{"Input is too long for requested model.", guard.Tokens, [3]int{}},
	{"Prompt exceeds max length", guard.Tokens, [3]int{}},
	{"the input length exceeds the context length", guard.Tokens, [3]int{}},
	{"Input Tokens Exceeded: Number of input tokens exceeds maximum length.", guard.Tokens, [3]int{}},
	{"litellm.ContextWindowExceededError: oops", guard.Tokens, [3]int{}},
	{"Context overflow: prompt too large for the model", guard.Tokens, [3]int{}},
	{"Codex ran out of room in the model's context window. Start a new conversation", guard.Tokens, [3]int{}},
	{"max_tokens must be at least 1, got -26395", guard.Tokens, [3]int{}},
	{"Total tokens of image and text exceed max message tokens", guard.Tokens, [3]int{}},
	{"The input token count exceeds the maximum number of tokens allowed 1048576.", guard.Tokens, [3]int{0, 1048576, 0}},
	{"Prompt 超长", guard.Tokens, [3]int{}},
	{"输入内容过长，超出模型上下文长度限制", guard.Tokens, [3]int{}},
	{"The prompt is 9000 tokens over the limit", guard.Tokens, [3]int{}},
	{"input or output too long for the model's context", guard.Tokens, [3]int{}},
	{"Your input is too long. Please reduce the number of messages.", guard.Tokens, [3]int{}},
	{"the input is longer than the model's context", guard.Tokens, [3]int{}},
	{"The requested tokens exceed the maximum context", guard.Tokens, [3]int{}},
	{"prompt too long; exceeded max context length by 4 tokens", guard.Tokens, [3]int{}},
	{"Model gpt-4 context window exceeded", guard.Tokens, [3]int{}},
	{"claude-3 maximum context length exceeded", guard.Tokens, [3]int{}},
	{"gemini-2.5 context length exceeded", guard.Tokens, [3]int{}},
	{"Gemini 2.5 context length exceeded", guard.Tokens, [3]int{}},
	{"400 context length exceeded", guard.Tokens, [3]int{}},
	{"POST /v1/messages: 400: context length exceeded", guard.Tokens, [3]int{}},
	{"attempt 3 max context length exceeded", guard.Tokens, [3]int{}},
	{"turn 12: retry 2 of 5: HTTP 400: prompt exceeds the context window", guard.Tokens, [3]int{}},
	{"context window exceeded after 300 messages", guard.Tokens, [3]int{}},
	{"the prompt is too long for llama-3.3-70b-8192", guard.Tokens, [3]int{}},
	{"prompt is too long: 30 tokens > 20 maximum", guard.Tokens, [3]int{30, 0, 0}},
	{"Model context limit reached. Conversation size exceeds model capacity.", guard.Tokens, [3]int{}},
	{"400 {\"message\":\"Input is too long.\",\"reason\":\"CONTENT_LENGTH_EXCEEDS_THRESHOLD\"}", guard.Tokens, [3]int{}},
	{"rpc error: code = InvalidArgument desc = the prompt is too long for this model", guard.Tokens, [3]int{}},
	{"API Error: 400 Prompt exceeds maximum context length", guard.Tokens, [3]int{}},

	// The output is what overflows.
	{"input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input length or `max_tokens` and try again", guard.TokensPlusOutput, [3]int{143653, 200000, 64000}},
	{"input length and max_tokens exceed context limit", guard.TokensPlusOutput, [3]int{}},
	{"This endpoint's maximum context length is 1000 tokens. However, you requested about 1900 tokens (100 of text input, 300 of tool input, 1500 in the output).", guard.TokensPlusOutput, [3]int{400, 1000, 1500}},
	{"max_completion_tokens is too large: 9000. This model's maximum context length is 10000 tokens and your request has 2000 input tokens (9000 > 10000 - 2000).", guard.TokensPlusOutput, [3]int{2000, 10000, 9000}},
	{"prompt and max_tokens together exceed the model's context", guard.TokensPlusOutput, [3]int{}},
	{"prompt (7000 tokens) + max_tokens (2000) exceeds context window of 8192", guard.TokensPlusOutput, [3]int{7000, 8192, 2000}},

	// Bodies and items.
	{"total message size 2100000 exceeds limit 2097152", guard.Bytes, [3]int{2100000, 2097152, 0}},
	{"413 Request Entity Too Large", guard.Bytes, [3]int{}},
	{"413 status code (no body)", guard.Bytes, [3]int{}},
	{"Request payload size exceeds the limit: 20971520 bytes. Please use the File API to upload your files instead of passing as inline data.", guard.Bytes, [3]int{0, 20971520, 0}},
	{"Request body is too large: 5000000 bytes exceeds 4194304", guard.Bytes, [3]int{5000000, 4194304, 0}},
	{"too many total text bytes: 32000000 > 25000000", guard.Bytes, [3]int{32000000, 25000000, 0}},
	{"messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes", guard.Part, [3]int{6291456, 5242880, 0}},
	{"messages.3.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels", guard.Part, [3]int{0, 8000, 0}},
	{"Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1540820 instead.", guard.Part, [3]int{1540820, 1048576, 0}},
	{"prompt is too long (max 40000 characters)", guard.Bytes, [3]int{0, 40000, 0}},
	{"messages must not exceed 1 image", guard.Part, [3]int{0, 1, 0}},
	{"prompt exceeds 3 images maximum", guard.Part, [3]int{0, 3, 0}},
	{"request exceeds the limit of 100 pages", guard.Part, [3]int{}},

	// One request is more than a minute's allowance.
	{"Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 50000. Visit https://platform.openai.com/account/rate-limits to learn more.", guard.RateLimit, [3]int{50000, 30000, 0}},
	{"Rate limit reached for m on tokens per minute (TPM): Limit 6000, Used 10, Requested 7000.", guard.RateLimit, [3]int{7000, 6000, 0}},

	// The answer.
	{"stop reason: model_context_window_exceeded", guard.StopReason, [3]int{}},

	// Not overflows.
	{"Rate limit reached for m on tokens per minute (TPM): Limit 6000, Used 5900, Requested 700.", guard.NotOverflow, [3]int{}},
	{"Too many tokens, please wait before trying again.", guard.NotOverflow, [3]int{}},
	{"Number of request tokens has exceeded your per-minute rate limit", guard.NotOverflow, [3]int{}},
	{"Requests have exceeded token rate limit of your current pricing tier. Please retry after 60 seconds.", guard.NotOverflow, [3]int{}},
	{"Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000", guard.NotOverflow, [3]int{}},
	{"Prompt tokens limit exceeded: 230799 > 91442. To increase, visit https://openrouter.ai/settings/keys and create a key with a higher monthly limit", guard.NotOverflow, [3]int{}},
	{"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 3395.", guard.NotOverflow, [3]int{}},
	{"context canceled", guard.NotOverflow, [3]int{}},
	{"net/http: request canceled (Client.Timeout or context cancellation while reading body)", guard.NotOverflow, [3]int{}},
	{"context deadline exceeded", guard.NotOverflow, [3]int{}},
	{"401 invalid token", guard.NotOverflow, [3]int{}},
	{"IDE token expired: unauthorized: token expired", guard.NotOverflow, [3]int{}},
	{"max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for this model", guard.NotOverflow, [3]int{}},
	{"Unable to submit request because it has a maxOutputTokens value of 167538 but the supported range is from 1 (inclusive) to 65537 (exclusive).", guard.NotOverflow, [3]int{}},
	{"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", guard.NotOverflow, [3]int{}},
	{"Range of max_tokens should be [1, 8192]", guard.NotOverflow, [3]int{}},
	{"`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model", guard.NotOverflow, [3]int{}},
	{"Input validation error: `max_new_tokens` must be <= 1512. Given: 2000", guard.NotOverflow, [3]int{}},
	{"Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.", guard.NotOverflow, [3]int{}},
	{"Model context window too small (4096 tokens). Minimum is 16000.", guard.NotOverflow, [3]int{}},
	{"Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64, but got a string with length 83 instead.", guard.NotOverflow, [3]int{}},
	{"tools.0.custom.name: String should have at most 64 characters", guard.NotOverflow, [3]int{}},
	{"File content (28375 tokens) exceeds maximum allowed tokens (25000). Please use offset and limit parameters", guard.NotOverflow, [3]int{}},
	{"The long context beta is not yet available for this subscription.", guard.NotOverflow, [3]int{}},
	{"transcript: entry too large: 70000000 bytes exceeds 67108864", guard.NotOverflow, [3]int{}},
	{"bufio.Scanner: token too long", guard.NotOverflow, [3]int{}},
	{"argument list too long", guard.NotOverflow, [3]int{}},
	{"Bad Request: message is too long", guard.NotOverflow, [3]int{}},
	{"unexpected token < in JSON at position 0", guard.NotOverflow, [3]int{}},
	{"请求过于频繁，tokens超过每分钟限制", guard.NotOverflow, [3]int{}},
	{"organization token limit exceeded", guard.NotOverflow, [3]int{}},
	{"tool input is too long", guard.NotOverflow, [3]int{}},
	{"response exceeds max tokens. Please adjust your input and try again.", guard.NotOverflow, [3]int{}},
	{"input exceeds maximum depth (request id: req_0123456789)", guard.NotOverflow, [3]int{}},
	{"search input too long: 500 > 400", guard.NotOverflow, [3]int{}},
	{"read file: content too large: 3000000 bytes", guard.NotOverflow, [3]int{}},
	{"input has 5 images but model supports at most 1", guard.NotOverflow, [3]int{}},
	{"Your API key has exceeded its token limit", guard.NotOverflow, [3]int{}},
	{"Free tier token limit reached. Upgrade to Pro.", guard.NotOverflow, [3]int{}},
	{"total input tokens limit reached for today", guard.NotOverflow, [3]int{}},
	{"400 Token limit exceeded for your account. Please top up.", guard.NotOverflow, [3]int{}},
	{"401 API key has reached the max token limit", guard.NotOverflow, [3]int{}},
	{"user 1234 has exceeded the token limit", guard.NotOverflow, [3]int{}},
	{"Exceeded the total_tokens_limit of 4000 (total_tokens=5200)", guard.NotOverflow, [3]int{}},
	{"usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used)", guard.NotOverflow, [3]int{}},
	{"This organization exceeded its max tokens; ask an admin", guard.NotOverflow, [3]int{}},
	{"今日 tokens 用量超过上限", guard.NotOverflow, [3]int{}},
	{"max_completion_tokens exceeds model context window", guard.NotOverflow, [3]int{}},
	{"structured output: response exceeds max tokens", guard.NotOverflow, [3]int{}},
	{"Thinking budget exceeds maximum allowed tokens 24576", guard.NotOverflow, [3]int{}},
	{"thinking.budget_tokens 32000 exceeds max tokens 16000", guard.NotOverflow, [3]int{}},
	{"max response length over max context length", guard.NotOverflow, [3]int{}},
	{"The completion is longer than the maximum tokens", guard.NotOverflow, [3]int{}},
	{"number of inputs exceeds maximum batch size", guard.NotOverflow, [3]int{}},
	{"The conversation has exceeded the maximum number of turns (100)", guard.NotOverflow, [3]int{}},
	{"number of messages exceeds maximum of 2048", guard.NotOverflow, [3]int{}},
	{"A maximum of 4 blocks with cache_control may be provided. Found 5.", guard.NotOverflow, [3]int{}},
	{"input exceeds maximum of 128 tools", guard.NotOverflow, [3]int{}},
	{"agent stopped: maximum number of iterations exceeded for this prompt", guard.NotOverflow, [3]int{}},
	{"web_search: query is too long (max 400 characters)", guard.NotOverflow, [3]int{}},
	{"tool failed: grep: input line too long", guard.NotOverflow, [3]int{}},
	{"tls: handshake message of length 88888 bytes exceeds maximum of 65536 bytes", guard.NotOverflow, [3]int{}},
	{"431 Request Header Fields Too Large", guard.NotOverflow, [3]int{}},
	{"414 URI Too Long", guard.NotOverflow, [3]int{}},
	{"http2: frame too large", guard.NotOverflow, [3]int{}},
	{"grpc: received message larger than max (5000000 vs. 4194304)", guard.NotOverflow, [3]int{}},
	{"rpc error: code = ResourceExhausted desc = grpc: trying to send message larger than max (5000000 vs. 4194304)", guard.NotOverflow, [3]int{}},
	{"bufio.Scanner: token too long (input)", guard.NotOverflow, [3]int{}},
	{"fork/exec /bin/sh: argument list too long", guard.NotOverflow, [3]int{}},
	{"kafka: message size 2000000 exceeds the maximum", guard.NotOverflow, [3]int{}},
	{"open x: file name too long", guard.NotOverflow, [3]int{}},
	{"input exceeds maximum depth", guard.NotOverflow, [3]int{}},
	{"websocket: read limit exceeded", guard.NotOverflow, [3]int{}},
	{"400 status code (no body)", guard.NotOverflow, [3]int{}},
	{"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".", guard.Part, [3]int{}},
	{"messages.5.content.0: Invalid `signature` in `thinking` block", guard.Part, [3]int{}},
	{"messages.3.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", guard.Part, [3]int{}},
	{"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.", guard.NotOverflow, [3]int{}},
	{"invalid signature in the request header", guard.NotOverflow, [3]int{}},
	{"500 Internal Server Error", guard.NotOverflow, [3]int{}},
	{"", guard.NotOverflow, [3]int{}},
}

func TestClassify(t *testing.T) {
	for _, tt := range classifyTests {
		got := guard.Classify(errors.New(tt.text))
		t.Logf("%-20s %-26q %s", got.Rule, got.Kind, tt.text)
		if got.Kind != tt.kind {
			t.Errorf("kind %q, want %q (rule %q): %s", got.Kind, tt.kind, got.Rule, tt.text)
		}
		if sizes := [3]int{got.Prompt, got.Limit, got.Output}; sizes != tt.sizes {
			t.Errorf("sizes %d, want %d (rule %q): %s", sizes, tt.sizes, got.Rule, tt.text)
		}
		if got.Rule == "" {
			t.Errorf("no rule: %s", tt.text)
		}
	}
}
