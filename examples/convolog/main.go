// Convolog shows and maintains conversations, in a folder or over HTTP.
//
//	convolog session list
//	convolog session show 90b78fda --url http://localhost:1933
//	convolog pending --url postgres://localhost/chats
//	convolog help
//
// Every command works on a folder (--dir) and over a server or a database (--url), except
// for inspect, convert, serve and doctor --repair, which need files. A URL that begins with
// postgres:// names a store in PostgreSQL; commands create its missing tables. With --json a
// command prints one JSON value, or a line of JSON for each item of a stream. If the command
// fails, it writes {"error":"...","exit":1} to the standard error.
//
// The exit code is 0 after success, 1 after a failure, 2 after a wrong command line, 3 if
// the session, folder or server does not exist, and 4 if doctor has findings.
package main

import "github.com/convolog/convolog/examples/convolog/internal/cli"

func main() { cli.Main() }
