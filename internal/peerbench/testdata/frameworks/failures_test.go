package frameworks_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory/sqlite3"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/convolog/convolog/internal/peerbench"
	convolog "github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// failures are stories that conversations meet. Each returns an error if the peer fails
// in its story.
var failures = []struct {
	name string
	run  func(ctx context.Context, open peerbench.Opener, dir string) error
	fail []string // the peers that failed on 2026-11-27
}{
	{"a process dies in a write", dieInAWrite, []string{"file"}},
	{"two handles append in turn", twoHandles, []string{"adk"}},
	{"1,005 messages are loaded", longConversation, []string{"langchaingo"}},
}

// TestFailures prints the outcome of each story for each peer. It fails if an outcome
// differs from the recorded one: then docs/compared.md is out of date.
func TestFailures(t *testing.T) {
	all := slices.Concat(peers, []struct {
		name string
		open peerbench.Opener
	}{{"file", peerbench.OpenFile}, {"convolog", peerbench.OpenConvolog}})
	for _, f := range failures {
		for _, p := range all {
			err := f.run(t.Context(), p.open, t.TempDir())
			t.Logf("%s: %s: %v", f.name, p.name, err)
			if (err != nil) != slices.Contains(f.fail, p.name) {
				t.Errorf("%s: %s: the outcome has changed", f.name, p.name)
			}
		}
	}
}

// expect returns an error unless a conversation has the texts.
func expect(ctx context.Context, p peerbench.Peer, conversation string, texts ...string) error {
	msgs, err := p.Load(ctx, conversation)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	var got []string
	for _, m := range msgs {
		got = append(got, m.Text)
	}
	if !slices.Equal(got, texts) {
		return fmt.Errorf("%d of %d messages, the last is %q", len(got), len(texts), slices.Concat([]string{""}, got)[len(got)])
	}
	return nil
}

func message(i int) peerbench.Message {
	return peerbench.Message{Role: []string{"user", "assistant"}[i%2], Text: fmt.Sprint("message ", i)}
}

// dieInAWrite cuts the last line of a file, as a kill in a write does, and continues.
// Databases have no such file: they pass.
func dieInAWrite(ctx context.Context, open peerbench.Opener, dir string) (err error) {
	p, err := open(dir, peerbench.PowerCut)
	if err != nil {
		return err
	}
	err = errors.Join(p.Append(ctx, "c", []peerbench.Message{message(0)}), p.Append(ctx, "c", []peerbench.Message{message(1)}), p.Close())
	if err != nil {
		return err
	}
	want := []string{"message 0", "message 1", "message 2"}
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".jsonl" || d.Name() == "sessions.jsonl" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want = []string{"message 0", "message 2"} // the cut one was not acknowledged
		return os.Truncate(name, info.Size()-7)
	})
	if err != nil {
		return err
	}
	if p, err = open(dir, peerbench.PowerCut); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Append(ctx, "c", []peerbench.Message{message(2)}); err != nil {
		return err
	}
	err = expect(ctx, p, "c", want...)
	if err != nil && len(want) == 2 && expect(ctx, p, "c", "message 0\n\nmessage 2") == nil {
		return nil // neighbours of one role are merged
	}
	return err
}

// twoHandles appends with two open peers in turn, as two processes do.
func twoHandles(ctx context.Context, open peerbench.Opener, dir string) error {
	var both [2]peerbench.Peer
	for i := range both {
		p, err := open(dir, peerbench.PowerCut)
		if err != nil {
			return err
		}
		defer p.Close()
		both[i] = p
	}
	var want []string
	for i := range 6 {
		if err := both[i%2].Append(ctx, "c", []peerbench.Message{message(i)}); err != nil {
			return fmt.Errorf("append %d: %w", i, err)
		}
		want = append(want, message(i).Text)
	}
	return expect(ctx, both[0], "c", want...)
}

func longConversation(ctx context.Context, open peerbench.Opener, dir string) error {
	p, err := open(dir, peerbench.Kill)
	if err != nil {
		return err
	}
	defer p.Close()
	var want []string
	for i := range 1_005 {
		if err := p.Append(ctx, "c", []peerbench.Message{message(i)}); err != nil {
			return err
		}
		want = append(want, message(i).Text)
	}
	return expect(ctx, p, "c", want...)
}

// Six events with one time come back in another order: the fourth failure, of ADK alone,
// because the others take no time of a message.
func TestEqualTimes(t *testing.T) {
	service, err := database.NewSessionService(sqlite.Open(filepath.Join(t.TempDir(), "adk.db")), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := database.AutoMigrate(service); err != nil {
		t.Fatal(err)
	}
	made, err := service.Create(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	for i := range 6 {
		e := session.NewEvent(t.Context(), "invocation")
		e.Timestamp, e.Content = at, genai.NewContentFromText(fmt.Sprint(i), genai.RoleUser)
		if err := service.AppendEvent(t.Context(), made.Session, e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := service.Get(t.Context(), &session.GetRequest{AppName: "a", UserID: "u", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	var order string
	for e := range got.Session.Events().All() {
		order += e.Content.Parts[0].Text
	}
	t.Log("adk: appended 012345, loaded", order)
	if order == "012345" {
		t.Error("the outcome has changed")
	}

	s, reload := open(t)
	for i := range 6 {
		if _, err := s.Append(t.Context(), transcript.At(at, transcript.UserText(fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	history, err := reload().History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := history.Messages[0].Text()
	t.Logf("convolog: loaded %q", text)
	if text != "0\n\n1\n\n2\n\n3\n\n4\n\n5" {
		t.Error("convolog has another order")
	}
}

// open returns a session of Convolog, and a function that loads it anew.
func open(t *testing.T) (s *convolog.Session, reload func() *convolog.Session) {
	t.Helper()
	dir := t.TempDir()
	reload = func() *convolog.Session {
		store, err := convolog.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		s, err := store.Load(t.Context(), convolog.Key{Channel: "cli", Peer: "user"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return reload(), reload
}

// An answer with a call loses the call: the fifth failure, of langchaingo. Its next request
// has a result without a call, or none.
func TestCallIsLost(t *testing.T) {
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "chat.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := sqlite3.NewSqliteChatMessageHistory(sqlite3.WithDB(db), sqlite3.WithSession("c"))
	call := llms.AIChatMessage{Content: "Let me look.", ToolCalls: []llms.ToolCall{{
		ID: "call_1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "read", Arguments: "{}"},
	}}}
	if err := errors.Join(h.AddUserMessage(t.Context(), "Read a.go."), h.AddMessage(t.Context(), call)); err != nil {
		t.Fatal(err)
	}
	msgs, err := h.Messages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer, ok := msgs[len(msgs)-1].(llms.AIChatMessage)
	t.Log("langchaingo: appended 1 call, loaded", len(answer.ToolCalls))
	if !ok || len(answer.ToolCalls) > 0 {
		t.Error("the outcome has changed")
	}

	s, reload := open(t)
	_, err = s.Append(t.Context(), transcript.UserText("Read a.go."), &transcript.Response{Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.TextBlock{Text: "Let me look."},
			transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: []byte("{}")},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	history, err := reload().History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls := history.Messages[1].ToolCalls()
	result, ok := history.Messages[len(history.Messages)-1].Content[0].(transcript.ToolResultBlock)
	t.Log("convolog: loaded", len(calls), "call, and an error result:", result.IsError)
	if len(calls) != 1 || !ok || result.CallID != "call_1" || !result.IsError {
		t.Error("convolog lost the call, or its result is missing")
	}
}
