// Convolog is the command line of examples/convolog that also opens stores in PostgreSQL.
// In a clone of the repository:
//
//	go install -C session/driver/pgdriver ./convolog
//	convolog copy .convolog postgres://localhost/chats
//	convolog session list --url postgres://localhost/chats
//
// Every command creates missing tables in the database, even a command that only reads.
//
// The parameter schema of a URL names the schema of the tables, convolog by default.
// All other parameters belong to libpq.
package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/examples/convolog/cli"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/pgdriver"
)

func main() { cli.Main(open) }

// open opens the store that a URL names.
func open(ctx context.Context, url string) (*session.Store, blobs.Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err // does not contain the password
	}
	opts := &pgdriver.Options{Schema: config.ConnConfig.RuntimeParams["schema"]}
	delete(config.ConnConfig.RuntimeParams, "schema")
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	if err = pool.Ping(ctx); err == nil {
		var d *pgdriver.Driver
		if d, err = pgdriver.Open(ctx, pool, opts); err == nil {
			filters := []session.Filter{blobs.Filter(d.Blobs(), nil)}
			return session.OpenDriver(owned{d, pool}, &session.Options{Filters: filters}), d.Blobs(), nil
		}
	}
	pool.Close()
	return nil, nil, fmt.Errorf("database %s on %s: %w", config.ConnConfig.Database, config.ConnConfig.Host, err)
}

// owned is a driver that closes its pool.
type owned struct {
	*pgdriver.Driver
	pool *pgxpool.Pool
}

// Close implements [driver.Driver].
func (d owned) Close() error {
	err := d.Driver.Close()
	d.pool.Close()
	return err
}
