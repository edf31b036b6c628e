package peerbench_test

import (
	"cmp"
	"context"
	"database/sql"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/convolog/convolog/internal/peerbench"
)

// sqlite keeps a row for each message.
type sqlite struct {
	db     *sql.DB
	insert *sql.Stmt
}

// openSQLite opens a SQLite database with a write-ahead log: with synchronous
// FULL a transaction survives a power cut, with NORMAL the end of the process.
func openSQLite(dir string, level peerbench.Level) (_ peerbench.Peer, err error) {
	mode := "FULL"
	if level == peerbench.Kill {
		mode = "NORMAL"
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "sqlite.db"))+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous("+mode+")")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close() // what went wrong before says why
		}
	}()
	db.SetMaxOpenConns(1) // SQLite has one writer; more would only fail with SQLITE_BUSY
	if _, err := db.Exec(`CREATE TABLE IF NOT EXISTS message (
		id INTEGER PRIMARY KEY, conversation TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL);
		CREATE INDEX IF NOT EXISTS by_conversation ON message (conversation, id)`); err != nil {
		return nil, err
	}
	insert, err := db.Prepare("INSERT INTO message (conversation, role, content) VALUES (?, ?, ?)")
	if err != nil {
		return nil, err
	}
	return &sqlite{db, insert}, nil
}

func (p *sqlite) Append(ctx context.Context, conversation string, msgs []peerbench.Message) (err error) {
	if len(msgs) == 1 { // a transaction of its own
		_, err := p.insert.ExecContext(ctx, conversation, msgs[0].Role, msgs[0].Text)
		return err
	}
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // what went wrong before says why
		}
	}()
	insert := tx.StmtContext(ctx, p.insert)
	for _, m := range msgs {
		if _, err := insert.ExecContext(ctx, conversation, m.Role, m.Text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p *sqlite) Load(ctx context.Context, conversation string) (msgs []peerbench.Message, err error) {
	rows, err := p.db.QueryContext(ctx, "SELECT role, content FROM message WHERE conversation = ? ORDER BY id", conversation)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var m peerbench.Message
		if err := rows.Scan(&m.Role, &m.Text); err != nil {
			return nil, cmp.Or(err, rows.Close())
		}
		msgs = append(msgs, m)
	}
	return msgs, cmp.Or(rows.Err(), rows.Close())
}

func (p *sqlite) Close() error { return cmp.Or(p.insert.Close(), p.db.Close()) }
