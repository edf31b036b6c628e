// Package wire renders requests for the providers of models and reads their
// answers.
//
// A [transcript.Request] is in no provider's form. [Anthropic] turns it into
// the body of a call to the Messages API and turns the answer, whole or
// streamed, into a [transcript.Response]; [OpenAIChat] does so for Chat
// Completions and its imitators, [OpenAIResponses] for the Responses API. They
// have no HTTP client: any will do, and [ReadSSE] splits what a stream sends
// into events. An answer that is appended to a session and rendered again comes
// out as it came in. What only one API knows of a block (IDs of items, encrypted
// reasoning) is in the block's member "ext", which goes back to no other.
//
// Rendering applies what only the target demands, and reports it in a
// [rebuild.Report]: IDs are rewritten when the target does not take them,
// reasoning and opaque blocks go back only to the model that made them. A
// request whose messages are a [rebuild.History] that ends with a user message
// is valid once rendered, see [rebuild.Validate], [OpenAIChat.Validate] and
// [OpenAIResponses.Validate]. A text is never changed. The
// same request gives the same bytes, and messages that are appended to it do
// not change the bytes of those before them, save where the end of a turn takes
// its reasoning out and where cache marks move on: so a provider's prompt cache
// stays warm.
//
// What breaks the rules of every provider (calls without results, roles that
// do not alternate) is not repaired here: that is the business of
// [rebuild.Fold].
package wire
