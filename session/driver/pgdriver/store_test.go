package pgdriver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The same calls on a folder and on a database give the same sessions.
func TestLikeAFolder(t *testing.T) {
	folder, err := session.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, folder.Close()) }()
	pool := poolOf(t, server)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: newSchema(t, pool)})
	require.NoError(t, err)
	database := session.OpenDriver(d, nil)
	defer func() { require.NoError(t, database.Close()) }()
	require.Equal(t, live(t, folder), live(t, database))
}

// A process lists a session by the step that it waits for, before the appending process
// has put a row or after it was killed.
func TestWaits(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	open := func() *session.Store {
		d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
		require.NoError(t, err)
		st := session.OpenDriver(d, &session.Options{Now: func() time.Time { return time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) }})
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	st, other := open(), open()
	s, err := st.Create(t.Context(), session.Key{Agent: "main"}, nil)
	require.NoError(t, err)
	call := transcript.ToolCallBlock{ID: "c", Name: "map", Input: []byte(`{}`)}
	entry := ""
	for _, step := range []struct {
		item func() transcript.Item
		want rebuild.Wait
	}{
		{func() transcript.Item { return transcript.UserText("Where is Porto?") }, rebuild.WaitAnswer},
		{func() transcript.Item {
			return transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{call}}
		}, rebuild.WaitTool},
		{func() transcript.Item {
			return transcript.Decision{Call: entry, CallID: "c", Verdict: transcript.Hold}
		}, rebuild.WaitApproval},
		{func() transcript.Item { return transcript.ToolResult("c", "41.15 N") }, rebuild.WaitAnswer},
		{func() transcript.Item { return transcript.AssistantText("In Portugal.") }, ""},
	} {
		ids, err := s.Append(t.Context(), step.item())
		require.NoError(t, err)
		entry = ids[len(ids)-1]
		for _, st := range []*session.Store{other, st, open()} {
			infos, err := st.List(t.Context(), &session.ListOptions{Waits: rebuild.WaitAny})
			require.NoError(t, err)
			require.Equal(t, step.want != "", len(infos) == 1)
			for _, i := range infos {
				require.Equal(t, step.want, i.Waits)
			}
		}
	}
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[^"]*"|20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ`)
	sums  = regexp.MustCompile(`"(crc|idemHash|promptHash)":"[^"]*"`)
)

// live uses a store in every way and returns the results, with IDs by their order.
func live(t *testing.T, st *session.Store) string {
	ctx := t.Context()
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	key := session.Key{Agent: "main", Channel: "test", Peer: "anna"}
	s, err := st.Load(ctx, key)
	require.NoError(t, err)
	heard := follow(t, s)
	first, err := s.Append(ctx, transcript.UserText("Where is Porto?\x00 \u2028"))
	require.NoError(t, err)
	for range 2 { // a retry
		res, err := s.AppendIf(ctx, session.Cond{Idem: "key"}, transcript.AssistantText("In Portugal."))
		require.NoError(t, err)
		say("repeated: %t", res.Repeated)
	}
	call := transcript.ToolCallBlock{ID: "c1", Name: "map", Input: []byte(`{"city":"Porto"}`)}
	_, err = s.Append(ctx, transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{call}})
	require.NoError(t, err)
	tn, err := turn.Begin(ctx, s)
	require.NoError(t, err)
	require.NoError(t, turn.RunTools(ctx, s, 1, func(context.Context, rebuild.PendingCall) (transcript.Message, error) {
		return transcript.ToolResult("c1", "41.15 N"), nil
	}))
	require.NoError(t, tn.End())
	title, ttl := "Travel", int64(3600)
	require.NoError(t, s.SetMeta(ctx, transcript.Meta{Title: &title, TTL: &ttl, Labels: []string{"a", "b"}}))
	require.NoError(t, turn.Pin(ctx, s, first[0]))

	fork, err := s.Fork(ctx, first[0], &session.CreateOptions{Title: "Fork"})
	require.NoError(t, err)
	_, err = fork.Append(ctx, transcript.AssistantText("On the Douro."))
	require.NoError(t, err)
	require.NoError(t, s.Rewind(ctx, first[0]))
	for hit, err := range search.Store(ctx, st, search.Query{Text: "porto"}) {
		require.NoError(t, err)
		say("hit: %s", hit.Excerpt)
	}
	describe := func(what string) {
		sizes := map[string]int64{}
		for _, state := range []session.State{session.Live, session.Archived} {
			infos, err := st.List(ctx, &session.ListOptions{State: state})
			require.NoError(t, err)
			for _, i := range infos {
				sizes[i.ID] = i.Size
				say("%s: %q %v %d messages, %d turns, current %t, waits %q", what, i.Title, i.Labels, i.Messages, i.Turns, i.Current, i.Waits)
			}
		}
		for _, ref := range []session.Ref{s.Ref(), fork.Ref()} {
			got, err := st.Get(ctx, ref)
			if errors.Is(err, fs.ErrNotExist) {
				say("%s: gone", what)
				continue
			}
			require.NoError(t, err)
			var lines bytes.Buffer
			require.NoError(t, exchange.Lines(ctx, got, &lines))
			say("%s:\n%s", what, lines.String())
			info, err := got.Info(ctx)
			require.NoError(t, err)
			require.Equal(t, []int64{int64(lines.Len()), info.Size}, []int64{sizes[ref.ID], sizes[ref.ID]}, what)
		}
	}
	describe("said")
	require.NoError(t, st.SetState(ctx, fork.Ref(), session.Archived, -1))
	describe("archived")
	_, err = fork.Append(ctx, transcript.UserText("too late"))
	say("%t", errors.Is(err, session.ErrArchived))
	require.NoError(t, st.SetState(ctx, fork.Ref(), session.Live, -1))
	require.NoError(t, s.MakeCurrent(ctx))
	describe("restored")
	plan, err := erase.Preview(ctx, st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{first[0]}}}})
	require.NoError(t, err)
	_, err = erase.Run(ctx, st, plan)
	require.NoError(t, err)
	describe("erased")
	require.NotContains(t, strings.Split(out.String(), "erased:")[1], "Where is Porto?")
	for _, most := range []int64{1, 1 << 20} {
		removal, err := retain.Preview(ctx, st, retain.Policy{MaxBytes: most})
		require.NoError(t, err)
		say("%d sessions have more than %d bytes", len(removal.Items), most)
	}
	require.NoError(t, st.Delete(ctx, fork.Ref()))
	describe("deleted")
	for _, text := range heard() {
		say("heard %s", text)
	}

	ids := map[string]string{}
	text := uuids.ReplaceAllStringFunc(out.String(), func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("id-%d", len(ids)+1)
		}
		return ids[id]
	})
	return sums.ReplaceAllString(times.ReplaceAllString(text, `"time"`), `"$1":""`)
}

// follow returns a function that returns the types of the followed entries.
func follow(t *testing.T, s *session.Session) func() []string {
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan []string, 1)
	go func() {
		var all []string
		for e, err := range s.Follow(ctx, "") {
			if err != nil {
				break
			}
			if all = append(all, e.Type()); e.Type() == "pin" {
				break
			}
		}
		heard <- all
	}()
	return func() []string {
		defer cancel()
		return <-heard
	}
}
