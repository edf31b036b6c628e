package pgdriver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// child is a process of a test, with a schema, a task and a lease.
func child(url string, args []string) int {
	if err := talk(context.Background(), url, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func talk(ctx context.Context, url string, args []string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if args[1] == "crowd" {
		return appendInCrowd(ctx, pool, args[0], args[2:])
	}
	opts := &pgdriver.Options{Schema: args[0]}
	if len(args) > 2 {
		if opts.Lease, err = time.ParseDuration(args[2]); err != nil {
			return err
		}
	}
	d, err := pgdriver.Open(ctx, pool, opts)
	if err != nil {
		return err
	}
	if args[1] == "mixer" {
		n, err := strconv.ParseUint(args[3], 10, 64)
		if err != nil {
			return err
		}
		steps, err := strconv.Atoi(args[4])
		if err != nil {
			return err
		}
		return mix(ctx, d, n, steps, func(e event) error { return json.NewEncoder(os.Stdout).Encode(e) })
	}
	if args[1] == "worker" {
		n, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return work(ctx, d, n, func(did deed) error { return json.NewEncoder(os.Stdout).Encode(did) })
	}
	row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "key"}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "session", Body: transcript.Header{Version: transcript.Version, Key: "key", Gen: gen}}
		return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
	})
	if err != nil {
		return err
	}
	say := func(n int) (string, error) {
		e := transcript.Entry{ID: fmt.Sprintf("%s-%d", args[1], n), Body: transcript.Custom{Name: "n"}}
		_, err := d.Append(ctx, row.Ref(), []driver.Line{{ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil)
		return e.ID, err
	}
	if args[1] == "holder" {
		return hold(ctx, d, row.Ref(), say)
	}
	for n := 0; ; n++ { // until it is killed
		id, err := say(n)
		if err != nil {
			return err
		}
		fmt.Println(id)
	}
}

// hold appends in a turn, and again when it reads a line, and then without a turn.
func hold(ctx context.Context, d *pgdriver.Driver, ref driver.Ref, say func(int) (string, error)) error {
	release, err := d.LockTurn(ctx, ref, true)
	if err != nil {
		return err
	}
	id, err := say(1)
	if err != nil {
		return err
	}
	fmt.Println(id)
	bufio.NewScanner(os.Stdin).Scan()
	_, err = say(2)
	fmt.Println(err)
	if err := release(); err != nil {
		return err
	}
	_, err = say(3)
	fmt.Println(err)
	return nil
}
