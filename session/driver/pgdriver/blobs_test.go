package pgdriver_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/blobs/blobstest"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

func TestBlobs(t *testing.T) {
	pool := poolOf(t, server)
	blobstest.TestStore(t, func(t *testing.T, refs ...session.Ref) func() blobs.Store {
		schema := newSchema(t, pool)
		open := func() *pgdriver.Driver {
			d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			return d
		}
		d := open()
		for _, ref := range refs {
			_, err := d.Create(t.Context(), driver.KeyRef{Agent: ref.Agent, Key: ref.ID}, func(gen int64) (driver.Row, driver.Line) {
				row, line := headerOf(gen)
				row.ID = ref.ID
				return row, line
			})
			require.NoError(t, err)
		}
		return func() blobs.Store { return open().Blobs() }
	})
}

// withBlobs returns options with a filter that keeps blobs.
func withBlobs(b blobs.Store) *session.Options {
	return &session.Options{Filters: []session.Filter{blobs.Filter(b, nil)}}
}

// photo is a message with an image that is a blob.
func photo(seed uint64) transcript.Message {
	data := make([]byte, 20_000)
	rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = rnd.Read(data) // never fails
	return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ImageBlock{
		Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)},
	}}}
}

// A pool of one connection is enough for many appends of media at once, and for all
// else that touches blobs. Nothing is left of erased or deleted data.
func TestBlobsOfAStore(t *testing.T) {
	admin := poolOf(t, server)
	testBlobsOfAStore(t, admin, newSchema(t, admin), poolWith(t, func(c *pgxpool.Config) { c.MaxConns = 1 }))
}

func testBlobsOfAStore(t *testing.T, admin *pgxpool.Pool, schema string, pool *pgxpool.Pool) {
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	st := session.OpenDriver(d, withBlobs(d.Blobs()))
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "anna"})
	require.NoError(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[uint64]string{}
	for seed := range uint64(8) {
		all.Go(func() {
			got, err := s.Append(t.Context(), photo(seed))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ids[seed] = got[0]
			} else {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 8, countOf(t, admin, schema, "blobs"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Append(ctx, photo(99))
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.AppendIf(t.Context(), session.Cond{Head: "another"}, photo(99))
	require.ErrorIs(t, err, session.ErrConflict)
	require.Equal(t, 9, countOf(t, admin, schema, "blobs"), "an upload whose append is refused stays")

	last, err := s.Append(t.Context(), transcript.AssistantText("I see."))
	require.NoError(t, err)
	fork, err := s.Fork(t.Context(), last[0], nil)
	require.NoError(t, err)
	require.Equal(t, 17, countOf(t, admin, schema, "blobs"))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{ids[3]}}}})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	require.Equal(t, 14, countOf(t, admin, schema, "blobs"), "of both sessions")
	require.NoError(t, st.SetState(t.Context(), fork.Ref(), session.Archived, -1))
	require.NoError(t, st.SetState(t.Context(), fork.Ref(), session.Live, -1))
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.Equal(t, 7, countOf(t, admin, schema, "blobs"))
	fork, err = st.Get(t.Context(), fork.Ref())
	require.NoError(t, err)
	require.Contains(t, shown(t, fork), imageOf(photo(5)))
	require.NotContains(t, shown(t, fork), "not there")
	require.NoError(t, st.Close())
}

// shown is a session as a model sees it.
func shown(t *testing.T, s *session.Session) string {
	t.Helper()
	h, err := s.History(t.Context())
	require.NoError(t, err)
	return fmt.Sprint(h.Messages)
}

func imageOf(m transcript.Message) string {
	return m.Content[0].(transcript.ImageBlock).Source.Data
}

// A blob needs a session, and is not too long.
func TestBlobsRefused(t *testing.T) {
	pool := poolOf(t, server)
	d := opened(t, pool, newSchema(t, pool))
	b, hash := d.Blobs(), strings.Repeat("ab", 32)
	err := b.Put(t.Context(), driver.Ref{Agent: "main", ID: "none"}, hash, []byte("x"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, `"none"`)
	err = b.Put(t.Context(), ref, hash, make([]byte, 256<<20+1))
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.ErrorContains(t, err, "bucket")
	require.NoError(t, d.Close())
	require.ErrorIs(t, b.Put(t.Context(), ref, hash, []byte("x")), driver.ErrClosed)
}

// The blobs of a session that was never made are removed after a day. A session
// that was made keeps its blobs, and takes none once it is deleted.
func TestBlobsOfTheUnborn(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d := opened(t, pool, schema)
	b, hash := d.Blobs(), strings.Repeat("ab", 32)
	m := b.(blobs.Maker)
	lost, made := driver.Ref{Agent: "main", ID: "lost"}, driver.Ref{Agent: "main", ID: "made"}
	for _, ref := range []driver.Ref{lost, made} {
		require.NoError(t, m.Make(t.Context(), ref))
		require.NoError(t, b.Put(t.Context(), ref, hash, []byte("x")))
	}
	_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "main:key"}, func(gen int64) (driver.Row, driver.Line) {
		row, line := headerOf(gen)
		row.ID = made.ID
		return row, line
	})
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), fmt.Sprintf("UPDATE %q.unborn SET at = at - interval '25 hours'", schema))
	require.NoError(t, err)
	require.NoError(t, m.Make(t.Context(), driver.Ref{Agent: "main", ID: "next"}))
	require.Equal(t, 1, countOf(t, pool, schema, "blobs"))
	require.Equal(t, 1, countOf(t, pool, schema, "unborn"))
	require.ErrorIs(t, b.Put(t.Context(), lost, hash, []byte("x")), fs.ErrNotExist)
	_, err = b.Get(t.Context(), made, hash)
	require.NoError(t, err)
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, made))
	require.Zero(t, countOf(t, pool, schema, "blobs"))
	require.ErrorIs(t, b.Put(t.Context(), made, hash, []byte("x")), fs.ErrNotExist)
	require.NoError(t, d.Close())
}
