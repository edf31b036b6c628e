package serve_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

var faults = storetest.Faults

// The process of a server that is killed.
const (
	serverDir  = "CONVOLOG_SERVE_DIR"
	serverAddr = "CONVOLOG_SERVE_ADDR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		if err := serveFolder(dir, os.Getenv(serverAddr)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	storetest.Main(m)
}

// slowly is echo with time to be killed in.
func slowly(ctx context.Context, s *session.Session, tn *turn.Turn) error {
	h, err := s.History(ctx)
	if err != nil {
		return err
	}
	d := tn.Draft("test", "slow", transcript.Made{})
	content := h.Messages[len(h.Messages)-1].Content // with earlier unanswered ones
	said, _ := content[len(content)-1].(transcript.TextBlock)
	var text strings.Builder
	for _, word := range strings.SplitAfter(said.Text, " ") {
		text.WriteString(word)
		if err := d.Write(ctx, word); err != nil {
			return err
		}
		if err := d.Flush(ctx); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	_, err = d.Finish(ctx, &transcript.Response{Message: transcript.AssistantText(text.String()), StopReason: transcript.StopEndTurn})
	return err
}

func serveFolder(dir, addr string) error {
	store, err := session.Open(dir, &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	sv, err := serve.New(store, &serve.Options{Surfaces: everything(), Auth: anyone, Respond: slowly, Logger: quiet, Queue: 1000})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() { _ = sv.Resume(context.Background(), nil) }()
	return sv.HTTPServer(addr).Serve(l)
}

// client sends one text, is cut at random, and continues until its turn is
// over.
type client struct {
	url, session, key, message string
	random                     *rand.Rand
	seen                       []frame
	uncut                      bool
}

func (c *client) run(ctx context.Context) error {
	for ctx.Err() == nil {
		over, err := c.once(ctx)
		if err != nil || over {
			return err
		}
		time.Sleep(time.Duration(c.random.IntN(20)) * time.Millisecond)
	}
	return ctx.Err()
}

func (c *client) once(ctx context.Context) (over bool, err error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	method, url, body := "POST", c.url+"/api/agents/main/chat", fmt.Sprintf(`{"sessionId":%q,"message":%q}`, c.session, c.message)
	if len(c.seen) > 0 && c.random.IntN(2) == 0 {
		method, url, body = "GET", c.url+"/api/agents/main/chat/stream?sessionId="+c.session, ""
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.key)
	if len(c.seen) > 0 {
		req.Header.Set("Last-Event-ID", c.seen[len(c.seen)-1].id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil // the server is down
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return false, nil
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return false, fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	left := 1 + c.random.IntN(12)
	_ = frames(resp.Body, func(f frame) bool {
		if f.id == "" {
			return true
		}
		c.seen = append(c.seen, f)
		over = f.typ() == "done"
		left--
		return (left > 0 || c.uncut) && !over
	})
	return over, nil
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Clients that are cut at random, and whose server is killed several times, see each
// event once and in order; nothing that was said is there twice.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	clients, kills, words := 12, 2, 30
	switch *faults {
	case "gate":
		clients, words = 48, 60
	case "long":
		clients, kills, words = 500, 3, 120
	}
	dir, addr := t.TempDir(), freeAddr(t)
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0]) //nolint:gosec // this test again
		cmd.Env = append(os.Environ(), serverDir+"="+dir, serverAddr+"="+addr)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		return cmd
	}
	server := start()
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	url := "http://" + addr
	sessions := make([]string, clients/4+1) // several clients say something in one session
	for i := range sessions {
		var id string
		require.Eventually(t, func() bool {
			resp, err := http.Post(url+"/api/v1/sessions", "", nil)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			id = decode(t, resp)["result"].(map[string]any)["session_id"].(string)
			return id != ""
		}, time.Minute, 10*time.Millisecond)
		sessions[i] = id
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all := make([]*client, clients)
	var running sync.WaitGroup
	for i := range all {
		var message strings.Builder
		for w := range words {
			fmt.Fprintf(&message, "c%dw%d ", i, w)
		}
		c := &client{url: url, session: sessions[i%len(sessions)], key: fmt.Sprint("key", i), message: message.String(), random: rand.New(rand.NewPCG(uint64(i), 1))}
		all[i] = c
		running.Go(func() {
			if err := c.run(ctx); err != nil {
				t.Errorf("client %s: %v", c.key, err)
			}
		})
	}
	for range kills {
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, server.Process.Kill())
		_ = server.Wait()
		server = start()
	}
	running.Wait()

	said := map[string]int{}
	whole := 0
	for _, c := range all {
		seen, text := map[string]bool{}, ""
		for _, f := range c.seen {
			require.False(t, seen[f.id], "%s has seen %s twice", c.key, f.id)
			seen[f.id] = true
			if f.typ() == "text_delta" {
				text += f.data["text"].(string)
			}
		}
		require.True(t, strings.HasPrefix(c.message, text), "%s has seen %q", c.key, text)
		if text == c.message {
			whole++
		}
		again := &client{url: url, session: c.session, key: c.key, message: c.message, random: rand.New(rand.NewPCG(1, 1)), uncut: true}
		require.NoError(t, again.run(ctx))
		require.Equal(t, ids(again.seen), ids(c.seen), c.key)
	}
	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	defer store.Close()
	for _, id := range sessions {
		s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: id})
		require.NoError(t, err)
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeUser {
				said[f.Message().Text()]++
			}
		}
	}
	for _, c := range all {
		require.Equal(t, 1, said[c.message], c.key)
	}
	t.Logf("%d clients, %d kills, %d whole answers", clients, kills, whole)
}

func ids(all []frame) (ids []string) {
	for _, f := range all {
		ids = append(ids, f.id)
	}
	return ids
}
