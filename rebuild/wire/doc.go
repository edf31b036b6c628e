// Package wire renders requests for the providers of models and reads their
// answers.
//
// A [transcript.Request] is independent of providers. Each package below this one has
// a Format, which turns it into the body of a call and turns the answer, whole or
// streamed, into a [transcript.Response]: anthropic is for the Messages API,
// openaichat for Chat Completions and its imitators, openairesponses for the
// Responses API, gemini for generateContent of Google's APIs and bedrock for Amazon's
// Converse. They contain no HTTP client: any will do. [ReadSSE] splits a stream into
// events, and [NewAPIError] reads the refusals of all five.
//
// An answer that is appended to a session and rendered again comes out as it
// came in. Data of a block that only one API knows (IDs of items, encrypted
// reasoning, signatures of calls) is in the block's member "ext", which goes
// only to that API; a part of an answer that fits no block becomes an opaque
// block.
//
// Rendering applies the rules of the target, and reports changes in a
// rebuild.Report, which names entries by the Origins. Every format does this:
//
//   - IDs of calls that are not unique, not in the alphabet of the target or too long
//     are replaced by ones derived from them, in the call and in its result.
//   - Reasoning and blocks of unknown types go back only to the model that made them, by its
//     dated name or its alias. The caller vouches for blocks without Origins.
//   - Calls of tools that the provider ran go back with their results to all of its models
//     in the API. Other models get their text.
//   - Other blocks that the target does not take become a short text in a user message
//     and are left out of an answer. Members that it does not take are left out. An
//     answer left without content is left out, and the user messages around it are
//     joined.
//   - Escaped halves of surrogate pairs, which a call cut by a length limit may have in
//     its input, become U+FFFD.
//   - An output limit of 0, an empty model and a blank system prompt are left out.
//
// An error of a method Request means that a role or a setting of the format cannot be
// written, or that two tools have one name. A request whose messages are a rebuild.History
// is valid once rendered: unless Prefill of the format is set, a text of the user follows
// an answer at the end. So a conversation may change its provider at any request, even in
// the middle of a turn. A text is never changed. The same request gives the same bytes,
// and appended messages do not change the bytes before them, so a provider's prompt cache
// stays warm, with four exceptions: the end of a turn removes reasoning of answers without
// a recorded request, a text of the user ends code that waits, cache marks move, and
// Bedrock limits documents.
//
// The table shows how each kind of block is sent. Blocks of an answer go back to
// the model that made it:
//
//	                                Anthropic  Chat   Responses  Gemini  Bedrock
//	text                            yes        yes    yes        yes     yes
//	image                           yes        yes    yes        yes     yes
//	document (PDF)                  yes        yes    yes        yes     yes
//	search_result                   yes        text   text       text    text
//	container_upload                yes        text   text       text    text
//	input_audio                     text       yes    text       yes     text
//	image in a result               yes        moved  yes        yes     yes
//	text of an answer               yes        yes    yes        yes     yes
//	image of an answer              -          -      -          yes     -
//	tool_use                        yes        yes    yes        yes     yes
//	thinking, signed                yes        yes    -          yes     yes
//	thinking, encrypted item        -          yes    yes        yes     -
//	redacted_thinking               yes        -      -          -       yes
//	server_tool_use and its result  yes        text   text       text    text
//	compaction, with content        yes        -      -          -       -
//	fallback                        yes        -      -          -       -
//	compaction, encrypted           -          -      yes        -       -
//	bedrock_block, a tool it ran    text       text   text       text    yes
//	of a type not known here        yes        -      yes        yes     yes
//
// In the table "yes" means unchanged, "text" a text that replaces or repeats it,
// "moved" after the results, "-" left out and reported. Other models get the
// texts and the calls of an answer.
//
// Each package also has the inverse of its Request: Messages, Items or Contents reads a
// list, a request that holds one, or an answer. Items that are appended to a session render
// the same request again, with these losses and changes:
//
//   - Settings, tools, cache points, and marks of the system prompt are not read.
//   - Answers name the model of the request. A list alone, and any request of Gemini and
//     Bedrock, names none: the reasoning of such answers goes to no model unless the caller
//     sets Model of each [transcript.Response].
//   - A system prompt after the first gets a heading, and its place among the texts of the
//     user may change. So does its place among prompts before the first message.
//   - Empty reasoning of Chat Completions is left out.
//   - The response of a function of Gemini that is not one text becomes its JSON, as does
//     JSON in a result of Bedrock.
//
// Messages that break the rules of every provider (calls without results, roles
// that do not alternate) are not repaired here, but by rebuild.Fold.
package wire

// Decisions:
//
// There is one type per API, with the same methods where the APIs allow. Applications
// name the API they use, so the only interfaces are Stream and exchange.Renderer.
//
// Every API is a folder: a page of documentation shows one format, and a program
// links only the formats it names. Shared code is in rebuild/wire/internal. No format
// imports another.
//
// format.Accumulator holds the growing pieces of an answer, and each API maps its
// events to them. A whole answer goes through the same mapper.
