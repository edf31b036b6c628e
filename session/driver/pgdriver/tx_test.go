package pgdriver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// openTx returns two stores on one schema, a session of each and a table of the caller.
func openTx(t *testing.T) (pool *pgxpool.Pool, s, other *session.Session) {
	t.Helper()
	schema := newSchema(t, poolOf(t, server))
	config, err := pgxpool.ParseConfig(server.URL)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	open := func() *session.Store {
		d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
		require.NoError(t, err)
		st := session.OpenDriver(d, nil)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	s, err = open().Create(t.Context(), session.Key{}, &session.CreateOptions{Values: map[string]json.RawMessage{"n": json.RawMessage(`0`)}})
	require.NoError(t, err)
	other, err = open().Get(t.Context(), s.Ref())
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE orders (words text CHECK (words <> 'no lamps'))")
	require.NoError(t, err)
	return pool, s, other
}

// begin begins a transaction, which ends with the test at the latest.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// textsOf returns the texts of the history.
func textsOf(ctx context.Context, t *testing.T, s *session.Session) (texts []string) {
	t.Helper()
	h, err := s.History(ctx)
	require.NoError(t, err)
	for _, m := range h.Messages {
		texts = append(texts, strings.Split(m.Text(), "\n\n")...) // the history joins texts of one role
	}
	return texts
}

// With a rollback the appends never were, in memory either; with a commit they are there.
// Only the transaction sees them before.
func TestWithTx(t *testing.T) {
	pool, s, other := openTx(t)
	add := func(ctx context.Context, s *session.Session, key string, texts ...string) session.Appended {
		t.Helper()
		var items []transcript.Item
		for _, text := range texts {
			items = append(items, transcript.UserText(text))
		}
		done, err := s.AppendIf(ctx, session.Cond{Idem: key}, items...)
		require.NoError(t, err)
		return done
	}
	add(t.Context(), s, "", "a")
	for _, end := range []string{"rollback", "commit"} {
		before := textsOf(t.Context(), t, s)
		tx := begin(t, pool)
		_, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '1234ms'; SET LOCAL synchronous_commit = 'local'")
		require.NoError(t, err)
		ctx := pgdriver.WithTx(t.Context(), tx)
		first := add(ctx, s, "key of "+end, "b")
		again := add(ctx, s, "key of "+end, "b")
		require.Equal(t, session.Appended{IDs: first.IDs, Repeated: true}, again, "the transaction has the key")
		add(ctx, other, "", "c", "d")
		_, err = s.Update(ctx, "test", func(v *session.View) ([]transcript.Item, error) {
			require.Equal(t, rebuild.WaitAnswer, v.Fold().Pending().Waits())
			return []transcript.Item{transcript.AssistantText("e"), transcript.Value{Name: "n", Value: []byte(`1`), Listed: true}}, nil
		})
		require.NoError(t, err)
		require.Equal(t, append(before[:len(before):len(before)], "b", "c", "d", "e"), textsOf(ctx, t, s))
		for _, s := range []*session.Session{s, other} {
			require.Equal(t, before, textsOf(t.Context(), t, s))
		}
		require.Error(t, s.Rewind(ctx, "missing"), "a failed append leaves the transaction as it is")
		_, err = s.Compact(ctx, nil)
		require.ErrorContains(t, err, "transaction")
		var wait, sync string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting('lock_timeout'), current_setting('synchronous_commit')").Scan(&wait, &sync))
		require.Equal(t, []string{"1234ms", "local"}, []string{wait, sync})

		want, listed := before, "0"
		if end == "rollback" {
			require.NoError(t, tx.Rollback(t.Context()))
		} else {
			require.NoError(t, tx.Commit(t.Context()))
			want, listed = append(before, "b", "c", "d", "e"), "1"
		}
		for _, s := range []*session.Session{s, other} {
			require.Equal(t, want, textsOf(t.Context(), t, s), end)
			infos, err := s.Store().List(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, listed, string(infos[0].Values["n"]), end)
		}
		done := add(t.Context(), s, "key of "+end, "b")
		require.Equal(t, end == "commit", done.Repeated, "the key is the transaction's alone")
	}
	health, err := s.Health(t.Context())
	require.NoError(t, err)
	require.Empty(t, health.Damage)
}

// order stores an order and the message of its customer together.
func order(ctx context.Context, pool *pgxpool.Pool, s *session.Session, text string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := s.Append(pgdriver.WithTx(ctx, tx), transcript.UserText(text)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO orders (words) VALUES ($1)", text)
		return err
	})
}

// The rows of the caller and the entries of the session are there together or not at all.
func TestWithTxTogether(t *testing.T) {
	pool, s, _ := openTx(t)
	for range 3 {
		require.NoError(t, order(t.Context(), pool, s, "two lamps"))
		require.ErrorContains(t, order(t.Context(), pool, s, "no lamps"), "orders_words_check")
	}
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&rows))
	require.Equal(t, 3, rows)
	require.Equal(t, []string{"two lamps", "two lamps", "two lamps"}, textsOf(t.Context(), t, s))
}

