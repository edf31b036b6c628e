// Loop is the smallest agent whose conversation survives everything: it answers
// each line of its input until an empty one, and may be killed at any point.
//
//	go run ./examples/loop
//	go run ./examples/loop -url https://api.anthropic.com -model NAME
//
// The first needs no network: the model of offline.go reads the files that it
// is asked about. The second has the key in ANTHROPIC_API_KEY. What an
// application brings is in model.go: its model and its tools.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func main() {
	if err := run(context.Background(), flags(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c config, in io.Reader, out io.Writer) (err error) {
	store, err := session.Open(c.dir, &session.Options{
		Compact: compact.Options{Trigger: compact.Trigger{Window: c.window}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Restored: %d previous turns\n", s.Turns())

	g := &guard.Guard{System: "You are a helpful assistant.", Tools: tools, Window: c.window}
	lines := bufio.NewScanner(in)
	for lines.Scan() && strings.TrimSpace(lines.Text()) != "" {
		next := []transcript.Item{transcript.UserText(lines.Text())}
		for len(next) > 0 {
			if _, err := s.Append(ctx, next...); err != nil { // on disk before the model is asked
				return err
			}
			resp, err := guard.Do(ctx, g, s, func(ctx context.Context, call guard.Call) (*transcript.Response, error) {
				return c.model.Complete(ctx, call.Request)
			})
			if err != nil {
				return err
			}
			if _, err := s.Append(ctx, resp); err != nil { // and before its tools run
				return err
			}
			fmt.Fprintln(out, resp.Message.Text())
			next = runTools(resp.Message.ToolCalls()) // none: the turn is over
		}
		if _, err := s.AfterTurn(ctx); err != nil { // compacts the history if that is due
			return err
		}
	}
	return lines.Err()
}
