// Package rebuild turns the entries of a transcript into what a model is
// shown.
//
// A [Fold] takes batches of entries in order and gives the canonical
// [History]: a system prefix and messages that every provider's rules accept,
// however broken the entries are. It is pure and deterministic: no clock, no
// random, synthetic texts are fixed. The same entries give the same bytes on
// every machine, before and after a restart. All repairs are in the
// [Report].
//
// The rules are those of format version 1, listed in docs/FORMAT.md. In short:
//
//   - messages alternate, neighbours of one role are merged in order;
//   - each tool call has exactly one result, in the user message right after
//     it, first and in call order; a missing one is made up as an error, a
//     result without a call is left out;
//   - of an answer that was cut, the text stays and the unfinished calls go;
//   - a [transcript.Rewind] takes the history back, a [transcript.Compaction]
//     replaces its older part, a [transcript.Clip] shortens parts of it.
//
// The packages below rebuild/wire render a history for a provider and apply what
// only that provider demands.
package rebuild
