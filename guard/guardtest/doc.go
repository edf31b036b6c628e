// Package guardtest is a model to run agents against: offline, scripted and as
// strict as the real service.
//
// A [Model] serves five APIs over HTTP, each on its own paths, streamed or not:
// Anthropic's Messages, OpenAI's Chat Completions and Responses, Gemini's
// generateContent and Bedrock's Converse. It refuses every request that the provider
// would refuse, in the provider's words. It enforces a context window. On demand it
// fails, stalls, cuts streams and answers nonsense. It records requests. Use it over a
// port with [NewServer], or without one as an [net/http.RoundTripper]:
//
//	m := &guardtest.Model{
//		Window: 8000,
//		Answer: guardtest.Script(
//			guardtest.Call(guardtest.Tool("read_file", `{"path":"README.md"}`)),
//			guardtest.Overloaded(),
//			guardtest.Say("It is a library."),
//		),
//	}
//	client := &http.Client{Transport: m} // any host
//
// A model answers by a [Rule], a function from a [Request] to an [Answer]. [Say] and
// [Call] make answers; functions such as [Fail], [StallAfter] and [CutAfter] make
// faulty ones. [Script], [When] and [Start] turn answers into rules.
//
// # Refusals
//
// A model refuses requests in this order, with the status and the error type of the
// provider:
//
//   - 404 for an unknown path, 405 for another method
//   - 413 for a body of more than [Model.MaxBody]
//   - 400 without the header anthropic-version, on the paths of the Messages API
//   - 400 for a body that breaks a rule of the API; the text names the first violation
//   - 400 for more output tokens than the model allows
//   - 400 for a prompt that is longer than the window
//
// Parts of an [Answer] that an API cannot express are left out: blocks of other
// providers, and for Chat Completions the order of texts and calls. Gemini's signatures
// are taken from the member "ext" of a block. If a model requires a signature on the
// first call, the package makes one.
//
// These are not checked: keys, names of models, values of sampling parameters, whether
// a called tool was defined, schemas of inputs, pages of documents, and rate limits.
// Signatures of reasoning are checked only with [Model.Bind].
//
// Rules can refuse other parts of a request: [Holds] is a condition for them, alone or
// with the Model and the Host of a [Request]. The tests of package guard use such
// scripts. With them you can test that a refused part never blocks a session in a loop
// of your own. docs/REFUSALS.md lists the kinds.
//
// # The cost of answers
//
// [Model.Counter] counts the tokens of prompts and outputs. An output longer than
// max_tokens is cut there, with the stop reason max_tokens. An output that exceeds the
// window is cut at the end of the window, with the stop reason
// model_context_window_exceeded. A cut may fall inside a text or the input of a call,
// as with the real service. The body of [Page] is never cut.
package guardtest
