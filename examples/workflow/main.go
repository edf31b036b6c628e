// Workflow is an agent whose turns are workflows of DBOS. The engine resumes the steps of
// a turn after a crash, and Convolog keeps the conversation.
//
//	createdb convolog
//	go -C examples/workflow run . -database postgres:///convolog -id 1 Book a room in Porto
//
// Kill it at any point, and run the same command again: the turn continues, and no message
// comes twice. The record of the engine contains references to entries, and no texts.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// An agent is a model and its tools. After a crash it calls run again with the same key,
// so the service of the tool must carry out a key only once.
type agent struct {
	store *session.Store
	guard *guard.Guard
	model guard.Client
	run   func(ctx context.Context, key string, call transcript.ToolCallBlock) (output string, err error)
}

// A place is the input and the result of a step. The engine stores places and no texts.
type place struct {
	Session session.Ref
	Entry   string   // the first entry that the step appended
	Calls   []string // the entries of the calls that have no result
}

// maxRounds limits the calls of the model in one turn.
const maxRounds = 30

// turn is the workflow: each call of the model and each tool is a step.
func (a *agent) turn(ctx dbos.Context, at place) (place, error) {
	for range maxRounds {
		answer, err := dbos.RunAsStep(ctx, func(ctx context.Context) (place, error) { return a.ask(ctx, at) },
			dbos.WithStepName("ask"), dbos.WithStepMaxRetries(3))
		if err != nil || len(answer.Calls) == 0 {
			return answer, err
		}
		at = answer
		for _, call := range answer.Calls {
			at, err = dbos.RunAsStep(ctx, func(ctx context.Context) (place, error) { return a.tool(ctx, at, call) },
				dbos.WithStepName("tool"), dbos.WithStepMaxRetries(3))
			if err != nil {
				return at, err
			}
		}
	}
	return at, fmt.Errorf("no answer after %d rounds", maxRounds)
}

// ask is a step that calls the model and appends the answer.
func (a *agent) ask(ctx context.Context, at place) (place, error) {
	return a.once(ctx, at, func(s *session.Session) (transcript.Item, error) {
		return guard.Complete(ctx, a.guard, s, a.model) // an answer that an error cuts is asked for again
	})
}

// tool is a step that runs a tool and appends the result.
func (a *agent) tool(ctx context.Context, at place, call string) (place, error) {
	return a.once(ctx, at, func(s *session.Session) (transcript.Item, error) {
		pending, err := s.Pending(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(pending.Calls, func(c rebuild.PendingCall) bool { return c.Entry == call })
		if i < 0 {
			return nil, fmt.Errorf("call %s does not wait for a result", call)
		}
		c := pending.Calls[i].Call
		output, err := a.run(ctx, call, c)
		return transcript.ToolResult(c.ID, output), err
	})
}

// once makes and appends the item of a step, with the ID of the step as idempotency key.
// If an earlier run of the step has appended its item, once makes no other.
func (a *agent) once(ctx context.Context, at place, item func(*session.Session) (transcript.Item, error)) (place, error) {
	s, err := a.store.Get(ctx, at.Session)
	if err != nil {
		return place{}, err
	}
	key, err := stepID(ctx)
	if err != nil {
		return place{}, err
	}
	for e, err := range s.Entries(ctx, at.Entry) { // the end of the session
		if err != nil {
			return place{}, err
		}
		if e.Idem == key {
			return a.placeOf(ctx, s, e.ID)
		}
	}
	made, err := item(s)
	if err != nil {
		return place{}, err
	}
	done, err := s.AppendIf(ctx, session.Cond{Idem: key}, made)
	if err != nil { // ErrIdemMismatch if another worker was faster: the retry finds its entry
		return place{}, err
	}
	return a.placeOf(ctx, s, done.IDs[0])
}

// placeOf returns the result of a step that appended an entry.
func (a *agent) placeOf(ctx context.Context, s *session.Session, entry string) (place, error) {
	pending, err := s.Pending(ctx)
	at := place{Session: s.Ref(), Entry: entry}
	for _, c := range pending.Calls {
		at.Calls = append(at.Calls, c.Entry)
	}
	return at, err
}

// stepID returns the ID of the step that runs: the ID of its workflow and a number.
func stepID(ctx context.Context) (string, error) {
	step, _ := ctx.(dbos.Context) // nil outside of a step, which the engine refuses
	workflow, err := dbos.GetWorkflowID(step)
	if err != nil {
		return "", err
	}
	n, err := dbos.GetStepID(step)
	return fmt.Sprintf("%s/%d", workflow, n), err
}

// send appends a text of the user and starts its turn. A repeated call with the same ID
// appends nothing and returns the handle of the same turn. Other sessions may use the
// same ID. An empty ID is a new one.
func (a *agent) send(ctx dbos.Context, s *session.Session, id, text string) (dbos.WorkflowHandle[place], error) {
	workflow := s.Ref().ID + "/" + cmp.Or(id, rand.Text())
	done, err := s.AppendIf(ctx, session.Cond{Idem: workflow + "/text"}, transcript.UserText(text)) // the key of no step
	if err != nil {
		return nil, err
	}
	return dbos.RunWorkflow(ctx, a.turn, place{Session: s.Ref(), Entry: done.IDs[0]}, dbos.WithWorkflowID(workflow))
}

func main() {
	database := flag.String("database", "", "`URL` of the database; missing parts come from the variables of psql, such as PGHOST")
	user := flag.String("user", "user", "`name` of the user, who has one conversation")
	id := flag.String("id", "", "`ID` of the message; a repeated ID is not answered again, and without an ID each message is new")
	flag.Parse()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, *database)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	a := newAgent(model{})
	if err := talk(ctx, pool, a, *user, *id, strings.Join(flag.Args(), " "), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// talk sends one text of a user and prints the answer.
func talk(ctx context.Context, pool *pgxpool.Pool, a *agent, user, id, text string, out io.Writer) error {
	d, err := pgdriver.Open(ctx, pool, nil)
	if err != nil {
		return err
	}
	a.store = session.OpenDriver(d, nil)
	defer a.store.Close()
	engine, err := dbos.NewContext(ctx, dbos.Config{
		AppName: "convolog", SystemDBPool: pool, Logger: slog.New(slog.DiscardHandler),
		ApplicationVersion: "1", // a version recovers its own workflows: change it with the steps of turn
	})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(engine, a.turn)
	if err := dbos.Launch(engine); err != nil { // continues the turns of a killed process
		return err
	}
	defer func() { _ = dbos.Shutdown(engine, time.Minute) }()
	s, err := a.store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: user})
	if err != nil {
		return err
	}
	turn, err := a.send(engine, s, id, text)
	if err != nil {
		return err
	}
	end, err := turn.GetResult()
	if err != nil {
		return err
	}
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			return err
		}
		if m, ok := e.Body.(transcript.MessageLine); ok && e.ID == end.Entry {
			fmt.Fprintln(out, m.Message().Text())
		}
	}
	return nil
}
