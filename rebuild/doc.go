// Package rebuild turns the entries of a transcript into the history that a
// model is shown.
//
// Most programs need [History], [Pending] and [PendingCall], from package session.
//
// A [Fold] takes batches of entries in order and gives the canonical [History]: a
// system prefix, and messages that satisfy the rules of every provider, however broken
// the entries are. It is pure and deterministic: it uses no clock and no random
// numbers, and its own texts are fixed. The same entries give the same bytes on every
// machine, before and after a restart. The [Report] lists all repairs. [Pending]
// describes the unfinished work, with each open call as a [PendingCall].
//
// The rules belong to format version 1, see docs/FORMAT.md. In short:
//
//   - messages alternate; neighbours of one role are merged in order;
//   - each tool call has exactly one result, in the user message right after the call;
//     results come first, in call order. A missing one becomes an error result, and a
//     result without a call is left out;
//   - of an answer that was cut, the text stays and the unfinished calls go;
//   - a [transcript.Rewind] takes the history back, a [transcript.Compaction] replaces
//     its older part, a [transcript.Clip] shortens parts of it, and a [transcript.Hide]
//     leaves entries out.
//
// The packages below rebuild/wire render a history for a provider and apply the rules
// of that provider alone.
package rebuild

// Decisions:
//
// For each entry, the fold keeps the live entry before it. A rewind is one jump, and so
// is undoing the rewind.
//
// A result finds its call within a turn, with two exceptions: a late result, and a
// result that was written before its call.
//
// The order of changes decides which reasoning stays; blocks are not compared. Each
// place of a history records the last line that changed it. An answer is intact if
// nothing before it changed after its request.
//
// A late result needs no partner. After a compaction it is shown as a text, unless the
// compaction records (read) that its summary includes the result. If a waiting call
// forbade cuts, some sessions would have no cut at all. So package session spares only
// calls that wait for a person.
//
// A system prompt can be an entry. A later change is rendered as a text after the
// conversation so far, and a compaction moves it to the top. Tools work alike, because
// providers want definitions before all messages. So an application defines all tools,
// and an entry names the callable ones. Claude also takes later definitions
// (tool_addition), but only with a header that renderers do not send.
//
// Signed reasoning with an empty text is kept, because newer models hide the text and
// require the block unchanged.
//
// Tokens are counted on demand, once for each message. Counting costs as much as an
// append, and most appends need no count.
