// Loop is the smallest agent whose conversation survives everything: kill it at
// any point, and start it again.
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

// model is yours: any type with this method. This one repeats what it is told.
type model struct{}

func (model) Complete(_ context.Context, req transcript.Request) (*transcript.Response, error) {
	said := req.Messages[len(req.Messages)-1].Text()
	return &transcript.Response{Message: transcript.AssistantText("You said: " + said)}, nil
}

// maxRounds is how often the model may speak for one line of the user.
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
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"}) // restored, or made
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
		if _, err := s.Append(ctx, transcript.UserText(lines.Text())); err != nil { // on disk before the model is asked
			return err
		}
		for range maxRounds {
			answer, err := guard.Complete(ctx, g, s, m) // a valid request that fits, whatever happened
			if answer != nil {                          // also the part of one that came before an error
				if _, saveErr := s.Append(context.WithoutCancel(ctx), answer); saveErr != nil {
					return errors.Join(err, saveErr)
				}
				fmt.Fprintln(out, answer.Message.Text())
			}
			if err != nil {
				return err
			}
			if len(answer.Message.ToolCalls()) == 0 {
				break
			}
			if err := turn.RunTools(ctx, s, 4, runTool); err != nil { // four at a time; each result is on disk at once
				return err
			}
		}
	}
	return nil
}

// runTool is yours, too.
func runTool(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
	return transcript.Message{}, fmt.Errorf("there is no tool %s", c.Call.Name)
}
