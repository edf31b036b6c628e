package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
)

// export writes the session to a new file, in the format of its name's extension.
func export(ctx context.Context, r *repl, name string) (err error) {
	if name == "" {
		name = shortID(r.session.Ref().ID) + ".md"
	}
	var write func(context.Context, *session.Session, io.Writer) error
	switch {
	case strings.HasSuffix(name, ".md"):
		write = exchange.Markdown
	case strings.HasSuffix(name, ".html"):
		write = exchange.HTML
	case strings.HasSuffix(name, ".jsonl"):
		write = exchange.Lines
	default:
		r.out.say("Usage: /export [file], with .md or .html for reading, or .jsonl for the transcript")
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // never overwrite a file
	if err != nil {
		return err
	}
	err = errors.Join(write(ctx, r.session, f), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	r.out.say("Exported: %s", name)
	return nil
}

// fork continues in a copy of the session; this one stays unchanged.
func fork(ctx context.Context, r *repl, label string) error {
	var head string
	err := r.session.View(ctx, func(v *session.View) error {
		head = cmp.Or(v.Fold().Head(), r.session.Ref().ID) // the beginning
		return nil
	})
	if err != nil {
		return err
	}
	s, err := r.session.Fork(ctx, head, &session.CreateOptions{Title: label})
	if err != nil {
		return err
	}
	from := r.session.Ref().ID
	r.session = s
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	r.out.say("Forked: %s from %s (%d turns); you are in the fork.", shortID(s.Ref().ID), shortID(from), info.Turns)
	return nil
}
