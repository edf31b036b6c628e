package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// command is a line that starts with a slash.
type command struct {
	name, arg, help string
	do              func(ctx context.Context, r *repl, arg string) error
}

func commands() []command {
	return []command{
		{"/new", "[label]", "start a new session, and title it", newSession},
		{"/sessions", "", "list the sessions, newest first (also /list)", listSessions},
		{"/list", "", "", listSessions},
		{"/switch", "<key, title, ID, n>", "go to a session; n is its number in the list", switchSession},
		{"/fork", "[label]", "continue in a copy of this session", fork},
		{"/search", "<words>", "find words in all sessions", searchWords},
		{"/history", "", "show the messages of this session", showHistory},
		{"/context", "", "show how full the context window is", showContext},
		{"/compact", "[n]", "summarise the history, all but the last n turns", compactNow},
		{"/rewind", "[n]", "take back the last n turns (1)", rewind},
		{"/continue", "", "let the model continue pending work", resume},
		{"/export", "[file]", "write it to a new .md, .html or .jsonl file", export},
		{"/title", "<text>", "give this session a title", setTitle},
		{"/delete", "<session>", "delete another session", deleteSession},
		{"/archive", "<session>", "put another session away; /search still finds it", archive},
		{"/restore", "<session>", "bring an archived session back", restore},
		{"/expire", "<days> [apply]", "archive sessions unused for that many days", expire},
		{"/erase", "[words]", "show places of words; then erase them", eraseWords},
		{"/help", "", "", help},
		{"/quit", "", "end the program (or Ctrl-D)", nil},
	}
}

func help(_ context.Context, r *repl, _ string) error {
	for _, c := range commands() {
		if c.help != "" {
			r.out.say("%-30s%s", strings.TrimSpace(c.name+" "+c.arg), c.help)
		}
	}
	r.out.say("%-30s%s", "Ctrl-C", "stop the answer; twice at the prompt, leave")
	if r.console != nil {
		r.out.say("%-30s%s", `Alt-Enter, or \ at the end`, "continue in another line")
	}
	return nil
}

func newSession(ctx context.Context, r *repl, label string) error {
	s, err := r.store.Create(ctx, r.key, &session.CreateOptions{Title: label})
	if err != nil {
		return err
	}
	r.session = s
	if label != "" {
		label = " (" + clean(label) + ")"
	}
	r.out.say("New session: %s%s", shortID(s.Ref().ID), label)
	return nil
}

func listSessions(ctx context.Context, r *repl, _ string) error {
	infos, err := r.store.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return err
	}
	r.out.say("%d session(s):", len(infos))
	r.listed = nil
	for n, i := range infos {
		r.listed = append(r.listed, i.Ref)
		r.out.say("%3d%s", n+1, r.row(i))
	}
	return nil
}

func (r *repl) row(i session.Info) string {
	title := i.Title
	if title == "" {
		title = "(no title)"
	}
	mark := ""
	switch {
	case i.Ref == r.session.Ref():
		mark = " *"
	case i.State != session.Live:
		mark = " (" + string(i.State) + ")"
	}
	return fmt.Sprintf("  %s  %s  %-24s %d turns, %d msgs, last: %s%s",
		shortID(i.ID), i.Key, cut(title, 40), i.Turns, i.Messages, i.UpdatedAt.Format("2006-01-02T15:04:05"), mark)
}

// find returns the session that a person means, or explains why not and returns
// nil.
func (r *repl) find(ctx context.Context, query, usage string) (*session.Session, error) {
	if query == "" {
		r.out.say("Usage: %s", usage)
		return nil, nil
	}
	info, err := search.ByPrefix(ctx, r.store, query, &session.ListOptions{State: session.AnyState})
	named := err == nil && (info.ID == query || info.Key == query || info.Title == query)
	if n, numErr := strconv.Atoi(query); !named && numErr == nil && n > 0 && n <= len(r.listed) {
		return r.store.Get(ctx, r.listed[n-1])
	}
	if amb, ok := errors.AsType[*search.AmbiguousError](err); ok {
		r.out.say("Ambiguous: %q fits", query)
		for _, i := range amb.Matches {
			r.out.say("%s", r.row(i))
		}
		return nil, nil
	}
	if err != nil {
		r.out.say("Session not found: %s", query)
		r.out.say("Use /sessions to list available sessions.")
		return nil, nil
	}
	return r.store.Get(ctx, info.Ref)
}

func switchSession(ctx context.Context, r *repl, query string) error {
	s, err := r.find(ctx, query, "/switch <key, title, ID, or number of the last /sessions>")
	if err != nil || s == nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	key, err := session.ParseKey(info.Key)
	if err != nil {
		return err
	}
	if err := s.MakeCurrent(ctx); err != nil {
		return err
	}
	r.session, r.key = s, key
	r.out.say("Switched to: %s (%d turns)", shortID(s.Ref().ID), info.Turns)
	r.showPending(ctx)
	return nil
}

func deleteSession(ctx context.Context, r *repl, query string) error {
	s, err := r.find(ctx, query, "/delete <ID, key or prefix>")
	if err != nil || s == nil {
		return err
	}
	if s.Ref() == r.session.Ref() {
		r.out.say("Cannot delete the current session. Switch first.")
		return nil
	}
	if err := r.store.Delete(ctx, s.Ref()); err != nil {
		return err
	}
	r.out.say("Deleted: %s", shortID(s.Ref().ID))
	return nil
}

