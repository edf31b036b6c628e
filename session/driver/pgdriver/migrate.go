package pgdriver

import (
	"context"
	_ "embed" // for the schema
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaOne string

// migrations bring the tables from one version to the next. They only add, so that
// older drivers go on working beside newer ones, until min_writer says otherwise.
var migrations = []string{schemaOne}

// version is that of the tables this driver makes.
var version = len(migrations)

// migrate makes the tables or brings them up to date, under a lock that other
// drivers wait for.
func (d *Driver) migrate(ctx context.Context) error {
	return pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		exec := func(sql string, args ...any) error {
			_, err := tx.Exec(ctx, d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
			return err
		}
		if err := exec("SELECT pg_advisory_xact_lock(hashtext('convolog'), hashtext($1))", d.opts.Schema); err != nil {
			return err
		}
		var there bool
		row := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.QueryExecModeExec, pgx.Identifier{d.opts.Schema, "versions"}.Sanitize())
		if err := row.Scan(&there); err != nil {
			return err
		}
		have, minWriter := 0, 0
		if there {
			row := tx.QueryRow(ctx, d.sql.Replace("SELECT max(version), max(min_writer) FROM {s}.versions"), pgx.QueryExecModeExec)
			if err := row.Scan(&have, &minWriter); err != nil {
				return err
			}
		} else if err := exec("CREATE SCHEMA IF NOT EXISTS {s}"); err != nil {
			return err
		}
		if minWriter > version {
			return fmt.Errorf("the tables have version %d, which this driver (version %d) must not write to: use a newer one", have, version)
		}
		for v := have; v < version; v++ {
			// A simple query may hold several statements.
			if _, err := tx.Conn().PgConn().Exec(ctx, d.sql.Replace(migrations[v])).ReadAll(); err != nil {
				return fmt.Errorf("migration to version %d: %w", v+1, err)
			}
			if err := exec("INSERT INTO {s}.versions (version, min_writer) VALUES ($1, 1)", v+1); err != nil {
				return err
			}
		}
		return nil
	})
}
