// Convolog looks at conversations and keeps house, in a folder or over HTTP.
//
//	go run ./examples/convolog session list
//	go run ./examples/convolog show 0193 --url http://localhost:1933
//	go run ./examples/convolog help
//
// Every command works over a folder (--dir) and over a server (--url), but for
// inspect, convert, copy, serve and doctor --repair, which need files. The same program
// for stores in PostgreSQL is in session/driver/pgdriver/convolog. With --json a
// command prints one JSON value, or a line of JSON for each item of a stream. If it
// fails, the standard error has {"error":"...","exit":1}.
//
// The exit code is 0 if all went well, 1 if it failed, 2 if the command line is
// wrong, 3 if there is no such session, folder or server, and 4 if doctor has found
// something.
package main

import "github.com/convolog/convolog/examples/convolog/cli"

func main() { cli.Main(nil) }
