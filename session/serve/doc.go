// Package serve serves a store over HTTP, on net/http alone. [New] makes an
// [http.Handler] that works below any prefix, see [http.StripPrefix]; the
// application's agent loop is its [Responder].
//
// Most programs need [New] with Respond, Auth, by [Keys] for example, and [Own] routes.
//
// # Serve a store
//
// The handler serves surfaces, which Options.Surfaces lists. [Own] returns the store's own
// routes. The packages zyhive and openviking return the routes of other programs, with
// the bodies and answers of those programs.
//
// Options.Auth finds the [Principal] of each request. A principal sees only the sessions
// of its owner, except for administrators. [session.Store.Scope] enforces this: the ID of
// any other session is not found.
//
// # Use the store from elsewhere
//
// The routes below /v1/store take and answer the JSON forms of the types of package
// session. They list sessions with filters and cursors, page through a conversation,
// search with one hit on a line of JSON, fork, rewind, hide, pin and export.
// Administrators can also import, apply retention and erase. Retention and erase first
// answer with a plan, and the client sends the plan back to carry it out. Clients can
// follow entries as events with the IDs of the entries, and follow the changes of the
// store. A call that a responder holds waits for a decision of its owner, even over
// restarts; the decision continues the answer. Unknown parameters and members are refused.
// GET /openapi.json describes all served routes.
//
// # Write a surface
//
// A [Surface] is a table of routes and a form of problems. The function of a route gets a
// [Request] after its principal, body and size were checked. Its Store is limited to the
// sessions of the principal. [Request.Say] queues a text for the responder, perhaps with a
// prompt for its turn. [Request.Turn] and [Request.Stream] stream the answer and resume
// it. Package zyhive is an example.
//
// # Keep others out
//
// [New] requires Options.Auth. The server trusts no address: requests of a proxy, a
// tunnel or another user also come from this machine. A program for one person makes one
// random key when it starts, as the example programs do with [crypto/rand.Text]. A link to
// the page may contain the key, /#token=KEY, as browsers send no fragment. A proxy must
// use TLS, limit guesses at keys and pass on the Host.
//
// Requests of web pages of other sites are refused, even a GET, except for Options.Origins.
// Bodies must be JSON, or lines of JSON for an import. The server reads a body once the
// sender is known, and limits its time and size; Options.MaxBody also limits all bodies
// together. [Server.HTTPServer] limits headers. Options.Requests limits the open requests
// of one owner, including streams and searches. The bodies and answers of one owner leave
// a quarter to others, and Options.Admit adds quotas of the application. A session of
// another owner gets the same answer as a missing one, except that its ID cannot be taken.
// Problems (RFC 9457) have stable codes and point to the wrong member. Neither they nor
// the log name paths, keys or texts. Every answer but [Page] forbids display as a page.
//
// The server calls Options.Auth for every request, so a function that reads the keys anew
// rotates and revokes them. Open streams of a revoked key continue until they end.
//
// # Show a page
//
// With [Page] in Options.Surfaces the server serves a page at / and /page, one file that
// loads no other file. It shows sessions with search and filters; messages with calls,
// results and reasoning folded; stored entries; the content of the window, and places of
// compactions; answers while they are written; titles, forks and exports. Its inbox lists
// held calls, and approves or rejects them. Administrators also see the logs of
// channels, if Options.ChannelLogs reads them. The page works below any prefix, in dark
// and light, on narrow screens and with the keyboard: press ? for a list. If Options.Auth
// refuses the browser, the page asks for a key. The server keeps the key in a cookie that no
// script can read and no other site can send. Browsers send a cookie to all ports of a
// host, so give the server a host name of its own. The page shows all content as text. An
// export as html gives the same view of one session in a file that opens offline, see
// [exchange.HTML].
//
// # Reconnect
//
// An unfinished answer belongs to the server and not to the connection of its client:
// the answer continues without the client, until it ends or a request stops it. All data
// is in the transcript before it is sent to a client; the text of an answer is in the lines
// of its draft. The ID of an event is its place in the transcript, and streams are made
// from the transcript. A client reconnects with Last-Event-ID, to this server, to another
// replica, or to a server that was killed and restarted. It continues with the next event,
// and gets each event once. If the server finds no place to continue, it sends a reset
// event, and then the answer from its beginning.
//
// Text is streamed as often as the responder flushes its draft. Reasoning, calls and
// results are sent when they are appended. A stream ends with a terminal event whenever
// the server can still write to the client. The server disconnects a client that reads
// too slowly. After a reconnect the client continues where it was.
//
// A client that lost the answer to a POST repeats it with the same Idempotency-Key. Nothing
// happens twice, and the answer names the entry of the first request. GET
// .../entries?after=ENTRY or .../follow?after=ENTRY finds its answer. For a queued text
// that follows the message of the user with ENTRY as its member queued.
package serve

// Decisions:
//
// Route tables feed the mux, the OpenAPI document and the safety tests. One function
// authenticates each request, limits the store to the owner and reads the body. One writer
// sets a deadline for each part of an answer.
//
// A stream is a function of the transcript (tail.go): equal entries give equal events
// and IDs on every server, so resuming needs no buffer. Text is in a draft line before
// any client receives it.
//
// The server adds one kind of line, an interrupt when a turn fails or is stopped. Otherwise
// a conversation over HTTP has the same lines as a conversation in Go. Each posted text
// gets its own turn: two tabs get two answers.
//
// Options.ChannelLogs is a function, so no package of the library imports channel logs.
