// Package blobs stores images, documents and audio outside of the transcripts of a store.
//
// Most programs need [Filter] over a [Folder]:
//
//	store, err := session.Open(dir, &session.Options{Filters: []session.Filter{
//		blobs.Filter(blobs.Folder(dir), nil),
//	}})
//
// Media whose base64 is at least 16 KiB long become blobs; their lines name them by their
// hashes. A blob is on stable storage before the line that names it, and is deleted with its
// session. A fork has copies, so either session may be deleted. Every process that uses
// the store needs the same filter.
//
// [session.Session.History] and the exports read blobs; loading, searching, compacting
// and counting tokens do not. A short text replaces a blob that is missing.
//
// No blob is removed because an append fails: another append may have sent the same
// media. So an upload whose append failed, or was killed, stays until something is erased
// from its session or the session is deleted.
//
// [Folder] keeps blobs in files, [Memory] in memory. Package pgdriver has a [Store] for
// PostgreSQL, and blobstest checks others.
package blobs

// Decisions:
//
// Media are stored before the append, without a lock. Put makes the folder of a session
// that has a transcript, because a store may get this filter later than its sessions.
// Then Put looks for the transcript again; a deletion removes the transcript first, so
// no media outlive the session. A fork copies media before it exists, so its base can be
// deleted. The file driver removes the folder of blobs itself, because it finishes
// deletions after a kill.
