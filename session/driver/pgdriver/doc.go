// Package pgdriver keeps sessions in PostgreSQL, so that programs on several machines
// share them. It is a module of its own, on pgx.
//
//	pool, err := pgxpool.New(ctx, "postgres://...")
//	d, err := pgdriver.Open(ctx, pool, nil)
//	store := session.OpenDriver(d, nil)
//
// It passes the suite of package sessiontest, like the file driver. Each line is a row with
// the appended bytes. An append calls one function of the database, which holds the lock
// of the session's row. Package session joins concurrent appends of a process to a session
// into one call.
//
// # Durability
//
// A nil error means that the server has committed, with its setting of
// synchronous_commit. Unless Options.Async is set, [Open] fails if synchronous_commit or
// fsync is off. A failover keeps only the data that replication had copied.
//
// A call that loses its connection checks whether it was committed, and otherwise tries
// again, for half a minute. Then it returns a [*driver.NotDurableError]. Reads are also repeated
// for half a minute.
//
// # Media and memories
//
// [Driver.Blobs] keeps images, documents and the like in the database.
// [Driver.Memories] keeps the files of package memory.
//
//	store := session.OpenDriver(d, &session.Options{Filters: []session.Filter{blobs.Filter(d.Blobs(), nil)}})
//	known, err := memory.Open(d.Memories(), nil)
//
// # Transactions
//
// [WithTx] makes appends a part of the caller's transaction.
//
// # Turns
//
// The turn lock is a lease with an end. A process may pause for longer than Options.Lease,
// because it is stopped or its machine sleeps. Then it has lost the lock, and its appends
// to the session fail until it releases the turn.
//
// # Following
//
// The driver notifies of a change outside the transaction of the change, because commits
// that notify wait for each other. Followers therefore also poll every ten seconds. With a
// pooler that drops notifications they poll every second. The driver needs no other state of
// a server connection: it prepares statements only on direct connections to the
// server. A pooler in transaction mode is therefore sufficient.
//
// # Rights
//
// The first [Open] makes the tables. Its role needs CREATE on the database, or on an
// existing schema. Another role that opens the driver later needs these rights:
//
//	GRANT USAGE ON SCHEMA convolog TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA convolog TO app;
//	GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA convolog TO app;
//
// Give no right on the schema to other roles: a role that may read its tables can read the
// conversations of all owners. In databases of PostgreSQL 14 and before, a role without a
// right on the schema can make functions and operators in public. The driver calls none of
// them: its functions fix their search_path, and its statements name the schema of each
// function that another function could match better. Other programs with the same role may
// be less careful: revoke CREATE ON SCHEMA public FROM PUBLIC, or give the store a role
// and a database of its own. A superuser and the owner of the tables can read and change
// all data.
//
// # Limits
//
// Deleted and erased words leave the tables. The server keeps them in dead rows until the
// next VACUUM, and longer in its write-ahead log, in replicas and in backups, as
// [Driver.Beyond] and the receipt of an erase report. A session has at most 16,777,215
// lines. A blob or a memory file has at most 256 MiB. The database does not hold channel
// logs.
//
// # Growth
//
// GROWTH.md in this folder describes the size of the tables, settings and partitions for
// large tables, and backups.
package pgdriver

// Decisions:
//
// A cursor consists of the number of the body and the number of the line. A rewrite changes
// the body, so a cursor of replaced lines fails. An append without a condition also names
// the cursor that its caller has read up to.
//
// An append is one call of a function under the lock of the session's row, in an implicit
// transaction.
//
// pgconn can report that a retry is safe after a commit, as tests with killed backends
// showed. So before the driver sends lines again, it searches for the ID of the first line
// under the lock of the row.
//
// The fence of a turn belongs to a driver. While the driver holds the lease of a session,
// each of its appends carries the fence. So a suspended process writes nothing after its
// lease has ended.
//
// Blobs have no foreign key, because the blobs of a fork are written before its session. Put
// locks the row of the session, or finds the ID in the table unborn.
//
// Memory files are rows, and their locks are leases. A write carries all leases of its
// driver, and fails once one of them has ended. A write names its attempt. A retry first
// revokes that name, so the earlier attempt fails even if the server still runs it.
//
// A pooler reports another process ID than pg_backend_pid, and one query at Open detects
// this. Statements are prepared only without a pooler.
//
// Notifications are sent outside the transaction. A poll every ten seconds finds the change
// if the process is killed between the commit and the notification.
