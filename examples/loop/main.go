// Loop is the smallest agent whose conversation survives everything. Kill it at any
// point and start it again.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// model is a placeholder for your client: any type with this method.
type model struct{}

func (model) Complete(_ context.Context, req transcript.Request) (*transcript.Response, error) {
	text := req.Messages[len(req.Messages)-1].Text()
	return &transcript.Response{Message: transcript.AssistantText("You said: " + text)}, nil
}

// maxRounds limits the calls of the model for one line of the user.
const maxRounds = 30

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
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"}) // restored, or created
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "Restored:", info.Turns, "previous turns")
	g := &guard.Guard{System: "You are a helpful assistant.", Window: 200_000}
	for lines := bufio.NewScanner(in); lines.Scan() && lines.Text() != ""; {
		if err := reply(ctx, s, g, m, lines.Text(), out); err != nil {
			return err
		}
	}
	return nil
}

// reply answers one line of the user.
func reply(ctx context.Context, s *session.Session, g *guard.Guard, m guard.Client, line string, out io.Writer) error {
	if _, err := s.Append(ctx, transcript.UserText(line)); err != nil { // on disk before the model runs
		return err
	}
	for range maxRounds {
		answer, err := guard.Complete(ctx, g, s, m) // sends a valid request that fits the window
		if answer != nil {                          // complete, or cut by an error
			_, saveErr := s.Append(context.WithoutCancel(ctx), answer)
			fmt.Fprintln(out, answer.Message.Text())
			err = errors.Join(err, saveErr)
		}
		if err != nil || len(answer.Message.ToolCalls()) == 0 {
			return err
		}
		if err := turn.RunTools(ctx, s, 4, runTool); err != nil { // stores each result at once
			return err
		}
	}
	return nil
}

// runTool is yours as well.
func runTool(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
	return transcript.Message{}, fmt.Errorf("there is no tool %s", c.Call.Name)
}
