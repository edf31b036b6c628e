// Shared is examples/server on several machines: its replicas keep their conversations
// in one PostgreSQL database, and a client may talk to any of them.
//
//	createdb convolog
//	go -C examples/shared run . -database postgres:///convolog -addr localhost:8081 -token your-key &
//	go -C examples/shared run . -database postgres:///convolog -addr localhost:8082 -token your-key &
//	curl -N localhost:8081/api/agents/main/chat -d '{"message":"hello"}' -H 'Content-Type: application/json' -H 'X-API-Key: your-key'
//
// Cut curl off, or kill the first replica, and continue at the other one with
// the session and the last ID seen:
//
//	curl -N 'localhost:8082/api/agents/main/chat/stream?sessionId=SESSION' -H 'Last-Event-ID: ID' -H 'X-API-Key: your-key'
//
// An answer belongs to the replica that began it, and continues without clients. If
// that replica is killed, the others take over its conversations when its lease ends:
// the answer ends where it was cut, and queued messages are answered. A load balancer
// before the replicas needs no sticky sessions.
package main

import (
	"context"
	"flag"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/examples/internal/server"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/pgdriver"
)

func main() {
	var c server.Config
	c.Flags(flag.CommandLine)
	database := flag.String("database", "", "`URL` of the database; missing parts come from the variables of psql, such as PGHOST")
	schema := flag.String("schema", "", "`name` of the schema for the tables; empty for convolog")
	lease := flag.Duration("lease", 15*time.Second, "`time` after which a replica that does not answer is taken for dead")
	flag.Parse()
	server.Main(c, func(ctx context.Context) (*session.Store, error) {
		pool, err := pgxpool.New(ctx, *database)
		if err != nil {
			return nil, err
		}
		// The end of the process closes the pool, after the store.
		d, err := pgdriver.Open(ctx, pool, &pgdriver.Options{Schema: *schema, Lease: *lease, Logger: slog.Default()})
		if err != nil {
			return nil, err
		}
		return session.OpenDriver(d, &session.Options{Filters: []session.Filter{blobs.Filter(d.Blobs(), nil)}}), nil
	})
}
