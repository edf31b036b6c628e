// Server serves conversations over HTTP. Answers survive a kill: kill the server while
// it answers, start it again, and clients continue where they were.
//
//	go run ./examples/server -token your-key
//	curl -N localhost:8080/api/agents/main/chat -d '{"message":"hello"}' -H 'Content-Type: application/json' -H 'X-API-Key: your-key'
//
// Without -url it needs no network: a scripted model inside the program streams its
// answers. With -url (and a key in ANTHROPIC_API_KEY) any Anthropic-compatible endpoint
// answers. Without -keys it serves only this machine, and only clients that send the
// token. Without -token the program makes a token, prints it, and writes it to a file in
// the folder for the commands of examples/convolog. With -memories the model extracts
// memories from conversations that a client commits. With -page the program prints a link
// that signs the browser in. The same server for several machines is examples/shared.
package main

import (
	"context"
	"flag"

	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/examples/internal/server"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript/redact"
)

func main() {
	var c server.Config
	c.Flags(flag.CommandLine)
	flag.StringVar(&c.Dir, "dir", home.Default, "`folder` of the conversations")
	mask := flag.Bool("mask", false, "mask secrets before they are stored; the store remembers this setting")
	flag.Parse()
	var opts session.Options
	if *mask {
		opts.Filters = []session.Filter{session.Redact(redact.Secrets)}
	}
	server.Main(c, func(context.Context) (*session.Store, error) {
		if err := home.Check(c.Dir); err != nil {
			return nil, err
		}
		return session.Open(c.Dir, &opts)
	})
}
