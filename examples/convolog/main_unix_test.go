//go:build unix

package main

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/convolog/internal/postgres"
	"github.com/convolog/convolog/internal/copytest"
	"github.com/convolog/convolog/internal/pgtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

var server *pgtest.Server

// childVar makes the test program the program that it tests, or a copier.
const childVar = "CONVOLOG_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVar) {
	case "main":
		main()
		os.Exit(0)
	case "copier":
		if err := copier(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m, &server))
}

// copier copies a folder to a database, or back, and reports each session.
func copier(name, url string) error {
	ctx := context.Background()
	from, err := openFolder(name)
	if err != nil {
		return err
	}
	to, kept, err := postgres.Open(ctx, url, false)
	if err != nil {
		return err
	}
	_, err = exchange.Copy(ctx, from, to, &exchange.CopyOptions{
		From: blobs.Folder(name), To: kept,
		Each: func(c exchange.CopyResult, _ error) { fmt.Println(c.ID) },
	})
	return err
}

// openFolder opens a folder as the command line does.
func openFolder(dir string) (*session.Store, error) {
	return session.Open(dir, &session.Options{Sync: session.SyncNever, Filters: []session.Filter{blobs.Filter(blobs.Folder(dir), nil)}})
}

func child(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), childVar+"="+role)
	return cmd
}

// convolog runs a command line.
func convolog(t testing.TB, code int, args ...string) string {
	t.Helper()
	cmd := child(t, "main", args...)
	out, err := cmd.CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed {
		require.NoError(t, err)
		require.Zero(t, code, "%q: %s", args, out)
		return string(out)
	}
	require.Equal(t, code, exit.ExitCode(), "%q: %s", args, out)
	return string(out)
}

func textOf(t testing.TB, st *session.Store) string {
	t.Helper()
	text, err := copytest.Text(t.Context(), st)
	require.NoError(t, err)
	return text
}

// A folder is copied to a database and back by the command line, with kills in between.
func TestCopyKilled(t *testing.T) {
	dir, back, url := t.TempDir(), t.TempDir(), server.URL+"&schema="+crand.Text()
	from, err := openFolder(dir)
	require.NoError(t, err)
	require.NoError(t, copytest.Fill(t.Context(), from, 9, 80))
	want := textOf(t, from)
	infos, err := from.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.NoError(t, from.Close())
	empty, _, err := postgres.Open(t.Context(), url, false) // makes the tables
	require.NoError(t, err)
	require.NoError(t, empty.Close())
	r := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		cmd := child(t, "copier", dir, url)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(len(infos)-1) {
			lines.Scan()
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	require.Contains(t, convolog(t, 0, "copy", dir, url), fmt.Sprintf("%d sessions", len(infos)))
	require.Contains(t, convolog(t, 0, "copy", url, back, "-n"), "would be copied")
	convolog(t, 0, "copy", url, back)
	to, err := openFolder(back)
	require.NoError(t, err)
	require.Equal(t, want, textOf(t, to))
	require.NoError(t, to.Close())
	require.Contains(t, convolog(t, 0, "copy", back, url), ", 0 new: 0 lines")
}

// Media that a store keeps beside its lines go to the database and back.
func TestCopyMedia(t *testing.T) {
	dir, back, url := t.TempDir(), t.TempDir(), server.URL+"&schema="+crand.Text()
	from, err := openFolder(dir)
	require.NoError(t, err)
	s, err := from.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(make([]byte, 30_000))}}
	_, err = s.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{image}})
	require.NoError(t, err)
	want, err := s.History(t.Context())
	require.NoError(t, err)
	require.NoError(t, from.Close())
	require.Contains(t, convolog(t, 0, "copy", dir, url), " 1 blob copied.")
	require.Contains(t, convolog(t, 0, "copy", url, back), " 1 blob copied.")
	to, err := openFolder(back)
	require.NoError(t, err)
	s, err = to.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	got, err := s.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, to.Close())
}

// Other commands also work over a database.
func TestCommands(t *testing.T) {
	url := server.URL + "&schema=" + crand.Text()
	convolog(t, 0, "session", "new", "main:cli:user", "--id", "alpha", "--url", url)
	convolog(t, 0, "session", "add-message", "alpha", "--role", "user", "--content", "What does Porto cost?", "--url", url)
	require.Contains(t, convolog(t, 0, "prune", "--max-bytes", "100000", "-n", "--url", url), "0 of 1 sessions")
	for _, args := range [][]string{{"session", "list"}, {"pending"}, {"session", "show", "alpha"}, {"session", "search", "porto"}, {"session", "export", "alpha"}, {"doctor"}, {"session", "archive", "alpha"}} {
		require.Contains(t, convolog(t, 0, append(args, "--url", url)...), map[bool]string{true: "alpha", false: ""}[args[len(args)-1] == "list" || args[0] == "pending"])
	}
	require.Contains(t, convolog(t, 2, "doctor", "--repair", "--url", url), "stores in databases have no files")
	convolog(t, 3, "session", "show", "beta", "--url", url)
	require.Contains(t, convolog(t, 3, "session", "list", "--url", "postgres://127.0.0.1:1/none"), "none")
}

// A mistyped schema is an error of a command that needs a store, and makes no tables.
func TestMistypedSchema(t *testing.T) {
	schema := crand.Text()
	url := server.URL + "&schema=" + schema
	for _, args := range [][]string{
		{"session", "list"}, {"session", "show", "a"}, {"session", "title", "a", "b"}, {"pending"}, {"doctor"}, {"prune", "--max-sessions", "1"},
	} {
		require.Contains(t, convolog(t, 3, append(args, "--url", url)...), `schema "`+schema+`": it holds no store`, args)
	}
	dir := t.TempDir()
	require.Contains(t, convolog(t, 3, "copy", url, dir), "it holds no store")
	convolog(t, 0, "session", "new", "--dir", dir)
	require.Contains(t, convolog(t, 0, "copy", "-n", dir, url), "1 session")
	require.Contains(t, convolog(t, 3, "session", "list", "--url", url), "it holds no store")
	convolog(t, 0, "session", "new", "--url", url)
	convolog(t, 0, "session", "list", "--url", url)
}

// A held call in a database is approved once.
func TestInbox(t *testing.T) {
	url := server.URL + "&schema=" + crand.Text()
	store, _, err := postgres.Open(t.Context(), url, false)
	require.NoError(t, err)
	s, err := store.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: "alpha"})
	require.NoError(t, err)
	answer := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "call_1", Name: "pay", Input: []byte(`{}`)}}}
	ids, err := s.Append(t.Context(), transcript.UserText("Pay."), &transcript.Response{Message: answer})
	require.NoError(t, err)
	require.NoError(t, turn.Decide(t.Context(), s, ids[len(ids)-1], transcript.Hold, "policy", ""))
	require.Contains(t, convolog(t, 0, "pending", "--url", url), "pay {}")
	convolog(t, 0, "approve", "alpha", "call_1", "--url", url)
	require.Contains(t, convolog(t, 1, "reject", "alpha", "call_1", "--url", url), "already approved")
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Equal(t, rebuild.Approved, p.Calls[0].State)
	require.NoError(t, store.Close())
}
