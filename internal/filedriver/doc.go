// Package filedriver keeps sessions in a folder of files that people can read
// with cat, tail and jq:
//
//	<dir>/agents/<agent>/sessions/<id>.jsonl     the transcript of a session
//	<dir>/agents/<agent>/archive/<id>.jsonl.gz   the transcript of an archived session
//	<dir>/agents/<agent>/sessions.jsonl          the index of an agent
//	<dir>/agents/<agent>/sessions.lock           empty; its bytes are locks
//
// Transcripts, and archives without a transcript, are the only source of truth.
// The index is a log of rows; the last row of a session counts. It is a cache:
// if lost, corrupt or stale, it is made again from the transcripts. The names
// of folders and files are injective encodings of agents and IDs, see
// package filename.
//
// A row is written when a session is made, deleted, described or made current, when a
// turn ends, and some seconds after the last row, not at every append. A list looks at
// the sizes of the transcripts of its page. A process names itself in the index while it
// may append, so that others notice its death. A deletion and an erase rewrite the log, so
// that no removed word remains in the folder. The ID of a deleted session remains in the
// headers of its forks and of sessions that its calls have started.
//
// [Open] refuses the folder of another program with [driver.ErrForeign].
//
// Everything below the folder is opened through one os.Root, with mode 0700
// for folders and 0600 for files. Locks are kernel locks: on a transcript for
// appends and syncs, on sessions.lock for turns, writers and the index. They end
// with the process that holds them.
package filedriver

// Decisions:
//
// The index is a log: the last row of an ID counts. There is no snapshot and no mark of
// an orderly end, so writers and readers need one rule each. It is rewritten when over
// half of it is useless, and at every delete and erase.
//
// A row is written at creation, for the current session, metadata, the end of a turn,
// Close, and for an append some seconds after the last row. One row per append cost as
// much as the append. So a row may be old: lists look at the sizes of their page, and are
// in order to five seconds. A locked index delays an append by half a second at most.
//
// The first line names the boot. After a reboot, and after the death of a writer, every
// transcript is compared with its row once.
//
// Turn locks and the index lock are bytes of sessions.lock. A lock on a transcript
// would be lost when a copy takes its name.
//
// A folder of another program is refused (driver.ErrForeign): its index is named like
// ours, and rewriting it would lose sessions. A transcript with an unreadable header
// blocks new keys of its agent: an empty session in its place would look like a loss.
//
// The files decide whether a session is archived, and a transcript always beats an
// archive.
//
// A list cursor is the time and ID of its page's last row, so an unchanged
// session is on exactly one page. Open makes the folders private.
