package adkstore_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/model"
	adk "google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/adkstore"
)

var rounds = flag.Int("rounds", 4, "how often two writers are killed")

func TestMain(m *testing.M) {
	if dir := os.Getenv("CONVOLOG_CHILD"); dir != "" {
		fmt.Fprintln(os.Stderr, write(dir, os.Getenv("CONVOLOG_WRITER"))) // only a failure returns
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

var place = adk.GetRequest{AppName: "app", UserID: "user", SessionID: "s"}

// text is an event with a text, of the user or of a model.
func text(id, role, words string, delta map[string]any) *adk.Event {
	return &adk.Event{
		ID: id, Author: role, InvocationID: "run", Timestamp: time.Unix(1, 0).UTC(), Actions: adk.EventActions{StateDelta: delta},
		LLMResponse: model.LLMResponse{Content: genai.NewContentFromText(words, genai.Role(role))},
	}
}

// write appends events until it is killed, and prints the number of each when it is stored.
// It begins with a retry of its last event.
func write(dir, writer string) error {
	st, err := session.Open(dir, nil)
	if err != nil {
		return err
	}
	service, ctx := adkstore.New(st), context.Background()
	got, err := service.Get(ctx, &place)
	if err != nil {
		return err
	}
	n := 0
	for e := range got.Session.Events().All() {
		if e.Author == writer {
			n, err = strconv.Atoi(e.ID[len(writer):])
			if err != nil {
				return err
			}
		}
	}
	for n = max(n, 1); ; n++ {
		e := text(fmt.Sprint(writer, n), "user", "event", map[string]any{writer: n, "user:" + writer: n})
		e.Author = writer
		if err := service.AppendEvent(ctx, got.Session, e); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// Two processes append to one session and are killed in between. No event is lost, doubled
// or out of order, and the state is the one of the last event.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	st, err := session.Open(dir, nil)
	require.NoError(t, err)
	_, err = adkstore.New(st).Create(t.Context(), &adk.CreateRequest{AppName: place.AppName, UserID: place.UserID, SessionID: place.SessionID})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	writers, acknowledged := []string{"a", "b"}, map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for range *rounds {
		running := map[string]*exec.Cmd{}
		lines := map[string]*bufio.Scanner{}
		for _, writer := range writers {
			exe, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), "CONVOLOG_CHILD="+dir, "CONVOLOG_WRITER="+writer)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			running[writer], lines[writer] = cmd, bufio.NewScanner(out)
		}
		read := func(writer string) bool {
			if !lines[writer].Scan() {
				return false
			}
			n, err := strconv.Atoi(lines[writer].Text())
			require.NoError(t, err)
			acknowledged[writer] = n
			return true
		}
		for _, writer := range writers {
			for range 1 + random.IntN(8) {
				require.True(t, read(writer), "writer %s failed", writer)
			}
		}
		for _, writer := range writers {
			require.NoError(t, running[writer].Process.Kill())
		}
		for _, writer := range writers {
			for read(writer) { // lines that were on their way
			}
			require.Error(t, running[writer].Wait())
		}
		st, err := session.Open(dir, nil)
		require.NoError(t, err)
		got, err := adkstore.New(st).Get(t.Context(), &place)
		require.NoError(t, err)
		last := map[string]int{}
		for e := range got.Session.Events().All() {
			last[e.Author]++
			require.Equal(t, fmt.Sprint(e.Author, last[e.Author]), e.ID)
		}
		list, err := adkstore.New(st).List(t.Context(), &adk.ListRequest{AppName: place.AppName})
		require.NoError(t, err)
		for _, writer := range writers {
			require.GreaterOrEqual(t, last[writer], acknowledged[writer])
			require.LessOrEqual(t, last[writer], acknowledged[writer]+1)
			for _, s := range []adk.Session{got.Session, list.Sessions[0]} {
				own, err := s.State().Get(writer)
				require.NoError(t, err)
				require.EqualValues(t, last[writer], own)
				shared, err := s.State().Get("user:" + writer)
				require.NoError(t, err)
				require.GreaterOrEqual(t, shared, own)
				require.LessOrEqual(t, shared, float64(last[writer]+1))
			}
		}
		require.NoError(t, st.Close())
	}
}
