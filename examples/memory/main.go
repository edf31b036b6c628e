// Memory has two conversations. The second one uses memories of the first.
//
//	go run ./examples/memory
//
// Without -url it needs no network: a scripted model in the program remembers
// statements about the user, and answers with the memories it is shown. With -url
// (and a key in ANTHROPIC_API_KEY) both are up to a real model, at any
// Anthropic-compatible endpoint.
//
// At the end it prints the files of the memories. Change them, run the program
// again with the same -dir, and it uses the new texts. The next run also learns
// from a killed one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// The owner of the conversations and of their memories.
const owner = "ana"

var key = session.Key{Agent: "main", Channel: "cli", Peer: owner}

func main() {
	dir := flag.String("dir", ".convolog-memory", "`folder` that conversations and memories are kept in")
	url := flag.String("url", "", "base `URL` of an Anthropic-compatible service; empty for the scripted model")
	model := flag.String("model", "", "`name` of the model, required with -url")
	flag.Parse()
	if flag.NArg() > 0 || *dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	var client guard.Client = scripted{}
	if *url != "" {
		if *model == "" {
			log.Fatal("with -url, name the -model")
		}
		client = httpclient.Messages(*url, os.Getenv("ANTHROPIC_API_KEY"))
	}
	if err := run(context.Background(), *dir, client, *model, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run is the program.
func run(ctx context.Context, dir string, client guard.Client, model string, out io.Writer) (err error) {
	store, err := session.Open(filepath.Join(dir, "sessions"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	folder := filepath.Join(dir, "memories")
	memories, err := memory.Open(memory.Folder(folder), &memory.Options{Extractor: memory.Model{Client: client, Name: model}})
	if err != nil {
		return err
	}
	p := &program{store: store, memories: memories, client: client, out: out}
	p.guard = &guard.Guard{Model: model, System: "You are a helpful assistant. Answer briefly.", Window: 32_000}
	if err := p.catchUp(ctx); err != nil {
		return err
	}
	for _, lines := range [][]string{
		{"Hello! My name is Ana and I live in Porto.", "I prefer answers in one sentence."},
		{"Which city do I live in, and how do I prefer answers?"},
	} {
		if err := p.conversation(ctx, lines); err != nil {
			return err
		}
	}
	return show(folder, out)
}

// program is shared by the conversations.
type program struct {
	store    *session.Store
	memories *memory.Store
	client   guard.Client
	guard    *guard.Guard
	out      io.Writer
}

// conversation runs one conversation, from its first line to its memories.
func (p *program) conversation(ctx context.Context, lines []string) error {
	s, err := p.store.Create(ctx, key, &session.CreateOptions{Owner: owner})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(p.out, "--- a new conversation")
	for _, line := range lines {
		if err := p.turn(ctx, s, line); err != nil {
			return err
		}
	}
	return p.learn(ctx, s)
}

// learn commits the messages of a session and learns from every pending chapter.
func (p *program) learn(ctx context.Context, s *session.Session) error {
	if _, err := memory.Commit(ctx, s, nil); err != nil {
		return err
	}
	pending, err := p.memories.Pending(ctx, s)
	if err != nil {
		return err
	}
	for _, chapter := range pending {
		learned, err := p.memories.Extract(ctx, s, chapter)
		if err != nil { // the chapter stays pending
			_, _ = fmt.Fprintln(p.out, err)
			continue
		}
		for _, o := range learned.Outcomes {
			_, _ = fmt.Fprintf(p.out, "%s: %s %s (%s)\n", chapter, o.Action, o.URI, o.Reason)
		}
	}
	return nil
}

// catchUp learns from the sessions of earlier runs, which may have been killed.
func (p *program) catchUp(ctx context.Context) error {
	infos, err := p.store.List(ctx, &session.ListOptions{Owner: owner})
	if err != nil {
		return err
	}
	for _, info := range infos {
		s, err := p.store.Get(ctx, info.Ref)
		if err != nil {
			return err
		}
		if err := p.learn(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// turn appends a line of the user and the answer.
func (p *program) turn(ctx context.Context, s *session.Session, line string) error {
	_, _ = fmt.Fprintln(p.out, "user:", line)
	known, err := p.memories.Context(ctx, s, line, 2_000, nil)
	if err != nil { // known has the readable part
		_, _ = fmt.Fprintln(p.out, err)
	}
	said := append(known.Blocks(), transcript.TextBlock{Text: line}) // data before the question
	if _, err := s.Append(ctx, transcript.Message{Role: transcript.RoleUser, Content: said}); err != nil {
		return err
	}
	answer, err := guard.Complete(ctx, p.guard, s, p.client)
	if answer != nil {
		if _, saveErr := s.Append(context.WithoutCancel(ctx), answer); saveErr != nil {
			return errors.Join(err, saveErr)
		}
		_, _ = fmt.Fprintln(p.out, "assistant:", answer.Message.Text())
	}
	return err
}

// show prints the files of the memories.
func show(folder string, out io.Writer) error {
	return fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".md") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		_, _ = fmt.Fprintf(out, "--- %s\n%s", name, data)
		return err
	})
}
