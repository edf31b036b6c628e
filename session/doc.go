// Package session keeps conversations: it composes transcripts, the fold and a
// storage driver into a [Store] that applications wire into their own agent
// loop.
//
//	store, err := session.Open(dir, nil)
//	defer store.Close()
//	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
//	_, err = s.Append(ctx, transcript.UserText(input)) // on disk before the model is called
//	history, err := s.History(ctx)                     // what to send
//	_, err = s.Append(ctx, response)                   // the answer, whole or not at all
//	_, err = s.AfterTurn(ctx)                          // compacts the history when it is due
//
// A [Key] says where a conversation belongs; it points at its current
// [Session], which is made when it is first loaded. A Session is a thin handle
// without Close: the Store holds the state of a session, which all of its handles
// share. All of it may be used by several goroutines, and several processes may have
// the same store open.
//
// [Session.Pending] says after a restart what is unfinished. [Session.Entries] and
// [Session.Follow] read a conversation, and continue after an entry ID; [Store.Follow]
// says which sessions have changed. [Session.Fork] makes a session that begins with the
// history after an entry.
//
// # Several users
//
// [Store.Scope] returns a store with the sessions of one owner and no others. Make
// one for each request, and no call can leave the owner. [Store.List] filters by parts
// of the key, owner, label, state and time, a page at a time.
//
// # Failures
//
// [Store], [Session.Append] and docs/FORMAT.md say what a nil error means, which errors
// there are, and what survives which crash. After a failed sync a session refuses appends
// with a [*NotDurableError] until [Session.Recover] has copied its transcript to new
// blocks. [Store.Delete] leaves no word of a session behind.
//
// # Features
//
// The packages below this one are written over [Session.View], [Session.Update],
// [Session.Scan] and the other exported names, as any program may be:
//
//   - turn runs one turn at a time and the tools of a turn, holds calls for a person, keeps
//     answers that are being streamed, pins texts, keeps values and takes turns back;
//   - search finds words in whole transcripts, and gives a model tools to do so;
//   - retain archives and deletes old sessions; nothing is removed by itself;
//   - erase removes a person, sessions or entries from every place. Call its Resume after
//     [Open]: it finishes an erase that a kill has interrupted;
//   - memory archives what was said as chapters, and learns from them;
//   - blobs is a [Filter] that keeps the bytes of media beside the transcripts;
//   - exchange imports sessions of other programs, exports and copies;
//   - serve is an HTTP handler.
//
// [Redact] is a [Filter] that masks texts before they are written, and package
// transcript/redact has a hook that knows the common secrets. Requests are made of the
// written entries, so models do not see the secrets either. [transcript.WithApp] puts data
// of the application on a message.
package session
