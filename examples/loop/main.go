// Loop is the smallest agent whose conversation survives everything: kill it at
// any point, and start it again.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// model is yours: any type with this method. This one repeats what it is told.
type model struct{}

func (model) Complete(_ context.Context, req transcript.Request) (*transcript.Response, error) {
	said := req.Messages[len(req.Messages)-1].Text()
	return &transcript.Response{Message: transcript.AssistantText("You said: " + said)}, nil
}

func main() {
	if err := run(context.Background(), "conversations", model{}, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, m guard.Client, in io.Reader, out io.Writer) error {
	store, err := session.Open(dir, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"}) // restored, or made
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Restored:", s.Turns(), "previous turns")
	g := &guard.Guard{System: "You are a helpful assistant.", Window: 200_000}
	for lines := bufio.NewScanner(in); lines.Scan() && lines.Text() != ""; {
		next := []transcript.Item{transcript.UserText(lines.Text())}
		for len(next) > 0 {
			if _, err := s.Append(ctx, next...); err != nil { // on disk before the model is asked
				return err
			}
			answer, err := guard.Complete(ctx, g, s, m) // a valid request that fits, whatever happened
			if err != nil {
				return err
			}
			if _, err := s.Append(ctx, answer); err != nil { // and before its tools run
				return err
			}
			fmt.Fprintln(out, answer.Message.Text())
			next = nil
			for _, call := range answer.Message.ToolCalls() { // yours, too
				next = append(next, transcript.ToolResult(call.ID, "There is no tool "+call.Name+"."))
			}
		}
	}
	return nil
}
