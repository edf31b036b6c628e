//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/pgtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

var (
	faults   = flag.String("faults", "short", "how much is killed: short, gate or long")
	database *pgtest.Server
)

func TestMain(m *testing.M) {
	if os.Getenv("CONVOLOG_REPLICA") != "" {
		main()
		return
	}
	flag.Parse()
	os.Exit(pgtest.Main(m, &database))
}

// lease is short, so that a test does not wait long for the lease of a killed replica.
const lease = time.Second

// A model is the service that a test's replicas call.
type model struct {
	url        string
	sent, held atomic.Int64 // events of an answer: the number sent, and the one to stop at, unless 0
}

func newModel(t *testing.T) *model {
	m := &model{}
	service := httptest.NewServer(&guardtest.Model{
		Answer: func(r guardtest.Request) guardtest.Answer {
			said := strings.Split(r.UserText(), "\n\n") // the last unanswered one
			return guardtest.Say(answer(said[len(said)-1]))
		},
		Pace: m.pace,
	})
	t.Cleanup(service.Close)
	m.url = service.URL
	return m
}

func (m *model) pace(ctx context.Context) error {
	m.sent.Add(1)
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		if held := m.held.Load(); held == 0 || m.sent.Load() < held {
			return nil
		}
	}
	return ctx.Err()
}

// hold makes the model stop in the middle of its next answer, or continue.
func (m *model) hold(on bool) {
	m.sent.Store(0)
	m.held.Store(0)
	if on {
		m.held.Store(25)
	}
}

// answer is the model's answer to a text: some 70 events.
func answer(text string) string {
	return text + strings.Repeat(" and so on it goes", 60)
}

// A replica is a process of this program.
type replica struct {
	t      *testing.T
	model  *model
	schema string
	url    atomic.Pointer[string]
	cmd    *exec.Cmd
}

func start(t *testing.T, m *model, schema string) *replica {
	t.Helper()
	r := &replica{t: t, model: m, schema: schema}
	r.run()
	t.Cleanup(r.kill)
	return r
}

func (r *replica) run() {
	r.t.Helper()
	r.cmd = exec.Command(os.Args[0], "-addr", "localhost:0", "-token", "your-key", "-database", database.URL, "-schema", r.schema, "-lease", lease.String(), "-url", r.model.url) //nolint:gosec // this test again
	r.cmd.Env = append(os.Environ(), "CONVOLOG_REPLICA=1")
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, r.cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(r.t, lines.Scan(), "the replica has not started")
	url := lines.Text()
	r.url.Store(&url)
}

// kill kills it like a crash of its machine.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // fails the second time
	_ = r.cmd.Wait()
}

// A client sends one text to any replica, and continues there or elsewhere
// until its turn is over.
type client struct {
	replicas              []*replica
	session, key, message string
	at                    func() int // which replica to talk to next
	cut                   func() int // after how many events the connection breaks
	seen                  []event
	text                  string
	failed                bool
}

type event struct {
	id   string
	Type string `json:"type"`
	Text string `json:"text"`
}

