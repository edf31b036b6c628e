//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/pgtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

var database *pgtest.Server

func TestMain(m *testing.M) {
	if os.Getenv("CONVOLOG_WORKER") != "" {
		if err := work(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // a recovery waits for the engine and not for a processor
	os.Exit(pgtest.Main(m, &database))
}

// order is the text of the user. All texts of a conversation contain it.
var order = strings.Repeat("a room in Porto ", 5000)

// A killer counts the moments before and after each statement that stores a part of a
// turn, and kills the process at one of them.
type killer struct {
	at, count atomic.Int64 // at is 0 in a process that is not killed
	stored    sync.Map     // the connections whose transaction is not committed yet
}

// statements are the parts of the statements that store something of a turn.
var statements = []string{
	`".append(`, // of the session
	`INSERT INTO "dbos".workflow_status`,
	`INSERT INTO "dbos".operation_outputs`, // the checkpoint of a step
	`SET status = $1, updated_at = (EXTRACT(EPOCH FROM now()) * 1000)::bigint, completed_at =`, // the end
}

// counted is the context key of such a statement.
type counted struct{}

func (k *killer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if q.SQL == "commit" {
		if _, ok := k.stored.LoadAndDelete(conn); !ok {
			return ctx
		}
	} else {
		sql := strings.Join(strings.Fields(q.SQL), " ")
		if !slices.ContainsFunc(statements, func(part string) bool { return strings.Contains(sql, part) }) {
			return ctx
		}
		k.stored.Store(conn, true)
	}
	k.moment()
	return context.WithValue(ctx, counted{}, true)
}

func (k *killer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(counted{}) != nil {
		k.moment()
	}
}

func (k *killer) moment() {
	if k.count.Add(1) == k.at.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// A watched model notes its calls and never gives the same answer twice. It calls two
// tools at once.
type watched struct {
	model
	note func(line string) error
}

func (w watched) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	answer, err := w.model.Complete(ctx, req)
	if err != nil {
		return nil, err
	}
	content := append([]transcript.Block{transcript.TextBlock{Text: rand.Text()}}, answer.Message.Content...)
	for _, c := range answer.Message.ToolCalls() {
		c.ID = rand.Text()
		content = append(content, c)
	}
	answer.Message.Content = content
	return answer, w.note("model")
}

// work is a process of the program. It prints the number of moments.
func work(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("CONVOLOG_WORKER"))
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(os.Getenv("CONVOLOG_KILL"), 10, 64)
	if err != nil {
		return err
	}
	k := &killer{}
	k.at.Store(at)
	config.ConnConfig.Tracer = k
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	notes, err := os.OpenFile(os.Getenv("CONVOLOG_NOTES"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer notes.Close()
	note := func(line string) error {
		_, err := fmt.Fprintln(notes, line)
		return err
	}
	a := newAgent(watched{note: note})
	a.run = func(ctx context.Context, key string, call transcript.ToolCallBlock) (string, error) {
		if err := note(key); err != nil {
			return "", err
		}
		return book(ctx, key, call)
	}
	id := os.Getenv("DBOS__APPVERSION") // so that no other process of the test continues its workflow
	if err := talk(ctx, pool, a, id, id, order, io.Discard); err != nil {
		return err
	}
	fmt.Println(k.count.Load())
	return nil
}

// A conversation has one turn, which processes run until one of them is not killed.
type conversation struct {
	id, notes string
	kills     int
}

func newConversation(t *testing.T, id string) *conversation {
	return &conversation{id: id, notes: filepath.Join(t.TempDir(), "notes")}
}

// process runs a process that is killed at a moment, unless at is 0 or the process ends
// before. It returns the number of moments, or 0 for a killed process.
func (c *conversation) process(t *testing.T, at int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // this test again
	cmd.Env = append(os.Environ(), "CONVOLOG_WORKER="+database.URL, "CONVOLOG_KILL="+strconv.Itoa(at), "CONVOLOG_NOTES="+c.notes, "DBOS__APPVERSION="+c.id)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, ctx.Err(), "the process does not end")
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		c.kills++
		return 0
	}
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	return n
}

// check fails unless the history has each entry of the turn once and in order, the tools
// ran as often as kills explain, and the engine stores references alone. It returns
// their size in bytes.
func (c *conversation) check(t *testing.T, pool *pgxpool.Pool, store *session.Store) (size int) {
	t.Helper()
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: c.id})
	require.NoError(t, err)
	var keys, types, calls []string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if e.Idem != "" {
			keys = append(keys, e.Idem)
		}
		types = append(types, e.Type())
		if e.Type() == transcript.TypeToolUse {
			calls = append(calls, e.ID)
		}
	}
	workflow := s.Ref().ID + "/" + c.id
	require.Equal(t, []string{workflow + "/text", workflow + "/0", workflow + "/1", workflow + "/2", workflow + "/3"}, keys)
	require.Equal(t, []string{"session", "user", "assistant", "tool_use", "tool_use", "tool_result", "tool_result", "assistant"}, types)
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Zero(t, p)

	notes, err := os.ReadFile(c.notes)
	require.NoError(t, err)
	runs := strings.Fields(string(notes))
	require.LessOrEqual(t, len(runs), 4+c.kills, "%s", notes)
	for _, run := range runs {
		require.True(t, run == "model" || slices.Contains(calls, run), "a tool has run with the key %s", run)
	}

	for table, column := range map[string]string{"workflow_input": "inputs", "workflow_output": "output", "operation_outputs": "output"} {
		rows, err := pool.Query(t.Context(), "SELECT coalesce(convert_from(decode("+column+", 'base64'), 'UTF8'), '') FROM dbos."+table+" WHERE workflow_uuid = $1", workflow)
		require.NoError(t, err)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, text := range texts {
			size += len(text)
			require.NotContains(t, text, "Porto")
			require.Contains(t, text, s.Ref().ID)
		}
	}
	require.Less(t, size, 2000, "bytes in the record of the engine")
	return size
}

