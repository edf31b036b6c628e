// Package retain archives and deletes old sessions. [Preview] makes a plan by a
// [Policy], and [Apply] carries it out; [Run] does both at an interval. [Trash],
// [Restore] and [Delete] are for single sessions, and [session.Store.SetState] archives
// one. [Removals] reads the ledger of deleted ones.
package retain

// Decisions:
//
// A plan covers rows, and Apply compares the end of each session under its lock, so a
// later append is never lost.
//
// The trash is a state of archived sessions, not a place: a session is moved by one
// rename, so a kill leaves it in one state.
//
// A ledger is a session of the library for each owner, so that an erase of the owner
// finds it like all other sessions.
//
// A plan for over a quarter of the sessions needs Force, and so does a clock earlier than
// the newest message: most wrong clocks do one or the other.
