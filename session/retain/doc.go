// Package retain archives and deletes old sessions. [Preview] makes a plan by a
// [Policy], and [Apply] carries it out; [Run] does both at an interval.
// [session.Store.SetState] archives or restores a single session.
package retain

// Decisions:
//
// A plan covers rows, and Apply compares the end of each session under its lock, so a
// later append is never lost.
//
// A plan for over a quarter of the sessions needs Force, and so does a clock earlier than
// the newest message: most wrong clocks do one or the other.
