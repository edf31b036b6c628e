package openviking

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// counts remembers the number of live messages of recently counted sessions, because a
// count reads the transcript.
type counts struct {
	mu   sync.Mutex
	last map[session.Ref]counted
}

type counted struct {
	entry string // the last entry of the counted history
	n     int
}

// maxCounts is the largest number of sessions to remember.
const maxCounts = 4096

func (c *counts) get(s *session.Session) counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[s.Ref()]
}

func (c *counts) set(s *session.Session, known counted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || len(c.last) >= maxCounts {
		c.last = map[session.Ref]counted{}
	}
	c.last[s.Ref()] = known
}

// append appends items and returns the new number of live messages. It first appends on
// the condition that the history is unchanged since the last count; then it need not count
// again. It misses a commit that leaves the history unchanged, until the next count.
func (c *counts) append(ctx context.Context, s *session.Session, idem string, items []transcript.Item) (n int, err error) {
	added, last := messagesIn(items)
	if known := c.get(s); known.entry != "" && last {
		done, err := s.AppendIf(ctx, session.Cond{Head: known.entry, Idem: idem}, items...)
		if err == nil && !done.Repeated {
			known = counted{done.IDs[len(done.IDs)-1], known.n + added}
			c.set(s, known)
			return known.n, nil
		}
		if err != nil && !errors.Is(err, session.ErrConflict) {
			return 0, err
		}
	}
	if _, err := s.AppendIf(ctx, session.Cond{Idem: idem}, items...); err != nil {
		return 0, err
	}
	return c.of(ctx, s)
}

// messagesIn counts the messages among items, without results of tools. Last reports
// whether the last item is a message of any kind.
func messagesIn(items []transcript.Item) (n int, last bool) {
	for _, item := range items {
		m, ok := item.(transcript.Message)
		isResult := func(b transcript.Block) bool { _, ok := b.(transcript.ToolResultBlock); return ok }
		if last = ok; ok && !slices.ContainsFunc(m.Content, isResult) {
			n++
		}
	}
	return n, last
}

// of returns the number of live messages in a session. It reads the entries since the last
// count, or all entries after a commit or a rewind.
func (c *counts) of(ctx context.Context, s *session.Session) (n int, err error) {
	known := c.get(s)
	for e, err := range s.Entries(ctx, known.entry) {
		if err != nil && !errors.Is(err, session.ErrNoEntry) {
			return 0, err
		}
		switch e.Body.(type) {
		case transcript.Commit, transcript.Rewind, nil:
			known = counted{}
		}
		if known.entry == "" {
			break
		}
		known.add(e)
	}
	if known.entry == "" {
		if known, err = liveMessages(ctx, s); err != nil {
			return 0, err
		}
	}
	c.set(s, known)
	return known.n, nil
}

// add counts an entry.
func (c *counted) add(e transcript.Entry) {
	if isMessage(e) {
		c.n++
	}
	switch e.Body.(type) {
	case transcript.MessageLine, transcript.Compaction, transcript.Rewind:
		c.entry = e.ID
	}
}

// isMessage reports whether an entry is the first of a message of the user or of an answer.
func isMessage(e transcript.Entry) bool {
	f, ok := e.Body.(transcript.MessageLine)
	return ok && f.Kind != transcript.TypeToolResult && f.Of == ""
}

// liveMessages counts the messages outside of chapters that no rewind took back. It lists
// the entries first. The next count includes later entries and commits.
func liveMessages(ctx context.Context, s *session.Session) (known counted, err error) {
	type step struct {
		id string
		counted
	}
	var steps []step
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			return known, err
		}
		next := step{id: e.ID}
		next.add(e)
		steps = append(steps, next)
	}
	first, last := map[string]bool{}, map[string]bool{} // the ends of runs of chapters
	chapters, err := memory.Chapters(ctx, s)
	if err != nil {
		return known, err
	}
	for _, a := range chapters {
		for _, r := range a.Runs {
			first[r.First], last[r.Last] = true, true
		}
	}
	shown := map[string]bool{}
	if err := said.Each(ctx, s, func(e transcript.Entry) { shown[e.ID] = true }); err != nil {
		return known, err
	}
	inside := false
	for _, next := range steps {
		inside = inside || first[next.id]
		known.entry = cmp.Or(next.entry, known.entry)
		if !inside && shown[next.id] {
			known.n += next.n
		}
		inside = inside && !last[next.id]
	}
	return known, nil
}
