package pgdriver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// BenchmarkAppend has 32 goroutines in each of two processes append, each to a session
// of its own or all to one, beside transactions that lock a row, insert and update.
func BenchmarkAppend(b *testing.B) {
	for _, sessions := range []int{64, 1} {
		b.Run(fmt.Sprint("sessions=", sessions), func(b *testing.B) {
			pool := poolOf(b, server)
			var sides [2][2]*crowd
			for i, kind := range []string{"driver", "table"} {
				schema := newSchema(b, pool)
				if kind == "driver" {
					createSessions(b, pool, schema, sessions)
				} else {
					createTable(b, pool, schema, sessions)
				}
				for half := range sides[i] {
					sides[i][half] = startCrowd(b, schema, "crowd", kind, fmt.Sprint(half), fmt.Sprint(sessions))
				}
			}
			var took [2]time.Duration
			for b.Loop() {
				for i, both := range sides {
					start := time.Now()
					for _, c := range both {
						c.begin(b)
					}
					for _, c := range both {
						c.wait(b)
					}
					took[i] += time.Since(start)
				}
			}
			appends := float64(b.N) * 2 * crowdSize * crowdAppends
			b.ReportMetric(appends/took[0].Seconds(), "appends/s")
			b.ReportMetric(appends/took[1].Seconds(), "baseline/s")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "x-baseline")
		})
	}
}

// In each of two processes crowdSize goroutines append on command.
const (
	crowdSize    = 32
	crowdAppends = 20
)

// A crowd is a process that appends.
type crowd struct {
	in  io.Writer
	out *bufio.Scanner
}

func startCrowd(b *testing.B, args ...string) *crowd {
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CONVOLOG_CHILD="+server.URL)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, in.Close())
		require.NoError(b, cmd.Wait())
	})
	return &crowd{in, bufio.NewScanner(out)}
}

func (c *crowd) begin(b *testing.B) {
	_, err := fmt.Fprintln(c.in, "go")
	require.NoError(b, err)
}

func (c *crowd) wait(b *testing.B) {
	require.True(b, c.out.Scan(), c.out.Err())
	require.Equal(b, "done", c.out.Text())
}

