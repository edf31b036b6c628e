// Package pgdriver keeps sessions in PostgreSQL, so that programs on several machines
// share them. It is a module of its own, on pgx.
//
//	pool, err := pgxpool.New(ctx, "postgres://...")
//	d, err := pgdriver.Open(ctx, pool, nil)
//	store := session.OpenDriver(d, nil)
//
// It passes the suite of package sessiontest, as the file driver does. A line is a row
// with the bytes that were appended; one call of a function in the database appends,
// under the lock of the session's row. Package session joins concurrent appends of a
// process to a session into one call.
//
// # Durability
//
// A nil error means that the server has committed, with the synchronous_commit that it
// is set to; [Open] refuses a server that has it or fsync off, unless Options.Async is
// set. A failover keeps as much as the replication had copied.
//
// A call that loses its connection finds out whether it was committed before it tries
// again, for half a minute. After that it returns an [*UnknownError]. Reads are tried
// again for as long.
//
// # Media and memories
//
// [Driver.Blobs] keeps images, documents and the like in the database.
// [Driver.Memories] keeps the files of package memory.
//
//	store := session.OpenDriver(d, &session.Options{Filters: []session.Filter{blobs.Filter(d.Blobs(), nil)}})
//	known, err := memory.Open(d.Memories(), nil)
//
// # Turns
//
// The turn lock is a lease with an end. A process that pauses for longer than
// Options.Lease, because it was stopped or its machine was asleep, has lost it, and
// appends nothing to the session until it has released the turn.
//
// # Following
//
// A change is notified outside its transaction, because commits that notify wait for
// each other, and followers also poll every ten seconds. With a pooler that drops
// notifications they poll every second. Nothing else of the driver needs a session of
// the server: statements are prepared only on connections that lead to the server
// itself. So a pooler in transaction mode will do.
//
// # Rights
//
// The first [Open] makes the tables, for which its role needs CREATE on the database,
// or on an existing schema. Another role needs, after that:
//
//	GRANT USAGE ON SCHEMA convolog TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA convolog TO app;
//	GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA convolog TO app;
//
// No other role needs a right on the schema; whoever may read its tables reads every
// conversation, whatever the owner of a session. A role without a right on it may make
// functions and operators in public, in databases of PostgreSQL 14 and before. The
// driver calls none of them: its functions fix their search_path, and its statements
// name the schema of each function that another one could match better. Other programs
// that use the same role are not so careful: revoke CREATE ON SCHEMA public FROM
// PUBLIC, or give the store a role and a database of its own. A superuser, and the
// owner of the tables, can read and change everything.
//
// # Limits
//
// Deleted and erased words leave the tables. The server keeps them in dead rows until the
// next VACUUM, and longer in its write-ahead log, in replicas and in backups, as
// [Driver.Beyond] and the receipt of an erase report. A session
// has at most 16,777,215 lines, a blob and a file of a memory 256 MiB. Channel logs are
// not kept in the database.
//
// # Growth
//
// GROWTH.md in this folder describes the size of the tables, the settings and
// partitions for large ones, and backups.
package pgdriver

// Decisions:
//
// A cursor is the number of the body, which an erase changes, followed by the number of
// the line. A cursor of replaced lines therefore fails.
//
// An append is one call of a function under the lock of the session's row, in an implicit
// transaction.
//
// pgconn can report a safe retry after a commit: killed backends showed it. So before
// it sends lines again, the driver searches for the first one's ID under the row's
// lock.
//
// The fence of a turn belongs to the process: while a driver holds the lease of a
// session, each of its appends carries the fence, so a process that was suspended
// writes nothing.
//
// Blobs have no foreign key, because blobs of a fork come before its session. Put locks
// the row of the session, or finds the ID among sessions in creation.
//
// Memory files are rows, and their locks are leases. A write carries all leases of its
// driver and fails once one has ended. It names its attempt, and a retry first claims
// that name, so an earlier attempt fails wherever it waits.
//
// Poolers report other process numbers than pg_backend_pid. One query at Open detects
// them, and statements are prepared only on the server itself.
//
// Notifications are sent outside the transaction. A poll every ten seconds covers a
// process killed in between.
