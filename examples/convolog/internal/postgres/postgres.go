// Package postgres opens stores in PostgreSQL by their URLs.
package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/pgdriver"
)

// Open opens the store that a URL names, with its blobs. A missing store is made, or with
// existing gives an error that matches fs.ErrNotExist. The parameter schema names the
// schema of the tables, convolog by default. All other parameters belong to libpq.
func Open(ctx context.Context, url string, existing bool) (*session.Store, blobs.Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err // does not contain the password
	}
	opts := &pgdriver.Options{Schema: config.ConnConfig.RuntimeParams["schema"], Existing: existing}
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
