package pgdriver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/pgtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// Writers continue while backends and the whole server are killed: acknowledged
// lines exist once, and other lines at most once.
func TestServerKilled(t *testing.T) {
	s, err := pgtest.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	pool := poolOf(t, s)
	d, err := pgdriver.Open(t.Context(), pool, nil)
	require.NoError(t, err)
	st := session.OpenDriver(d, nil)

	kills := extent(4, 60, 1000)
	var talk conversations
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() { talk.write(ctx, t, st, fmt.Sprint("session", i%3), fmt.Sprint("writer", i)) })
	}
	whole := killAll(t, s, kills, 40, talk.acked.Load)
	cancel()
	writers.Wait()
	require.NoError(t, s.Wait(t.Context()))
	require.NoError(t, d.Close())
	talk.check(t, pool, "")
	t.Logf("%d kills, %d of the whole server, %d acknowledged, %d unknown, %d refused", kills, whole, talk.acked.Load(), len(talk.unknown), talk.refused)
}

// killAll kills processes of a server, one at a time and every twentieth time all at once,
// with up to pause acknowledgements in between. It returns how often it killed them all.
func killAll(t *testing.T, s *pgtest.Server, kills int, pause int64, acked func() int64) (whole int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range kills {
		for next := acked() + rnd.Int64N(pause); acked() < next && !t.Failed(); {
			time.Sleep(500 * time.Microsecond)
		}
		if n%20 != 3 {
			killBackend(t, s, rnd)
			continue
		}
		whole++
		require.NoError(t, s.Kill())
		require.NoError(t, s.Run(t.Context()))
	}
	return whole
}

// killBackend kills one process of the server that a client is connected to, which
// makes the server end all others and recover.
func killBackend(t *testing.T, s *pgtest.Server, rnd *rand.Rand) {
	require.NoError(t, s.Wait(t.Context()))
	pool, err := pgxpool.New(t.Context(), s.URL)
	require.NoError(t, err)
	defer pool.Close()
	rows, err := pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	if err != nil {
		return // the server is not up yet
	}
	var pids []int
	for rows.Next() {
		var pid int
		require.NoError(t, rows.Scan(&pid))
		pids = append(pids, pid)
	}
	if len(pids) > 0 {
		_ = syscall.Kill(pids[rnd.IntN(len(pids))], syscall.SIGKILL) // it may be gone
	}
}

// conversations are the outcomes of writes, by the texts of the messages.
type conversations struct {
	acked   atomic.Int64
	mu      sync.Mutex
	there   map[string]bool
	unknown map[string]bool
	refused int
}

// write appends until ctx is done: single messages, batches, and batches under
// idempotency keys, which it retries until they are acknowledged.
func (c *conversations) write(ctx context.Context, t *testing.T, st *session.Store, key, name string) {
	var s *session.Session
	for n := 0; ctx.Err() == nil; n++ {
		texts := make([]string, n%3+1)
		items := make([]transcript.Item, len(texts))
		for i := range texts {
			texts[i] = fmt.Sprintf("%s %d %d", name, n, i)
			items[i] = transcript.UserText(texts[i])
		}
		var err error
		if s == nil {
			s, err = st.Load(ctx, session.Key{Agent: "main", Channel: "test", Peer: key})
		}
		if err == nil {
			var cond session.Cond
			if n%2 == 0 {
				cond.Idem = texts[0]
			}
			_, err = s.AppendIf(context.WithoutCancel(ctx), cond, items...)
		} else if ctx.Err() == nil {
			n--
			continue // a read failed; nothing was written
		}
		c.record(ctx, t, texts, err)
	}
}

func (c *conversations) record(ctx context.Context, t *testing.T, texts []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.there == nil {
		c.there, c.unknown = map[string]bool{}, map[string]bool{}
	}
	_, unknown := errors.AsType[*session.NotDurableError](err)
	for _, text := range texts {
		switch {
		case err == nil:
			c.there[text] = true
			c.acked.Add(1)
		case unknown:
			c.unknown[text] = true
		case ctx.Err() == nil:
			c.refused++ // nothing was written
		}
	}
}

// check reads everything again.
func (c *conversations) check(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	st := session.OpenDriver(d, nil)
	seen := map[string]int{}
	list, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	for _, info := range list {
		s, err := st.Get(t.Context(), info.Ref)
		require.NoError(t, err)
		for b, err := range transcript.Batches(s.Scan(t.Context(), session.ScanOptions{})) {
			require.NoError(t, err)
			require.True(t, b.Complete, "a part of an append")
			for _, e := range b.Entries {
				if f, ok := e.Body.(transcript.MessageLine); ok {
					seen[f.Message().Text()]++
				}
			}
		}
	}
	for text := range c.there {
		require.Equal(t, 1, seen[text], "acknowledged: %s", text)
		delete(seen, text)
	}
	for text, n := range seen {
		require.True(t, n == 1 && (c.unknown[text] || c.there == nil), "%d times, not acknowledged: %s", n, text)
	}
	require.NoError(t, d.Close())
}

// Writers in processes of their own are killed.
func TestClientKilled(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	var talk conversations
	talk.there, talk.unknown = map[string]bool{}, map[string]bool{}
	rnd := rand.New(rand.NewPCG(3, 4))
	for n := range extent(4, 40, 400) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], schema, fmt.Sprint("child", n))
		cmd.Env = append(os.Environ(), "CONVOLOG_CHILD="+server.URL)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for left := rnd.IntN(60); left >= 0 && lines.Scan(); left-- {
			talk.there[lines.Text()] = true
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() { // its earlier output
			talk.there[lines.Text()] = true
		}
		_ = cmd.Wait() // it was killed
		talk.unknown[fmt.Sprint("child", n)] = true
	}
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	seen := map[string]int{}
	row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, nil)
	require.NoError(t, err)
	for rec, err := range d.Scan(t.Context(), row.Ref(), 0, driver.Forward, nil) {
		require.NoError(t, err)
		seen[rec.Entry.ID]++
	}
	for id := range talk.there {
		require.Equal(t, 1, seen[id], id)
	}
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	require.NoError(t, d.Close())
}