// mostHits is how many hits /search shows.
const mostHits = 10

func searchWords(ctx context.Context, r *repl, words string) error {
	if words == "" {
		r.out.say("Usage: /search <words>, with \"a phrase\" or the beginning of a word*")
		return nil
	}
	found := 0
	for hit, err := range search.Store(ctx, r.store, search.Query{Text: words, Limit: mostHits, Sessions: session.ListOptions{State: session.AnyState}}) {
		if errors.Is(err, search.ErrQuery) {
			r.out.say("%v", err)
			return nil
		}
		if err != nil {
			return err
		}
		marks := []string{hit.Role}
		if hit.Rewound {
			marks = append(marks, "rewound")
		}
		if hit.Compacted {
			marks = append(marks, "compacted")
		}
		if hit.Hidden {
			marks = append(marks, "hidden")
		}
		if hit.Clipped {
			marks = append(marks, "clipped")
		}
		found++
		r.out.say("  %s  %s  %s: %s", shortID(hit.Session.ID), hit.Time.Format("2006-01-02 15:04"), strings.Join(marks, ", "), cut(hit.Excerpt, 160))
	}
	if found == 0 {
		r.out.say("Nothing was found.")
	}
	return nil
}

func setTitle(ctx context.Context, r *repl, title string) error {
	if title == "" {
		r.out.say("Usage: /title <text>")
		return nil
	}
	if err := r.session.SetMeta(ctx, transcript.Meta{Title: &title}); err != nil {
		return err
	}
	r.out.say("Title: %s", clean(title))
	return nil
}

func rewind(ctx context.Context, r *repl, arg string) error {
	n := 1
	if arg != "" {
		var err error
		if n, err = strconv.Atoi(arg); err != nil || n < 1 {
			r.out.say("Usage: /rewind [n], with n a number of turns")
			return nil
		}
	}
	if err := turn.Undo(ctx, r.session, n); err != nil {
		return err
	}
	info, err := r.session.Info(ctx)
	if err != nil {
		return err
	}
	r.out.say("Rewound %d turn(s); %d left. Nothing was erased from the transcript.", n, info.Turns)
	return nil
}

func resume(ctx context.Context, r *repl, _ string) error {
	p, err := r.session.Pending(ctx)
	if err != nil {
		return err
	}
	if !p.Owed {
		r.out.say("Nothing is pending: type a message.")
		return nil
	}
	r.turn(ctx, func(context.Context) error { return nil })
	return nil
}

func showHistory(ctx context.Context, r *repl, _ string) error {
	h, err := r.session.History(ctx)
	if err != nil {
		return err
	}
	r.out.say("Session: %s", r.session.Ref().ID)
	if len(h.Messages) == 0 {
		r.out.say("(empty session)")
	}
	r.showMessages(h.Messages)
	return nil
}

// userTexts returns the texts of a session's user, oldest first. Without a
// history there are just no texts to recall.
func userTexts(ctx context.Context, s *session.Session) (texts []string) {
	h, err := exchange.FullHistory(ctx, s)
	if err != nil {
		return nil
	}
	for i, m := range h.Messages {
		if h.StartsTurn(i) && m.Text() != "" {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

func (r *repl) showMessages(messages []transcript.Message) {
	for _, m := range messages {
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				r.out.say("[%s] %s", m.Role, cut(b.Text, 200))
			case transcript.ToolCallBlock:
				r.out.say("[%s:tool_use] %s(%s)", m.Role, b.Name, cut(string(b.Input), 100))
			case transcript.ToolResultBlock:
				mark := ""
				if b.IsError {
					mark = "error: "
				}
				r.out.say("[%s:tool_result] %s%s", m.Role, mark, cut(b.Text(), 100))
			default:
				r.out.say("[%s:%s]", m.Role, transcript.BlockType(b))
			}
		}
	}
}

func showContext(ctx context.Context, r *repl, _ string) error {
	h, err := r.session.History(ctx)
	if err != nil {
		return err
	}
	plan := compact.Plan(h, &r.compact)
	used := overhead + tokens.Estimator{}.Count(h.SystemPrompt(""), nil, h.Messages)
	r.out.say("%s", usageLine(used, r.window))
	r.out.say("%s", usageBar(used, r.window))
	when := "by /compact"
	if room := r.compact.Trigger.Room(); room > 0 {
		when += fmt.Sprintf(", and after a turn above %s tokens", thousands(room+r.compact.Trigger.Overhead))
	}
	r.out.say("%-11s %d", "Messages:", len(h.Messages))
	r.out.say("%-11s %s", "Compaction:", when)
	r.out.say("%-11s %s", "Plan:", strings.TrimSuffix(plan.Detail(h, nil), "\n"))
	return nil
}

const cells = 30

func usageLine(used, window int) string {
	return fmt.Sprintf("Context usage: ~%s / %s tokens", thousands(used), thousands(window))
}

// usageBar draws 30 cells; a cell is filled if it is fully used.
func usageBar(used, window int) string {
	percent := 100 * float64(used) / float64(max(window, 1))
	filled := int(cells * min(percent, 100) / 100)
	return fmt.Sprintf("[%s%s] %.1f%%", strings.Repeat("#", filled), strings.Repeat("-", cells-filled), percent)
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