// appendInCrowd runs in such a process. Its args are the kind, the half, and the
// number of sessions.
func appendInCrowd(ctx context.Context, pool *pgxpool.Pool, schema string, args []string) error {
	half, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	sessions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	add := appendToTable(pool, schema)
	if args[0] == "driver" {
		d, err := pgdriver.Open(ctx, pool, &pgdriver.Options{Schema: schema})
		if err != nil {
			return err
		}
		defer func() { _ = d.Close() }()
		add = func(ctx context.Context, session int, line driver.Line) error {
			_, err := d.Append(ctx, driver.Ref{Agent: "main", ID: fmt.Sprint("s", session)}, []driver.Line{line}, driver.Anywhere, nil)
			return err
		}
	}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		all, ctx := errgroup.WithContext(ctx)
		for g := range crowdSize {
			all.Go(func() error {
				for n := range crowdAppends {
					if err := add(ctx, (half*crowdSize+g)%sessions, note(fmt.Sprint(half, "-", g, "-", n))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

func note(id string) driver.Line {
	e := transcript.Entry{ID: id, Body: transcript.Custom{Name: "note", Data: fmt.Appendf(nil, "%q", make([]byte, 100))}}
	return driver.Line{ID: e.ID, Data: e.Line()}
}

func createSessions(b *testing.B, pool *pgxpool.Pool, schema string, sessions int) {
	d, err := pgdriver.Open(b.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(b, err)
	for i := range sessions {
		_, err := d.Create(b.Context(), driver.KeyRef{Agent: "main", Key: fmt.Sprint(i)}, func(gen int64) (driver.Row, driver.Line) {
			e := transcript.Entry{ID: fmt.Sprint("s", i), Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen}}
			return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
		})
		require.NoError(b, err)
	}
	require.NoError(b, d.Close())
}

// createTable makes a table as a program would for itself.
func createTable(b *testing.B, pool *pgxpool.Pool, schema string, sessions int) {
	_, err := pool.Exec(b.Context(), fmt.Sprintf(`CREATE SCHEMA %[1]s;
		CREATE TABLE %[1]s.sessions (id int PRIMARY KEY, lines bigint NOT NULL);
		CREATE TABLE %[1]s.lines (session int, seq bigint, data bytea, PRIMARY KEY (session, seq));
		INSERT INTO %[1]s.sessions SELECT n, 0 FROM generate_series(0, %[2]d) n`, pgx.Identifier{schema}.Sanitize(), sessions), pgx.QueryExecModeSimpleProtocol)
	require.NoError(b, err)
}

func appendToTable(pool *pgxpool.Pool, schema string) func(ctx context.Context, session int, line driver.Line) error {
	s := pgx.Identifier{schema}.Sanitize()
	return func(ctx context.Context, session int, line driver.Line) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var lines int64
			if err := tx.QueryRow(ctx, "SELECT lines FROM "+s+".sessions WHERE id = $1 FOR UPDATE", session).Scan(&lines); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO "+s+".lines VALUES ($1, $2, $3)", session, lines+1, line.Data); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE "+s+".sessions SET lines = $2 WHERE id = $1", session, lines+1)
			return err
		})
	}
}

// BenchmarkLoad scans 1,000 lines beside a plain SELECT that decodes them.
func BenchmarkLoad(b *testing.B) {
	pool := poolOf(b, server)
	schema := newSchema(b, pool)
	d, err := pgdriver.Open(b.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(b, err)
	defer func() { require.NoError(b, d.Close()) }()
	row, err := d.Create(b.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "s", Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen}}
		return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
	})
	require.NoError(b, err)
	for n := range 10 {
		var lines []driver.Line
		for i := range 100 {
			lines = append(lines, note(fmt.Sprint(n, "-", i)))
		}
		_, err := d.Append(b.Context(), row.Ref(), lines, driver.Anywhere, nil)
		require.NoError(b, err)
	}
	var took [2][]time.Duration
	for b.Loop() {
		start := time.Now()
		for _, err := range d.Scan(b.Context(), row.Ref(), 0, driver.Forward, nil) {
			require.NoError(b, err)
		}
		took[0] = append(took[0], time.Since(start))
		start = time.Now()
		rows, err := pool.Query(b.Context(), "SELECT data FROM "+pgx.Identifier{schema}.Sanitize()+".lines ORDER BY body, seq")
		require.NoError(b, err)
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&data}, func() error {
			_, err := transcript.ParseEntry(data)
			return err
		})
		require.NoError(b, err)
		took[1] = append(took[1], time.Since(start))
	}
	for i := range took {
		slices.Sort(took[i])
	}
	mid := b.N / 2
	b.ReportMetric(float64(took[0][mid].Microseconds()), "p50-µs")
	b.ReportMetric(took[0][mid].Seconds()/took[1][mid].Seconds(), "x-baseline")
}

// BenchmarkWake is the time from an append to the call that wakes a follower in
// another driver, by notification.
func BenchmarkWake(b *testing.B) {
	pools := []*pgxpool.Pool{poolOf(b, server), poolOf(b, server)}
	schema := newSchema(b, pools[0])
	var drivers []*pgdriver.Driver
	for _, pool := range pools {
		d, err := pgdriver.Open(b.Context(), pool, &pgdriver.Options{Schema: schema})
		require.NoError(b, err)
		defer func() { require.NoError(b, d.Close()) }()
		drivers = append(drivers, d)
	}
	_, err := drivers[0].Load(b.Context(), driver.KeyRef{Agent: "main", Key: "key"}, headerOf)
	require.NoError(b, err)
	woken := make(chan struct{}, 1)
	stop, err := drivers[1].Watch(ref, func(driver.Ref, error) {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	require.NoError(b, err)
	defer stop()
	time.Sleep(1500 * time.Millisecond) // it listens, and has looked
	var took []time.Duration
	for b.Loop() {
		for len(woken) > 0 {
			<-woken
		}
		_, err := drivers[0].Append(b.Context(), ref, []driver.Line{note("n")}, driver.Anywhere, nil)
		require.NoError(b, err)
		start := time.Now()
		<-woken
		took = append(took, time.Since(start))
		time.Sleep(50 * time.Millisecond) // the next notification does not wait for the one before
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*9/10].Microseconds()), "p90-µs")
}
