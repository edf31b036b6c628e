// Package rebuild turns the entries of a transcript into the history that a
// model is shown.
//
// A [Fold] takes batches of entries in order and gives the canonical
// [History]: a system prefix and messages that every provider's rules accept,
// however broken the entries are. It is pure and deterministic: no clock, no
// random, synthetic texts are fixed. The same entries give the same bytes on
// every machine, before and after a restart. All repairs are in the
// [Report]. [Pending] is the unfinished work, with each open call as a
// [PendingCall].
//
// The rules belong to format version 1, see docs/FORMAT.md. In short:
//
//   - messages alternate, neighbours of one role are merged in order;
//   - each tool call has exactly one result, in the user message right after
//     it, first and in call order; a missing one is made up as an error, a
//     result without a call is left out;
//   - of an answer that was cut, the text stays and the unfinished calls go;
//   - a [transcript.Rewind] takes the history back, a [transcript.Compaction]
//     replaces its older part, a [transcript.Clip] shortens parts of it, and a
//     [transcript.Hide] leaves entries out.
//
// The packages below rebuild/wire render a history for a provider and apply
// rules of that provider alone.
package rebuild

// Decisions:
//
// The fold keeps, for each entry, the live entry before it. A rewind is one jump, and
// undoing it another.
//
// Results find their calls within a turn, with two exceptions: a late result, and a
// result written before its call.
//
// Reasoning is chosen by the order of changes, not by comparing blocks. Each place of a
// history records the last line that changed it. An answer is intact if nothing before
// it changed after its request.
//
// A late result needs no partner. After a compaction it is shown as a text, unless the
// compaction records (read) that its summary includes it. Forbidding cuts while a call
// waits could leave a session without any cut. Package session spares only calls that
// wait for a person.
//
// A system prompt can be an entry. A later change is rendered as a text after the
// conversation so far; a compaction moves it to the top. Tools work alike, because
// providers want their definitions before all messages: an application defines all
// tools, and an entry names the callable ones. Claude also takes later definitions
// (tool_addition), but only with a header, and renderers send none.
//
// Signed reasoning with an empty text is kept: newer models hide the text and require
// the block unchanged.
//
// Tokens are counted on demand, once per message. Counting costs as much as an append,
// and most appends need no count.
