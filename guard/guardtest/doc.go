// Package guardtest is a model to run agents against: offline, scripted and as
// strict as the real service.
//
// A [Model] speaks five APIs over HTTP, each on its own paths, streamed and not:
// Anthropic's Messages, OpenAI's Chat Completions and
// Responses, Gemini's generateContent and Bedrock's Converse. It refuses every
// request that the provider would refuse, in the provider's words; it enforces a
// context window; it fails, stalls, cuts streams and answers nonsense on demand;
// and it records requests. Use it over a port with [NewServer], or without one as
// an [net/http.RoundTripper]:
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
// A model answers by a [Rule], a function from a [Request] to an [Answer].
// [Say] and [Call] make answers; [Fail], [StallAfter], [CutAfter] and their like
// make those that go wrong; [Script], [When] and [Start] make rules of them.
//
// # Refusals
//
// In this order, with the status and the error type of the provider:
//
//   - 404 for a path, 405 for a method that is not served
//   - 413 for a body of more than [Model.MaxBody]
//   - 400 without the header anthropic-version, on the paths of the Messages API
//   - 400 for a body that breaks a rule of the API; the first violation is the text
//   - 400 for more output tokens than the model gives
//   - 400 for a prompt that is longer than the window
//
// Parts of an [Answer] that an API cannot say are left out: blocks of other
// providers, and of Chat Completions the order of texts and calls. Gemini's
// signatures are those that a block has in its member "ext", and one of its own
// on the first call where a model wants it.
//
// These are not checked: keys, names of models, the values of sampling
// parameters, whether a tool that is called was defined, schemas of inputs,
// pages of documents, signatures of reasoning without [Model.Bind], and rate
// limits.
//
// For other refusals, of a part of a request, [Holds] is a condition of a rule, alone or
// with the Model and the Host of a [Request]. So the scripts with which package guard
// is tested also test a loop of your own: a session that is never stuck with a refused
// part. docs/REFUSALS.md lists the kinds.
//
// # The cost of answers
//
// A prompt and an output have as many tokens as [Model.Counter] says. An output
// that is longer than max_tokens is cut there, with the stop reason max_tokens;
// one that runs over the window is cut at its end, with the stop reason
// model_context_window_exceeded. A cut goes through a text or through the input
// of a call, as with the real service. [Raw] and [Page] are never cut.
package guardtest