// A transaction that ended before the append, and one whose connection is lost, fail the
// append at once, and the session is as it was.
func TestWithTxEnded(t *testing.T) {
	pool, s, other := openTx(t)
	tx := begin(t, pool)
	require.NoError(t, tx.Rollback(t.Context()))
	_, err := s.Append(pgdriver.WithTx(t.Context(), tx), transcript.UserText("late"))
	require.ErrorIs(t, err, pgx.ErrTxClosed)

	tx = begin(t, pool)
	ctx := pgdriver.WithTx(t.Context(), tx)
	_, err = s.Append(ctx, transcript.UserText("lost"))
	require.NoError(t, err)
	require.NoError(t, tx.Conn().Close(t.Context()))
	_, err = s.Append(ctx, transcript.UserText("lost as well"))
	require.Error(t, err)
	require.NotErrorAs(t, err, new(*driver.NotDurableError))
	require.Error(t, tx.Commit(t.Context()))
	for _, s := range []*session.Session{s, other} {
		require.Empty(t, textsOf(t.Context(), t, s))
	}
}

// A follower in another process gets the entries after the commit, by a notification.
func TestWithTxFollow(t *testing.T) {
	pool, s, other := openTx(t)
	got := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range other.Follow(ctx, "") {
			if err != nil {
				return
			}
			if m, ok := e.Body.(transcript.MessageLine); ok {
				got <- m.Message().Text()
			}
		}
	}()
	_, err := s.Append(t.Context(), transcript.UserText("a"))
	require.NoError(t, err)
	require.Equal(t, "a", <-got)
	tx := begin(t, pool)
	_, err = s.Append(pgdriver.WithTx(t.Context(), tx), transcript.UserText("b"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "b", <-got)
	cancel()
	<-done
}

// A list in a transaction leaves the memory of the process as it is, and locks no session.
func TestWithTxList(t *testing.T) {
	pool, s, other := openTx(t)
	for i, by := range []*session.Session{s, other, s} { // s has not read the append of other
		_, err := by.Append(t.Context(), transcript.UserText(string(rune('a'+i))))
		require.NoError(t, err)
	}
	tx := begin(t, pool)
	ctx := pgdriver.WithTx(t.Context(), tx)
	_, err := other.Store().List(ctx, nil)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = s.Append(short, transcript.UserText("d"))
	require.NoError(t, err, "the list holds no lock")
	_, err = s.Append(ctx, transcript.UserText("phantom"), transcript.Value{Name: "n", Value: []byte(`1`), Listed: true})
	require.NoError(t, err)
	for _, s := range []*session.Session{s, other} {
		infos, err := s.Store().List(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, "1", string(infos[0].Values["n"]))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	for _, s := range []*session.Session{s, other} {
		require.Equal(t, []string{"a", "b", "c", "d"}, textsOf(t.Context(), t, s))
	}
}

// After the commit a list shows the title of the first message.
func TestWithTxRow(t *testing.T) {
	pool, s, other := openTx(t)
	s, err := s.Store().Create(t.Context(), session.Key{Agent: "rows"}, nil)
	require.NoError(t, err)
	require.NoError(t, order(t.Context(), pool, s, "two lamps"))
	for _, st := range []*session.Store{s.Store(), other.Store()} {
		infos, err := st.List(t.Context(), &session.ListOptions{Key: session.Key{Agent: "rows"}})
		require.NoError(t, err)
		require.Equal(t, []any{"two lamps", 1}, []any{infos[0].Title, infos[0].Messages})
	}
}

// A list waits for no transaction, of which it shows nothing: in its own process and in
// another one.
func TestWithTxOpen(t *testing.T) {
	pool, s, other := openTx(t)
	_, err := s.Append(t.Context(), transcript.UserText("a"))
	require.NoError(t, err)
	tx := begin(t, pool)
	_, err = other.Append(pgdriver.WithTx(t.Context(), tx), transcript.UserText("phantom"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // less than a driver waits for a lock without a limit
	defer cancel()
	for _, s := range []*session.Session{s, other} {
		infos, err := s.Store().List(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, "0", string(infos[0].Values["n"]))
	}
	require.NoError(t, ctx.Err())
	require.NoError(t, tx.Rollback(t.Context()))
}

// Reads in a transaction need no second connection. A fork would keep entries that are undone,
// and a turn lock would wait for its own transaction.
func TestWithTxAlone(t *testing.T) {
	pool, s, _ := openTx(t)
	config := pool.Config()
	config.MaxConns = 1
	one, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(one.Close)
	d, err := pgdriver.Open(t.Context(), one, &pgdriver.Options{Schema: config.ConnConfig.RuntimeParams["search_path"]})
	require.NoError(t, err)
	st := session.OpenDriver(d, nil)
	defer func() { require.NoError(t, st.Close()) }()
	tx := begin(t, one)
	defer func() { require.NoError(t, tx.Rollback(context.Background())) }()
	ctx, cancel := context.WithTimeout(pgdriver.WithTx(t.Context(), tx), 20*time.Second)
	defer cancel()
	s, err = st.Get(ctx, s.Ref())
	require.NoError(t, err)
	ids, err := s.Append(ctx, transcript.UserText("hi"))
	require.NoError(t, err)
	info, err := s.Info(ctx)
	require.NoError(t, err)
	infos, err := st.List(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, info.Size, infos[0].Size)
	_, err = s.Fork(ctx, ids[0], nil)
	require.ErrorContains(t, err, "transaction")
	_, err = s.LockTurn(ctx, true)
	require.ErrorContains(t, err, "transaction")
	require.ErrorContains(t, st.Delete(ctx, s.Ref()), "transaction")
	require.ErrorContains(t, st.DeleteAt(ctx, s.Ref(), info.End), "transaction")
	require.ErrorContains(t, st.SetState(ctx, s.Ref(), session.Archived, -1), "transaction")
	require.ErrorContains(t, s.Rewrite(ctx, nil), "transaction")
}
