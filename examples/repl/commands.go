package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript/tokens"
)

// command is a line that starts with a slash.
type command struct {
	name, arg, help string
	do              func(r *repl, ctx context.Context, arg string) error
}

func commands() []command {
	return []command{
		{"/new", "[label]", "start a new session, and title it", (*repl).create},
		{"/sessions", "", "list the sessions, newest first", (*repl).list},
		{"/list", "", "the same", (*repl).list},
		{"/switch", "<session>", "go to the session of a key, title or ID, or of its beginning", (*repl).change},
		{"/delete", "<session>", "delete another session", (*repl).remove},
		{"/history", "", "show the messages of this session", (*repl).history},
		{"/context", "", "show how full the context window is", (*repl).usage},
		{"/compact", "[n]", "summarise the history, all but the last n turns", (*repl).shorten},
		{"/rewind", "[n]", "take back the last n turns (1)", (*repl).rewind},
		{"/continue", "", "let the model continue pending work", (*repl).resume},
		{"/help", "", "list the commands", (*repl).help},
		{"/quit", "", "end the program (or Ctrl-D)", func(*repl, context.Context, string) error { return io.EOF }},
	}
}

func (r *repl) command(ctx context.Context, line string) error {
	name, arg, _ := strings.Cut(line, " ")
	for _, c := range commands() {
		if c.name == name {
			return c.do(r, ctx, strings.TrimSpace(arg))
		}
	}
	return fmt.Errorf("unknown command %s, not sent to the model; /help lists the commands", name)
}

func (r *repl) help(context.Context, string) error {
	for _, c := range commands() {
		r.note("%-20s%s", c.name+" "+c.arg, c.help)
	}
	return nil
}

// greet shows where the conversation has stopped.
func (r *repl) greet(ctx context.Context) error {
	t, err := turn.TryBegin(ctx, r.session) // stores the text of a killed turn
	if err == nil {
		err = t.End()
	}
	if err != nil && !errors.Is(err, session.ErrBusy) {
		return err
	}
	info, err := r.session.Info(ctx)
	if err != nil {
		return err
	}
	h, err := r.session.History(ctx)
	if err != nil {
		return err
	}
	p, err := r.session.Pending(ctx)
	r.note("Session: %s  %s", info.Key, short(info.ID))
	if info.Turns > 0 {
		r.note("Restored: %d previous turns", info.Turns)
		for _, m := range h.Messages[max(0, len(h.Messages)-2):] {
			fmt.Fprint(r.out, plain.Message(m))
		}
	}
	if p.Owed || p.Cut {
		r.note("Pending: /continue lets the model continue")
	}
	return err
}

func (r *repl) create(ctx context.Context, label string) error {
	key, err := session.ParseKey(r.key)
	if err != nil {
		return err
	}
	s, err := r.store.Create(ctx, key, &session.CreateOptions{Title: label})
	if err != nil {
		return err
	}
	r.session = s
	return r.greet(ctx)
}

func (r *repl) list(ctx context.Context, _ string) error {
	infos, err := r.store.List(ctx, nil)
	r.note("%d session(s):", len(infos))
	for _, i := range infos {
		mark := ""
		if i.Ref == r.session.Ref() {
			mark = " *"
		}
		r.note("%s  %s  %-24s %d turns, %d msgs, last: %s%s", short(i.ID), i.Key, plain.Line(i.Title, 40),
			i.Turns, i.Messages, i.UpdatedAt.Format("2006-01-02T15:04:05"), mark)
	}
	return err
}

func (r *repl) change(ctx context.Context, text string) error {
	info, err := search.ByPrefix(ctx, r.store, text, nil)
	if err != nil {
		return err
	}
	s, err := r.store.Get(ctx, info.Ref)
	if err != nil {
		return err
	}
	r.session, r.key = s, info.Key
	return errors.Join(s.MakeCurrent(ctx), r.greet(ctx))
}

func (r *repl) remove(ctx context.Context, text string) error {
	if len(text) < 4 {
		return errors.New("give at least 4 letters: fewer may name another session")
	}
	info, err := search.ByPrefix(ctx, r.store, text, nil)
	if err == nil && info.Ref == r.session.Ref() {
		err = errors.New("this is the current session: switch first")
	}
	if err != nil {
		return err
	}
	return errors.Join(r.store.Delete(ctx, info.Ref), r.list(ctx, ""))
}

func (r *repl) history(ctx context.Context, _ string) error {
	h, err := r.session.History(ctx)
	for _, m := range h.Messages {
		fmt.Fprint(r.out, plain.Message(m))
	}
	return err
}

func (r *repl) usage(ctx context.Context, _ string) error {
	h, err := r.session.History(ctx)
	used := tokens.Estimator{}.Count(h.SystemPrompt(system), script.Tools, h.Messages)
	fmt.Fprint(r.out, plain.Usage(used, r.window))
	return err
}

func (r *repl) shorten(ctx context.Context, arg string) (err error) {
	o := r.compact
	if o.Keep.Turns, err = plain.Turns(arg); err != nil {
		return err
	}
	done, err := r.session.Compact(ctx, &o)
	if done.Cut.Nothing != "" {
		r.note("Nothing to compact (~%s tokens): %s.", plain.Thousands(done.Cut.Before), done.Cut.Nothing)
	}
	return err
}

func (r *repl) rewind(ctx context.Context, arg string) error {
	n, err := plain.Turns(arg)
	if err != nil {
		return err
	}
	if err := turn.Undo(ctx, r.session, n); err != nil {
		return err
	}
	r.note("Rewound %d turn(s). Nothing was erased from the transcript.", n)
	return nil
}

func (r *repl) resume(ctx context.Context, _ string) error {
	p, err := r.session.Pending(ctx)
	switch {
	case err != nil:
	case p.Owed:
	case p.Cut:
		err = turn.Retry(ctx, r.session) // ask again, without the cut answer
	default:
		err = errors.New("nothing is pending: type a message")
	}
	if err != nil {
		return err
	}
	return r.turn(ctx, "")
}

// short is enough of an ID to name a session: its time in milliseconds.
func short(id string) string { return id[:min(len(id), 13)] }
