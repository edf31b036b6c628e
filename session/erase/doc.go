// Package erase removes words from a store: all data of a person, whole sessions, or
// single entries, and everything that repeats their words.
//
// Most programs need [Preview], [Run], and [Resume] at their start.
//
// Preview finds every place that holds a part of an [Erasure] and changes nothing.
// Run erases the places in the [Plan], including copies in forks made since, and
// returns a [Receipt]. On a [session.Store.Scope] both use only the sessions of its
// owner.
//
// Run first stores the plan, as a session of the agent "_erase". If the process is
// killed, the session remains: [session.Open] logs a warning, and Resume finishes the
// erase.
package erase

// Decisions:
//
// look.go passes the IDs of entries on between related sessions. They pass from a
// session that holds the entries to its forks, by the descent in their headers, and to
// the sessions that its own lines were copied from. They also pass through a deleted
// session, which its forks name. kin.go finds lines in one session that repeat an
// entry: drafts, queued texts, pins, decisions. lines.go decides in two passes which
// lines go, and replaces summaries that have read one. run.go lists the sessions again
// until new ones are clean. No fork escapes, because a base that was rewritten since it
// was read cannot be forked.
//
// Preview runs the same code without a writer. TestEraseKilled cuts an erase at every
// call to the disk.
