package pgdriver_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// A place to append to: a driver, or a table that a program would make for itself.
type place struct {
	name   string
	append func(ctx context.Context, session int, line driver.Line) error
}

// BenchmarkAppend has 64 goroutines append, each to a session of its own or two
// drivers to one session, beside transactions that lock a row, insert and update.
func BenchmarkAppend(b *testing.B) {
	for _, sessions := range []int{64, 1} {
		b.Run(fmt.Sprint("sessions=", sessions), func(b *testing.B) {
			ours, theirs := database(b, sessions), table(b, sessions)
			var took [2]time.Duration
			for b.Loop() {
				for i, p := range []place{ours, theirs} {
					start := time.Now()
					crowd(b, sessions, p)
					took[i] += time.Since(start)
				}
			}
			appends := float64(b.N) * 64 * 20
			b.ReportMetric(appends/took[0].Seconds(), "appends/s")
			b.ReportMetric(appends/took[1].Seconds(), "baseline/s")
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "x-baseline")
		})
	}
}

func crowd(b *testing.B, sessions int, p place) {
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for n := range 20 {
				line := note(fmt.Sprint(g, "-", n))
				if err := p.append(b.Context(), g%sessions, line); err != nil {
					b.Error(p.name, err)
				}
			}
		})
	}
	all.Wait()
}

func note(id string) driver.Line {
	e := transcript.Entry{ID: id, Body: transcript.Custom{Name: "note", Data: fmt.Appendf(nil, "%q", make([]byte, 100))}}
	return driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
}

func database(b *testing.B, sessions int) place {
	pools := []*pgxpool.Pool{poolOf(b, server), poolOf(b, server)}
	schema := newSchema(b, pools[0])
	var drivers [2]*pgdriver.Driver
	for i := range drivers {
		d, err := pgdriver.Open(b.Context(), pools[i], &pgdriver.Options{Schema: schema})
		require.NoError(b, err)
		drivers[i] = d
		b.Cleanup(func() { require.NoError(b, d.Close()) })
	}
	var refs []driver.Ref
	for i := range sessions {
		row, err := drivers[0].Create(b.Context(), "main", fmt.Sprint(i), func(gen int64) (driver.Row, driver.Line) {
			e := transcript.Entry{ID: fmt.Sprint("s", i), Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen}}
			return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
		})
		require.NoError(b, err)
		refs = append(refs, row.Ref())
	}
	turn := 0
	var mu sync.Mutex
	return place{"pgdriver", func(ctx context.Context, session int, line driver.Line) error {
		mu.Lock()
		turn++
		d := drivers[turn%2]
		mu.Unlock()
		_, err := d.Append(ctx, refs[session], []driver.Line{line}, driver.Cond{})
		return err
	}}
}

func table(b *testing.B, sessions int) place {
	pools := []*pgxpool.Pool{poolOf(b, server), poolOf(b, server)}
	s := pgx.Identifier{newSchema(b, pools[0])}.Sanitize()
	_, err := pools[0].Exec(b.Context(), fmt.Sprintf(`CREATE SCHEMA %[1]s;
		CREATE TABLE %[1]s.sessions (id int PRIMARY KEY, lines bigint NOT NULL);
		CREATE TABLE %[1]s.lines (session int, seq bigint, data bytea, PRIMARY KEY (session, seq));
		INSERT INTO %[1]s.sessions SELECT n, 0 FROM generate_series(0, %[2]d) n`, s, sessions), pgx.QueryExecModeSimpleProtocol)
	require.NoError(b, err)
	turn := 0
	var mu sync.Mutex
	return place{"table", func(ctx context.Context, session int, line driver.Line) error {
		mu.Lock()
		turn++
		pool := pools[turn%2]
		mu.Unlock()
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
	}}
}

// BenchmarkLoad scans 1,000 lines beside a plain SELECT that decodes them.
func BenchmarkLoad(b *testing.B) {
	pool := poolOf(b, server)
	schema := newSchema(b, pool)
	d, err := pgdriver.Open(b.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(b, err)
	defer func() { require.NoError(b, d.Close()) }()
	row, err := d.Create(b.Context(), "main", "k", func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "s", Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen}}
		return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
	})
	require.NoError(b, err)
	for n := range 10 {
		var lines []driver.Line
		for i := range 100 {
			lines = append(lines, note(fmt.Sprint(n, "-", i)))
		}
		_, err := d.Append(b.Context(), row.Ref(), lines, driver.Cond{})
		require.NoError(b, err)
	}
	var took [2][]time.Duration
	for b.Loop() {
		start := time.Now()
		for _, err := range d.Scan(b.Context(), row.Ref(), 0, driver.Forward) {
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
	_, _, err := drivers[0].LoadOrCreate(b.Context(), "main", "key", headerOf)
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
		_, err := drivers[0].Append(b.Context(), ref, []driver.Line{note("n")}, driver.Cond{})
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
