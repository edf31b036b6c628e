// Package session stores the conversations of agents. A [Store] opens a folder, a
// [Key] names a conversation, and a [Session] appends to it and returns its history.
//
// Most programs need ten calls, in this order:
//
//	store, err := session.Open(dir, nil)                  // a folder, or OpenDriver
//	key := session.Key{Channel: "cli", Peer: "ada"}       // where, and with whom
//	s, err := store.Load(ctx, key)                        // restored, or created once
//	pending, err := s.Pending(ctx)                        // unfinished work after a restart
//	_, err = s.Append(ctx, transcript.UserText(input))    // on disk before the model runs
//	history, err := s.History(ctx)                        // the next request
//	_, err = s.Append(ctx, response)                      // the answer, whole or not at all
//	_, err = s.AfterTurn(ctx)                             // compacts by Options.Compact.Trigger
//	for entry, err := range s.Entries(ctx, "") { ... }    // the stored conversation
//	for entry, err := range s.Follow(ctx, after) { ... }  // then what any process appends
//	err = store.Close()
//
// Package guard calls History and the model for you, and turn.RunTools appends the
// results of tools. A Session is a handle without Close; all handles of a session share
// its state in the Store. All types may be used by several goroutines, and several
// processes may open one store.
//
// # Several users
//
// A web backend with conversations by ID needs eight more calls. [Store.Scope] returns
// a store limited to one owner and its keys; make one per request. [Store.Create] with
// an empty Key makes a conversation, [Session.Ref] and [Store.Get] name and find it,
// [Store.List] pages through conversations by owner, label, state and time, and
// [Store.Delete] removes one completely. [Session.AppendIf] makes repeated requests
// harmless, and [Session.SetMeta] sets titles and labels. If two requests may answer in
// one conversation, turn.Begin admits one at a time.
//
// With [Options], [Info], [Ref], [Cond], [Appended], [ListOptions] and [CreateOptions]
// these are all names of this package that a newcomer needs. The docs of transcript and
// guard list theirs; rebuild adds History, Pending and PendingCall, turn adds RunTools.
//
// # Failures
//
// A nil error from Append means that the entries are stored, by the policy of
// [Options].Sync. [Session.Append] lists the errors, and docs/FORMAT.md what survives
// which crash. After a failed sync a session refuses appends with a
// [*NotDurableError] until [Session.Recover] has copied its transcript to new blocks.
//
// # Change the history
//
// [Session.Rewind] goes back to an entry, and [Session.Fork] begins a new session
// there. [Session.Compact] replaces older messages by a summary.
//
// # Features
//
// These packages use only exported names of this one, above all [Session.View]
// and [Session.Update], as any program may:
//
//   - turn: one turn at a time, tools, approvals, streamed drafts, pins, values, undo;
//   - search: words in whole transcripts, and recall tools for a model;
//   - retain: retention plans and archives; nothing is removed by itself;
//   - erase: removal of a person, sessions or entries. Call its Resume after [Open];
//   - memory: chapters of conversations, and memories made of them;
//   - blobs: a [Filter] that stores media outside of the transcripts;
//   - exchange: import, export and copies;
//   - serve: an HTTP handler.
//
// [Redact] is a [Filter] that masks texts before they are written, and the hook of
// transcript/redact knows common secrets. [transcript.WithApp] attaches data of the
// application to a message.
package session

// Decisions:
//
// Concurrent appends join in internal/live/queue.go. Follow keeps an offset after the last
// whole batch and reads from there when woken. It buffers nothing, so it neither delays
// writers nor misses entries.
//
// A compaction resets the calibrations: its batch repeats the valid ones. Failures of
// a summarizer are stored as calibrations; its cooldown counts tokens, not time.
