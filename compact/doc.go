// Package compact makes a history smaller: it replaces the older part by a
// summary.
//
// It goes in three steps, so that each can be looked at and tested alone:
//
//   - [Plan] is pure: it says where a history would be cut, what would be
//     summarised and what kept, or why there is nothing to do.
//   - [Run] calls a [Summarizer], refuses what is no summary, adds what no
//     summarizer is trusted with, and returns the entry that would do it.
//     Nothing has happened yet.
//   - Who owns the transcript appends that entry. Package session does it under
//     a condition, so that appends of others go on meanwhile.
//
// [Extractive] needs no model; [Model] asks one, through a function with the
// shape of guard.Client's method.
package compact