func (c *client) run(ctx context.Context) error {
	for ctx.Err() == nil {
		over, err := c.once(ctx, *c.replicas[c.at()].url.Load(), c.cut())
		if err != nil || over {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("client %s has seen %q: %w", c.key, c.text, ctx.Err())
}

// once talks to a replica until the connection breaks. It ignores failed connections.
func (c *client) once(ctx context.Context, url string, left int) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	method, path, body := http.MethodPost, "/api/agents/main/chat", fmt.Sprintf(`{"sessionId":%q,"message":%q}`, c.session, c.message)
	if len(c.seen) > 0 {
		method, path, body = http.MethodGet, path+"/stream?sessionId="+c.session, ""
	}
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.key)
	req.Header.Set("X-Api-Key", "your-key")
	if n := len(c.seen); n > 0 {
		req.Header.Set("Last-Event-ID", c.seen[n-1].id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // it is down
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return false, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	var e event
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && left > 0; {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			e = event{id: id}
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return false, err
		}
		c.seen, left = append(c.seen, e), left-1
		switch e.Type {
		case "text_delta":
			c.text += e.Text
		case "error":
			c.failed = true
		case "reset":
			return false, fmt.Errorf("client %s got a reset", c.key)
		case "done":
			return true, nil
		}
	}
	return false, nil
}

func (c *client) check(t *testing.T) {
	t.Helper()
	ids := map[string]bool{}
	for _, e := range c.seen {
		require.False(t, ids[e.id], "%s has seen %s twice", c.key, e.id)
		ids[e.id] = true
	}
	if c.failed {
		require.True(t, strings.HasPrefix(answer(c.message), c.text), "%s has seen %q", c.key, c.text)
		return
	}
	require.Equal(t, answer(c.message), c.text)
}

// open returns the store of the replicas.
func open(t *testing.T, schema string) *session.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	store := session.OpenDriver(d, nil)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func create(t *testing.T, store *session.Store, peer string) string {
	t.Helper()
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "http", Peer: peer}, nil)
	require.NoError(t, err)
	return s.Ref().ID
}

// A client that is cut off continues at the other replica, in the middle of a
// sentence, while the first one still answers, or after it was killed.
func TestReconnect(t *testing.T) {
	t.Parallel()
	const schema = "reconnect"
	store := open(t, schema)
	m := newModel(t)
	replicas := []*replica{start(t, m, schema), start(t, m, schema)}
	// talk sends a text to a replica, and continues at the other.
	talk := func(first int, kill bool) {
		m.hold(true)
		defer m.hold(false)
		turn := -1
		c := &client{replicas: replicas, key: fmt.Sprint(first, kill), message: "hello"}
		c.session = create(t, store, c.key) // unknown to all replicas, so the first one answers
		c.at = func() int {
			if turn++; turn == 1 {
				if kill {
					replicas[first].kill()
				}
				m.hold(false)
			}
			return (first + min(turn, 1)) % 2
		}
		c.cut = func() int {
			if turn > 0 {
				return 1000
			}
			return 2
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, c.run(ctx))
		require.Equal(t, kill, c.failed, "%v", c.seen)
		c.check(t)
		if kill {
			replicas[first].run()
		}
	}
	for _, first := range []int{0, 1} {
		talk(first, false)
		talk(first, true)
	}
}

// Clients that are cut at random, and talk to any replica, while replicas are killed and
// started again, see each event once and in order, and no text comes twice.
func TestReplicasKilled(t *testing.T) {
	t.Parallel()
	const schema = "killed"
	clients, kills := 8, 2
	if *faults == "long" {
		clients, kills = 100, 20
	}
	store := open(t, schema)
	m := newModel(t)
	replicas := []*replica{start(t, m, schema), start(t, m, schema)}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all := make([]*client, clients)
	var running sync.WaitGroup
	for i := range all {
		random := rand.New(rand.NewPCG(uint64(i), 1)) //nolint:gosec // a test
		c := &client{
			replicas: replicas, key: fmt.Sprint("key", i), message: fmt.Sprint("message ", i),
			at:  func() int { return random.IntN(2) },
			cut: func() int { return 1 + random.IntN(12) },
		}
		if c.session = create(t, store, fmt.Sprint("p", i)); i%2 == 1 {
			c.session = all[i-1].session // two send texts in one conversation
		}
		all[i] = c
		running.Go(func() {
			if err := c.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range kills {
		time.Sleep(500 * time.Millisecond)
		replicas[i%2].kill()
		replicas[i%2].run()
	}
	running.Wait()
	whole := 0
	for _, c := range all {
		c.check(t)
		if !c.failed {
			whole++
		}
		said := 0
		s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: c.session})
		require.NoError(t, err)
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeUser && f.Message().Text() == c.message {
				said++
			}
		}
		require.Equal(t, 1, said, c.key)
	}
	t.Logf("%d clients, %d kills, %d whole answers", clients, kills, whole)
}