// A turn that is killed before and after each append and each checkpoint, and once more
// in its recovery, ends with each entry once and in order.
func TestKilledEverywhere(t *testing.T) {
	pool, store := open(t)
	newConversation(t, "tables").process(t, 0) // makes the tables
	whole := newConversation(t, "whole")
	moments := whole.process(t, 0)
	require.GreaterOrEqual(t, moments, 5*2+4*4, "5 appends and 4 checkpoints")
	t.Logf("the text has %d bytes, the record of the engine %d", len(order), whole.check(t, pool, store))
	var done atomic.Int64
	t.Run("group", func(t *testing.T) {
		for at := 1; at <= moments; at++ {
			t.Run(strconv.Itoa(at), func(t *testing.T) {
				t.Parallel()
				c := newConversation(t, "turn-"+strconv.Itoa(at))
				require.Zero(t, c.process(t, at), "the process was not killed")
				c.process(t, 1+at*7%moments) // the recovery, which may end before this moment
				done.Add(int64(c.kills))
				if c.process(t, 0); !t.Failed() {
					c.check(t, pool, store)
				}
			})
		}
	})
	t.Logf("%d moments, %d kills", moments, done.Load())
}

// If another worker runs the same step and is faster, the step returns the other answer.
func TestTwoWorkers(t *testing.T) {
	pool, store := open(t)
	a := newAgent(nil)
	answers := 0
	a.model = client(func(ctx context.Context) (*transcript.Response, error) {
		if answers++; answers == 1 {
			s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "two"})
			if err != nil {
				return nil, err
			}
			if _, err := s.AppendIf(ctx, session.Cond{Idem: s.Ref().ID + "/two/0"}, transcript.AssistantText("from the other worker")); err != nil {
				return nil, err
			}
		}
		return &transcript.Response{Message: transcript.AssistantText("from this worker")}, nil
	})
	var out bytes.Buffer
	require.NoError(t, talk(t.Context(), pool, a, "two", "two", "hello", &out))
	require.Equal(t, "from the other worker\n", out.String())
	require.Equal(t, 1, answers)
}

// A message is another one if its ID is in use: by another user, by a step, or in a
// conversation that was deleted.
func TestUsedIDs(t *testing.T) {
	_, store := open(t)
	for _, tt := range []struct{ user, id string }{
		{"ann", "1"}, {"bob", "1"}, {"bob", "1/0"}, {"eve", "1/0"}, {"eve", "1"}, {"gone", "1"}, {"gone", "1"}, {"eve", ""}, {"eve", ""},
	} {
		s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: tt.user})
		require.NoError(t, err)
		if tt.user == "gone" {
			require.NoError(t, store.Delete(t.Context(), s.Ref()))
		}
		pool, _ := open(t) // the engine closes it
		var out bytes.Buffer
		text := rand.Text()
		require.NoError(t, talk(t.Context(), pool, newAgent(model{}), tt.user, tt.id, text, &out), tt)
		require.Contains(t, out.String(), text, tt)
	}
}

// client is a model of one function.
type client func(ctx context.Context) (*transcript.Response, error)

func (c client) Complete(ctx context.Context, _ transcript.Request) (*transcript.Response, error) {
	return c(ctx)
}

// open returns the database and the store of the processes.
func open(t *testing.T) (*pgxpool.Pool, *session.Store) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := pgdriver.Open(t.Context(), pool, nil)
	require.NoError(t, err)
	store := session.OpenDriver(d, nil)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return pool, store
}
