// Package erase removes words from a store: all data of a person, sessions or
// entries, and everything that repeats it.
//
// [Preview] finds every place that holds something of an [Erasure] and changes nothing.
// [Run] erases what the [Plan] lists, copies in forks that were made since included, and
// returns a [Receipt]. On a [session.Store.Scope] both touch the sessions of its owner
// alone.
//
// Run first stores the plan, as a session of the agent "_erase". If the process is killed
// the session remains: [session.Open] logs a warning, and [Resume] finishes the erase.
// Programs call Resume at their start.
package erase

// Decisions:
//
// look.go passes the IDs of entries on: from a session that holds them down to its forks, by
// the descent in their headers, and up to the sessions that its lines were copied from. They
// also pass through a deleted session, which its forks name. kin.go finds lines that repeat
// an entry in one session: drafts, queued texts, pins, decisions. lines.go decides which lines
// go, in two passes, and replaces summaries that have read one. run.go lists the sessions
// again until new ones are clean: a fork is made only of a base that was not rewritten since
// it was read.
//
// A plan runs the same code without a writer. TestEraseKilled cuts an erase at every
// call on the disk.
