// Package retain archives and deletes old sessions. [Preview] makes a plan by a
// [Policy], and [Apply] carries it out; [Run] does both at an interval. [Archive] and
// [Restore] are for single sessions.
package retain
