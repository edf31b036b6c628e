// Package serve puts a store behind HTTP, on net/http alone. [New] makes an
// [http.Handler] that works below any prefix, see [http.StripPrefix]; the
// application's agent loop is its [Responder].
//
// # Put it behind HTTP
//
// The handler has several surfaces, each of which can be left out, see [Surface]:
// the routes of ZyHive and of OpenViking with their bodies and answers, sessions and
// events in the shape of Anthropic's managed agents, for its SDKs, and the store's own.
// [Server.Routes] lists them.
//
// Each request belongs to a [Principal], which Options.Auth finds. One that is no
// administrator sees the sessions of its owner alone, through
// [session.Store.Scope]: the ID of any other session is not found.
//
// # Reconnect
//
// An answer that is being made belongs to the server and not to the connection
// that asked for it: it goes on when the client is gone, and only a request to stop
// stops it. Nothing is sent to a client that was not in the transcript
// before, the text of an answer in the lines of its draft. The ID of an event is its place there, and a stream is
// made from the transcript: a client that reconnects with Last-Event-ID, to this
// server, to another replica, or to one that was killed and started again, goes on
// with the next event. Nothing is sent twice and nothing is left out. If there is no
// place to go on at, a reset event comes first, and the answer from its beginning.
//
// Text is streamed as often as the responder flushes its draft. Reasoning, calls and
// results are sent when they are appended.
//
// A stream ends with a terminal event on every path on which the client can still be
// written to. One that reads too slowly is cut, and goes on where it was when it
// reconnects; nobody waits for it.
package serve
