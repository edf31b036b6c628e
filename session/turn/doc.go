// Package turn runs the turns of an agent on a session: one at a time, with tools,
// decisions and queued texts that survive a kill. It is written over the public API of
// package session.
//
// Most programs need [RunTools], and with streams [Begin], [Turn.Ask] and [Turn.End]:
//
//	t, err := turn.Begin(ctx, s) // no other turn runs; a killed one has its streamed text
//	defer t.End()
//	answer, err := t.Ask(ctx, g, model, show) // streams, and stores the answer
//	err = turn.RunTools(ctx, s, 4, run)       // and ask the model again
//
// [Turn.Draft] keeps the text of a stream that Ask cannot read.
//
// The [Tool] run returns a message such as transcript.ToolResult(call.Call.ID, output).
// Begin takes the lock by [session.Session.LockTurn]. A program that does not stream appends
// the answer itself, and one that runs a single turn at a time needs no Begin. Hold Begin
// from before Pending until the turn ends: then a dispatched call belongs to a dead process,
// or waits by [ErrLater].
//
// After an answer that was cut, [Retry] takes it back and [Continue] keeps it: then ask the
// model again.
//
// A turn that was stopped or has failed without an answer appends a
// [transcript.Interrupt] with Ended, so that the model sees that. [Hide] takes out a
// message that a provider refuses.
//
// A call has a state, see [rebuild.CallState], which [session.Session.Pending] returns.
// [Dispatch] and [Decide] change it if the state allows that: check and write are one
// step, even against other processes. [Approvals] finds the held calls of all sessions.
// Calls are named by their entry IDs, because IDs of tool calls may occur twice. If
// another program has written several calls in one line, the ID of the line names those
// without a result.
package turn
