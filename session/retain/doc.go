// Package retain archives and deletes old sessions. [Preview] makes a plan by a
// [Policy], and [Apply] carries it out; [Run] does both at an interval. [Archive] and
// [Restore] are for single sessions.
package retain

// Decisions:
//
// A plan covers rows, and Apply compares the end of each session under its lock, so a
// later append is never lost.
//
// A time counts as past once one session in twenty has a later message. A jumping clock
// moves no message, so it removes nothing; Force overrides this.
