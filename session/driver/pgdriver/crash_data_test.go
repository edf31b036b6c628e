package pgdriver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/convolog/convolog/session/erase"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/pgtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// A deed is an acknowledged action of a worker.
type deed struct {
	Session string // that a picture was appended to
	Seed    uint64 // of the picture
	Counted string // the folder of a counter that was moved on
}

// work appends pictures, and counts in a folder of files, until ctx is done or write
// fails. Errors come from kills.
func work(ctx context.Context, d *pgdriver.Driver, n int, write func(deed) error) error {
	st, m := session.OpenDriver(d, withBlobs(d.Blobs())), d.Memories()
	key := session.Key{Agent: "main", Channel: "test", Peer: fmt.Sprint(n % 2)}
	folder := fmt.Sprint("owners/", n%2)
	for seed := uint64(n); ctx.Err() == nil; seed += 7 {
		s, err := st.Load(ctx, key)
		if err == nil {
			_, err = s.Append(context.WithoutCancel(ctx), photo(seed%100))
		}
		if err == nil {
			err = write(deed{Session: s.Ref().ID, Seed: seed % 100})
			if err != nil {
				return err
			}
		}
		if count(ctx, m, folder) == nil {
			if err := write(deed{Counted: folder}); err != nil {
				return err
			}
		}
	}
	return nil
}

// count makes a file named after the counter of a folder, and moves the counter on.
func count(ctx context.Context, m memory.Storage, folder string) error {
	unlock, err := m.Lock(ctx, folder)
	if err != nil {
		return err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	data, err := m.Read(ctx, folder+"/counter")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n, _ := strconv.Atoi(string(data)) // 0 at first
	err = m.Create(ctx, fmt.Sprintf("%s/%06d", folder, n), []byte(strings.Repeat(fmt.Sprint(n, " "), 500)))
	if err != nil && !errors.Is(err, fs.ErrExist) { // the counter was not moved on
		return err
	}
	return m.Write(ctx, folder+"/counter", []byte(strconv.Itoa(n+1)))
}

// done are the deeds that were acknowledged.
type done struct {
	mu       sync.Mutex
	pictures map[string]map[uint64]int // by session
	counted  map[string]int
	all      int
}

func (a *done) add(d deed) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pictures == nil {
		a.pictures, a.counted = map[string]map[uint64]int{}, map[string]int{}
	}
	a.all++
	if d.Counted != "" {
		a.counted[d.Counted]++
		return nil
	}
	if a.pictures[d.Session] == nil {
		a.pictures[d.Session] = map[uint64]int{}
	}
	a.pictures[d.Session][d.Seed]++
	return nil
}

// check finds all acknowledged data, no blob without a line once a session was
// erased, and only whole files. At most unsure counts were not acknowledged.
func (a *done) check(t *testing.T, pool *pgxpool.Pool, schema string, unsure int) {
	t.Helper()
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	st := session.OpenDriver(d, withBlobs(d.Blobs()))
	require.NotEmpty(t, a.pictures)
	kept := 0
	for id, seeds := range a.pictures {
		s, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: id})
		require.NoError(t, err)
		h := shown(t, s)
		require.NotContains(t, h, "not there")
		for seed, n := range seeds {
			require.GreaterOrEqual(t, strings.Count(h, imageOf(photo(seed))), n)
		}
		gone, err := s.Append(t.Context(), transcript.UserText("erased"))
		require.NoError(t, err)
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: gone}}})
		require.NoError(t, err)
		_, err = erase.Run(t.Context(), st, plan)
		require.NoError(t, err)
		var lines strings.Builder
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			lines.Write(e.Line())
		}
		hashes, err := d.Blobs().List(t.Context(), s.Ref())
		require.NoError(t, err)
		for _, hash := range hashes {
			require.Contains(t, lines.String(), hash)
		}
		kept += len(hashes)
	}
	require.Equal(t, kept, countOf(t, pool, cmp.Or(schema, "convolog"), "blobs"))
	counts := 0
	for folder, acked := range a.counted {
		unlock, err := d.Memories().Lock(t.Context(), folder)
		require.NoError(t, err)
		unlock()
		data, err := d.Memories().Read(t.Context(), folder+"/counter")
		require.NoError(t, err)
		counter, err := strconv.Atoi(string(data))
		require.NoError(t, err)
		require.GreaterOrEqual(t, counter, acked)
		require.LessOrEqual(t, counter, acked+unsure)
		list, err := d.Memories().List(t.Context(), folder)
		require.NoError(t, err)
		require.Contains(t, []int{counter, counter + 1}, len(list)-1)
		for n, f := range list[:len(list)-1] {
			data, err := d.Memories().Read(t.Context(), f.Name)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%s/%06d", folder, n), f.Name)
			require.Equal(t, strings.Repeat(fmt.Sprint(n, " "), 500), string(data))
		}
		counts += counter
	}
	t.Logf("%d deeds acknowledged, %d blobs, %d counts", a.all, kept, counts)
	require.NoError(t, st.Close())
}

// Backends and the server are killed while pictures are appended and files written.
func TestDataServerKilled(t *testing.T) {
	s, err := pgtest.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	pool := poolOf(t, s)
	var did done
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	var drivers []*pgdriver.Driver
	for i := range 4 {
		if i%2 == 0 {
			d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Lease: time.Second})
			require.NoError(t, err)
			drivers = append(drivers, d)
		}
		workers.Go(func() { _ = work(ctx, drivers[i/2], i, did.add) })
	}
	kills := extent(4, 40, 400)
	killAll(t, s, kills, 12, func() int64 {
		did.mu.Lock()
		defer did.mu.Unlock()
		return int64(did.all)
	})
	cancel()
	workers.Wait()
	require.NoError(t, s.Wait(t.Context()))
	for _, d := range drivers {
		require.NoError(t, d.Close())
	}
	did.check(t, pool, "", 4*kills)
}

// Processes are killed that append pictures and write files.
func TestDataClientKilled(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	var did done
	rnd := rand.New(rand.NewPCG(7, 8))
	kills := extent(3, 40, 400)
	for n := range kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0], schema, "worker", "300ms", fmt.Sprint(n))
		cmd.Env = append(os.Environ(), "CONVOLOG_CHILD="+server.URL)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := json.NewDecoder(out)
		for left := rnd.IntN(30); ; left-- {
			var d deed
			if err := lines.Decode(&d); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			} else if err != nil {
				require.NoError(t, err)
			}
			require.NoError(t, did.add(d))
			if left == 0 {
				time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
				require.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait() // it was killed
	}
	did.check(t, pool, schema, kills)
}
