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
//
// A [Key] says where a conversation belongs; it points at its current
// [Session], which is made when it is first loaded. A Session is a thin handle
// without Close: what is known about it lives in the Store, so that all
// handles of a session share one state. All of it may be used by several
// goroutines, and several processes may have the same store open.
//
// [Store.List] filters by agent, parts of the key, owner, label and time, a page
// at a time.
//
// # Show a conversation while it grows
//
// [Session.Follow] yields the entries behind an entry ID, and then each new one
// as anyone appends it, in any process; the ID of the last one is all that a
// viewer has to remember. [Store.Follow] says which sessions have changed, for a
// program that shows a list of them.
//
// # Branch from here
//
// [Session.Fork] makes a session that begins with the history as it was after an
// entry, in copies of the lines that are in force there. Either session may be
// deleted. [CreateOptions].Parent links the session of a sub-agent to the call
// that started it; [ListOptions] lists forks and children.
//
// # Put away what is over
//
// Package session/memory archives what was said as chapters, with an abstract of one line
// and an overview, which takes the place of the archived messages in the history. It is
// written over [Session.View], [Session.Update] and [Session.Scan], as any program may be;
// [Session.Update] completes a compaction.
//
// # Find something that was said
//
// Package search reads whole transcripts for words, phrases, beginnings of words or a
// regular expression, and marks each hit that was compacted, clipped or rewound. It
// returns the messages around a hit, parts of a long result and pages of the
// conversation, and has tools for a model to do so.
//
// # Keep it for 30 days
//
// Nothing is removed by itself. Package session/retain lists the sessions that are too
// old or too many, by their own TTL or a common one, by count, bytes, key and owner,
// with the protection of each: a pin, being current, a message within the last
// hour, a clock that cannot be trusted. It checks each session again before it
// archives or deletes it. An archived session is compressed, is listed by
// [ListOptions].State, is read and searched as before, and can be appended to when it
// is restored. [Store.SetState] and [Store.DeleteAt] are the operations below it.
//
// # Forget a person
//
// Package erase, below this one, lists every place that holds data of an owner, of
// sessions, of entries, or entries that a function selects: transcripts, rows, summaries
// that have read them, copies in forks, drafts, values. It erases them and returns a
// receipt. Call its Resume after [Open]: that finishes an erase that a kill has
// interrupted. Histories stay valid. Other stores of the application take part as a
// [transcript.Eraser]; package transcript/convlog has one.
//
// # Serve several users
//
// [Store.Scope] returns a store with the sessions of one owner and no others. Make
// one for each request, and no call can leave the owner.
//
// # Keep secrets out
//
// [Redact] is a [Filter] that masks texts before they are written, imports included, and
// package transcript/redact has a hook that knows the common secrets. Requests are made of
// the written entries, so models do not see the secrets either.
//
// # Keep media beside the conversation
//
// Package blobs, below this one, has a [Filter] with which the bytes of images, documents
// and audio are files beside the transcript, and lines have only their hashes. Requests
// and exports have the bytes as before; loading and searching do not read them.
// [Session.FilterExport] puts the bytes into entries that a program has read itself.
//
// # Failures
//
// After a failed sync a session refuses appends with a [*NotDurableError] until
// [Session.Recover] has copied its transcript to new blocks. [Store.Delete]
// leaves no word of a session behind. Package exchange, below this one, imports
// sessions of other programs and writes sessions in other forms.
//
// # Run turns
//
// Package turn, below this one, lets one turn at a time run on a session, records
// calls before their tools start, holds them for a person, keeps answers that are being
// streamed and texts that wait, pins texts, keeps values that no model sees, takes turns
// back, and has a model write titles. [Options].AfterTurn lets such packages run after
// each turn.
//
// # Keep things beside the conversation
//
// [transcript.WithApp] puts data on a message, and [Info].Usage sums up what answers have
// cost.
//
// [Store], [Session.Append] and FORMAT.md say what a nil error means, which errors
// there are, and what survives which crash.
package session
