package pgdriver

import (
	"context"
	_ "embed" // for the schema
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schema string

// version is the version of the tables that schema makes. Older tables are not migrated.
const version = 3

// migrate makes missing tables, and checks the version of others. It holds a lock, and other
// drivers wait for it.
func (d *Driver) migrate(ctx context.Context) error {
	err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		exec := func(sql string, args ...any) error {
			_, err := tx.Exec(ctx, d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
			return err
		}
		// Functions of other roles in public could match the calls in the tables' defaults.
		if err := exec("SET LOCAL search_path = pg_catalog, pg_temp"); err != nil {
			return err
		}
		if err := exec("SELECT pg_advisory_xact_lock(hashtext('convolog'), hashtext($1))", d.opts.Schema); err != nil {
			return err
		}
		var made, there bool
		row := tx.QueryRow(ctx, `SELECT count(*) > 0, count(*) FILTER (WHERE EXISTS (
			SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'versions')) > 0
			FROM pg_namespace n WHERE n.nspname = $1`, pgx.QueryExecModeExec, d.opts.Schema)
		if err := row.Scan(&made, &there); err != nil {
			return err
		}
		if !there && d.opts.Existing {
			return fmt.Errorf("it holds no store: correct the name of the schema, or make a store there first: %w", fs.ErrNotExist)
		}
		if there {
			have, minWriter := 0, 0
			row := tx.QueryRow(ctx, d.sql.Replace("SELECT max(version), max(min_writer) FROM {s}.versions"), pgx.QueryExecModeExec)
			switch err := row.Scan(&have, &minWriter); {
			case err != nil:
				return err
			case minWriter > version:
				return fmt.Errorf("the tables have version %d, which this driver (version %d) must not write to: use a newer driver", have, version)
			case have < version:
				return fmt.Errorf("the tables have version %d, and this driver needs %d: use another schema, and copy the sessions with the program that wrote them", have, version)
			}
			return nil
		}
		if !made { // IF NOT EXISTS would require CREATE even for an existing schema
			if err := exec("CREATE SCHEMA {s}"); err != nil {
				return err
			}
		}
		// A simple query may contain several statements.
		if _, err := tx.Conn().PgConn().Exec(ctx, d.sql.Replace(schema)).ReadAll(); err != nil {
			return err
		}
		return exec("INSERT INTO {s}.versions (version, min_writer) VALUES ($1, $1)", version)
	})
	return d.outcomeOf(false, err)
}
