// Package retain archives and deletes old sessions.
//
// Most programs need [Preview], which makes a plan from a [Policy], and [Apply], which
// carries it out; [Run] does both at an interval. [Trash], [Restore], [Delete] and
// [session.Store.SetState] are for single sessions. [Removals] reads the ledger.
package retain

// Decisions:
//
// A plan is made from rows of the index. Apply compares the end of each session under
// its lock, so a later append is never lost.
//
// The trash is a state of archived sessions, not a place. One rename moves a session,
// so a kill leaves it in one state.
//
// Each owner has a ledger, which is a session of the library. So an erase of the owner
// finds the ledger like all other sessions.
//
// A plan for more than a quarter of the sessions needs Force, and so does a clock
// earlier than the newest message. Most wrong clocks cause one or the other.
