// Package filedriver keeps sessions in a folder of files that people can read
// with cat, tail and jq:
//
//	<dir>/agents/<agent>/sessions/<id>.jsonl   the transcript of a session
//	<dir>/agents/<agent>/sessions.json         the index of an agent
//	<dir>/agents/<agent>/sessions.journal      changes since the index was written
//
// The transcripts are the only source of truth. The index is a cache: lost,
// corrupt or stale, it is made again from the transcripts, and what cannot be
// understood of it is kept under another name. The names of folders and files
// are injective encodings of agents and IDs, see [EncodeName].
//
// Everything below the folder is opened through one os.Root, with mode 0700
// for folders and 0600 for files. Locks are locks of the kernel on the files
// themselves, so they end with the process that holds them.
package filedriver
