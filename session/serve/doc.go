// Package serve serves a store over HTTP, on net/http alone. [New] makes an
// [http.Handler] that works below any prefix, see [http.StripPrefix]; the
// application's agent loop is its [Responder].
//
// # Serve a store
//
// The handler has surfaces, which Options.Surfaces lists: the store's own routes, which
// [Own] returns, and routes of other programs, with their bodies and answers, in the
// packages zyhive and openviking.
//
// Each request belongs to a [Principal], which Options.Auth finds. Only
// administrators see more than the sessions of their owner, which
// [session.Store.Scope] enforces: the ID of any other session is not found.
//
// # Use the store from elsewhere
//
// The routes below /v1/store take and answer the JSON forms of the types of package
// session: lists with their filters and cursors, pages of a conversation, search as
// lines of JSON, forks, rewinds, hides, pins, exports, and for administrators imports,
// retention and erasing, each of which is a plan that is sent back to be carried out.
// Entries can be followed as events with the IDs of the entries, and so can the
// changes of the store. A call that a responder holds waits for a decision of its
// owner, over every restart; the decision continues the answer. Unknown parameters and
// members are refused. GET /openapi.json describes all routes that are served.
//
// # Write a surface
//
// A [Surface] is a table of routes and a form of problems. A function of a route gets a
// [Request], whose principal, body and size were checked: its Store is limited to the
// sessions of the principal. [Request.Say] queues a text for the responder;
// [Request.Turn] and [Request.Stream] show the answer, and resume it. Package zyhive is
// an example.
//
// # Keep others out
//
// [New] wants Options.Auth, and nothing is trusted for its address: requests of a proxy, a
// tunnel or another user come from this machine too. A program for one person makes one
// random key when it starts, as the example programs do: [crypto/rand.Text]. A link to
// the page may have it, /page#token=KEY, as browsers send no fragment. A proxy must use
// TLS, limit guesses at keys and pass on the Host.
//
// Web pages of other sites are refused, also for GET, except for Options.Origins. Bodies
// must be JSON. They are read once the sender is known, and are bounded in size and time,
// each of them and all together. [Server.HTTPServer] bounds headers, and
// Options.Requests the open requests of one owner, streams and searches included. The
// bodies and answers of one owner leave a quarter to others, and Options.Admit adds quotas
// of the application. A session of another owner is answered like one that does not exist,
// except that an ID in use cannot be taken. Problems (RFC 9457) have stable codes and
// name the member that is wrong; neither they nor the log name paths, keys or texts. Every
// answer forbids browsers to take it for a page.
//
// Options.Auth is asked for every request, so a function that reads the keys anew rotates
// and revokes them. Open streams of a revoked key continue until they end.
//
// # Show a page
//
// With [Page] in Options.Surfaces there is a page at /page, one file that loads
// nothing: sessions with search and filters; messages with calls, results and
// reasoning folded; the content of the window, and places of compactions; answers
// while they are written; titles, forks and exports; and for administrators the logs
// of channels, if Options.ChannelLogs reads them. It works below any prefix, in dark
// and light, on narrow screens and with keys: press ? for a list. Where Options.Auth
// is set the page asks for a key and has it kept in a cookie that no script can read
// and no other site can send. The cookie holds that key, and browsers send a cookie to
// all ports of a host: give the server a host name of its own. All content is shown as
// text. Export as html gives the same view of one session in a file that opens
// offline, see [exchange.HTML].
//
// # Reconnect
//
// An unfinished answer belongs to the server and not to the connection that requested it:
// it continues without the client, until it ends or a request stops it. Everything sent
// to a client is in the transcript first, the text of an answer in the lines of its
// draft. The ID of an event is its place there, and a stream is made from the transcript:
// a client that reconnects with Last-Event-ID, to this server, to another replica, or to
// one that was killed and restarted, continues with the next event. Each event is sent
// once. If there is no place to continue at, a reset event comes first, and the answer
// from its beginning.
//
// Text is streamed as often as the responder flushes its draft. Reasoning, calls and
// results are sent when they are appended.
//
// A stream ends with a terminal event on every path on which the client can still be
// written to. A client that reads too slowly is cut, and continues where it was when
// it reconnects.
package serve

// Decisions:
//
// Route tables feed the mux, the OpenAPI document and the tests of safety, so none can
// miss a route. One function authenticates each request, narrows the store to the owner
// and reads the body. One writer sets a deadline for each part of an answer.
//
// A stream is a function of the transcript (tail.go): equal entries give equal events
// and IDs on every server, so resuming needs no buffer. Text is in a draft line before
// any client receives it.
//
// Only failures of a turn are written, as an interrupt line. Otherwise a conversation
// over HTTP has the same lines as one in Go. Each posted text gets its own turn: two
// tabs get two answers.
//
// Options.ChannelLogs is a function, so no package of the library reaches channel logs.
