// Package turn runs the turns of an agent on a session: one at a time, with tools,
// decisions and queued texts that survive a kill.
//
// [Begin] takes the turn lock, which keeps out other turns in all processes, and
// closes answers that a killed process was streaming. Then a turn is
//
//	t, err := turn.Begin(ctx, s)
//	...
//	defer t.End()
//	answer, err := guard.Do(ctx, g, s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
//		draft = t.Draft(api, model, c.Made)
//		... draft.Write(ctx, text) for each text of the stream
//	})
//	_, err = draft.Finish(ctx, answer)
//	err = turn.RunTools(ctx, s, 4, run)
//
// and again from guard.Do on until an answer calls no tools. A program that does
// not stream appends the answer itself; one that has a single turn at a time needs no
// Begin.
//
// # Calls
//
// A call has a state, see [rebuild.CallState], which [session.Session.Pending]
// returns. [RunTools] runs the calls that are not started or approved, and
// [Dispatch] records each on stable storage before its tool starts: after a kill a
// program sees which tools may have run. [Decide] holds a call for a person,
// approves or rejects it. An entry of either kind is appended only if the state of
// the call allows it: check and write are one step, also against other processes.
//
// Calls are named by their entry IDs, because IDs of tool calls may occur twice.
// Where another program has written several calls in one line, the ID of that line
// names all of them that have no result.
//
// # Other things a session keeps
//
// [Queue] keeps texts that a user sends during a turn until [Drain] appends them.
// [Pin] carries the text of an entry through every compaction. [SetValue] keeps data
// of the application. [Undo] takes back whole turns. [Retitle] has a model write the
// title, and [Titles] after each turn.
//
// All of it is written over the public API of package session.
package turn
