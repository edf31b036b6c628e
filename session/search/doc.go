// Package search finds texts in sessions, even compacted and rewound ones, and reads
// around them.
//
// Most programs need [Store], which finds words in sessions, and [RecallTools], which
// makes tools for a model. [Session] searches one session. [Window], [Page] and [Read]
// return entries, and [ByPrefix] the session that a person means.
package search

// Decisions:
//
// A session without a hit costs six system calls: its transcript is opened only for
// the search, read at once into a buffer of the worker, and leaves no state in the
// store.
//
// Sessions are read backwards, so the newest hit comes first, and compactions, clips and
// rewinds come before the lines they change. [session.Session.Where] reports whether hits
// were compacted or rewound; it reads a whole session only if one of its lines moves others.
//
// The application fixes the sessions of the recall tools; no input of a model can name
// others. The notice about them is stored in the clip or the summary, so no option
// changes a request.
