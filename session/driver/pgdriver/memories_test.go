package pgdriver_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/memory/memorytest"
	"github.com/convolog/convolog/transcript"
)

func TestMemories(t *testing.T) {
	pool := poolOf(t, server)
	memorytest.TestStorage(t, func(t *testing.T) func() memory.Storage {
		schema := newSchema(t, pool)
		return func() memory.Storage {
			d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			return d.Memories()
		}
	})
}

// A driver whose lock has ended writes nothing, in any folder, until it has
// unlocked.
func TestMemoriesLockLost(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d, other := opened(t, pool, schema), opened(t, pool, schema)
	mine, theirs := d.Memories(), other.Memories()
	unlock, err := mine.Lock(t.Context(), "owners/anna")
	require.NoError(t, err)
	require.NoError(t, mine.Create(t.Context(), "owners/anna/x", []byte("mine")))
	_, err = pool.Exec(t.Context(), "UPDATE "+schema+".locks SET until = clock_timestamp() - interval '1 second'")
	require.NoError(t, err)
	free, err := theirs.Lock(t.Context(), "owners/anna")
	require.NoError(t, err)
	require.NoError(t, theirs.Write(t.Context(), "owners/anna/x", []byte("theirs")))
	require.ErrorContains(t, mine.Write(t.Context(), "owners/anna/x", []byte("late")), "lease")
	require.ErrorContains(t, mine.Create(t.Context(), "owners/bert/x", []byte("late")), "lease")
	require.ErrorContains(t, mine.Remove(t.Context(), "owners"), "lease")
	unlock()
	unlock()
	list, err := mine.List(t.Context(), ".")
	require.NoError(t, err)
	require.Len(t, list, 1)
	data, err := mine.Read(t.Context(), "owners/anna/x")
	require.NoError(t, err)
	require.Equal(t, "theirs", string(data))
	require.NoError(t, mine.Write(t.Context(), "owners/bert/x", []byte("now")))
	require.NoError(t, theirs.Write(t.Context(), "owners/anna/x", []byte("still locked")))
	free()
	require.NoError(t, d.Close())
	require.NoError(t, other.Close())
}

// Names and files that the database cannot hold are refused.
func TestMemoriesRefused(t *testing.T) {
	pool := poolOf(t, server)
	d := opened(t, pool, newSchema(t, pool))
	m := d.Memories()
	for _, name := range []string{"a\x00", "\xff", strings.Repeat("a/", 1000) + "a"} {
		require.ErrorIs(t, m.Write(t.Context(), name, nil), fs.ErrInvalid)
	}
	require.ErrorIs(t, m.Write(t.Context(), "a", make([]byte, 256<<20+1)), fs.ErrInvalid)
	require.NoError(t, m.Write(t.Context(), "empty", nil))
	data, err := m.Read(t.Context(), "empty")
	require.NoError(t, err)
	require.Empty(t, data)
	require.NoError(t, d.Close())
	require.ErrorIs(t, m.Write(t.Context(), "a", nil), driver.ErrClosed)
}

// lessons finds one preference in each archive.
type lessons struct{}

func (lessons) Extract(_ context.Context, in memory.Input) ([]memory.Candidate, error) {
	return []memory.Candidate{{Category: "preferences", Topic: in.Messages[0].Text(), Text: memory.Text{Abstract: "Likes " + in.Messages[0].Text()}}}, nil
}

// All replicas see memories from each other's sessions, and none after the owner is
// erased.
func TestMemoriesOfAStore(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	var stores []*session.Store
	var memories []*memory.Store
	for range 2 {
		d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
		require.NoError(t, err)
		m, err := memory.Open(d.Memories(), &memory.Options{Extractor: lessons{}})
		require.NoError(t, err)
		stores, memories = append(stores, session.OpenDriver(d, nil)), append(memories, m)
	}
	var s *session.Session
	for i, text := range []string{"tea", "coffee"} {
		var err error
		if s, err = stores[i].Create(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "anna"}, &session.CreateOptions{Owner: "anna"}); err != nil {
			require.NoError(t, err)
		}
		_, err = s.Append(t.Context(), transcript.UserText(text), transcript.AssistantText("I see."))
		require.NoError(t, err)
		done, err := memory.Commit(t.Context(), s, nil)
		require.NoError(t, err)
		_, err = memories[i].Extract(t.Context(), s, done.Chapter)
		require.NoError(t, err)
		again, err := memories[1-i].Extract(t.Context(), s, done.Chapter)
		require.NoError(t, err)
		require.True(t, again.Repeated)
	}
	for _, m := range memories {
		var known []string
		for mem, err := range m.List(t.Context(), memory.Scope{Agent: "main", Owner: "anna"}) {
			require.NoError(t, err)
			known = append(known, mem.Abstract)
		}
		require.ElementsMatch(t, []string{"Likes tea", "Likes coffee"}, known)
	}
	require.Positive(t, countOf(t, pool, schema, "files"))
	_, err := memories[0].Erase(t.Context(), transcript.Subject{Owner: "anna"})
	require.NoError(t, err)
	require.Zero(t, countOf(t, pool, schema, "files"))
	require.Zero(t, countOf(t, pool, schema, "locks"))
	for _, st := range stores {
		require.NoError(t, st.Close())
	}
}

// countOf returns how many rows a table has.
func countOf(t *testing.T, pool *pgxpool.Pool, schema, table string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+"."+table).Scan(&n))
	return n
}
