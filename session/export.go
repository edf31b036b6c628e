package session

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// ExportLines writes the lines of the transcript as they are, the rewound and
// the compacted ones included: what a reader of FORMAT.md takes. Damaged places
// are left out, see [Session.Health]. It keeps one line in memory.
func (s *Session) ExportLines(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriter(w)
	for e, err := range s.Entries(ctx) {
		if err != nil {
			return err
		}
		_, err := out.Write(e.Line())
		if err == nil {
			err = out.WriteByte('\n')
		}
		if err != nil {
			return s.store.wrap("export", s.ref, err)
		}
	}
	return s.store.wrap("export", s.ref, out.Flush())
}

// A Renderer renders requests in a provider's JSON. Those of package
// rebuild/wire are Renderers.
type Renderer interface {
	// Request returns the body of a request, and what had to be changed in it
	// for the provider.
	Request(req transcript.Request) (body []byte, report rebuild.Report, err error)
}

// ExportRequest writes the history as the request that r makes of it: what a
// model would be sent. Of base it sets System, if the history has one, and
// Messages; what else a request has is the caller's, the name of the model for
// example. The report says what the provider has no place for.
func (s *Session) ExportRequest(ctx context.Context, w io.Writer, r Renderer, base transcript.Request) (rebuild.Report, error) {
	h, err := s.History(ctx)
	if err != nil {
		return nil, err
	}
	base.System, base.Messages = cmp.Or(h.System, base.System), h.Messages
	body, report, err := r.Request(base)
	if err == nil {
		_, err = w.Write(append(body, '\n'))
	}
	return report, s.store.wrap("export", s.ref, err)
}

// ExportDialect writes the session in the form of another program: the whole
// conversation, repaired and without what was rewound, each compaction where
// it was made. What as says about the session goes before what the store says,
// the ID it had there for example. The result counts what that program has no
// place for; the index it has follows with [dialect.Writer.Close].
func (s *Session) ExportDialect(ctx context.Context, w *dialect.Writer, as dialect.Session) (dialect.Losses, error) {
	entries, lost, err := s.conversation(ctx)
	if err != nil {
		return nil, err
	}
	info := s.Info()
	as.ID, as.Key, as.Agent = cmp.Or(as.ID, info.ID), cmp.Or(as.Key, info.Key), cmp.Or(as.Agent, info.Agent)
	as.Title = cmp.Or(as.Title, info.Title)
	if as.Created.IsZero() {
		as.Created = info.CreatedAt
	}
	if as.Updated.IsZero() {
		as.Updated = info.UpdatedAt
	}
	losses, err := w.Write(as, func(yield func(transcript.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	})
	for name, n := range losses {
		lost[name] += n
	}
	return lost, s.store.wrap("export", s.ref, err)
}

// conversation returns the whole conversation as entries in order: an answer as
// one, what the user and the tools said as it was recorded, each compaction and
// what is known of its archive where it was made, and the contexts that were
// used. lost counts what is not there any more: damage, entries of
// unknown types.
func (s *Session) conversation(ctx context.Context) (entries []transcript.Entry, lost dialect.Losses, err error) {
	c := conversation{fold: rebuild.New(&rebuild.Options{Full: true}), lines: map[string]spokenLine{}}
	lost = dialect.Losses{}
	records := func(yield func(transcript.Record, error) bool) {
		for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Forward) {
			if err == nil && rec.Damage != nil {
				lost["damage"]++
			}
			if !yield(rec, err) {
				return
			}
		}
	}
	for batch, err := range transcript.Batches(records) {
		if err == nil {
			err = c.fold.Add(batch)
		}
		if err != nil {
			return nil, nil, s.store.wrap("export", s.ref, err)
		}
		for _, e := range batch.Entries {
			switch e.Body.(type) {
			case transcript.Unknown:
				lost["unknown"]++
			case transcript.Compaction, transcript.Commit, transcript.Used:
				c.between = append(c.between, e)
			default:
			}
			c.lines[e.ID] = spokenLine{len(c.lines) + 1, e.Time}
		}
	}
	return c.entries(), lost, nil
}

// conversation is what is known of a session that is exported.
type conversation struct {
	fold    *rebuild.Fold
	lines   map[string]spokenLine // by entry ID
	between []transcript.Entry    // that nobody has said: compactions, commits, contexts
}

// spokenLine says where a line is, counted from 1, and when it was written.
type spokenLine struct {
	at   int
	time time.Time
}

// spoken is an entry to be exported, and the lines that it was made of.
type spoken struct {
	transcript.Entry
	from, to int
}

func (c *conversation) entries() []transcript.Entry {
	var all []spoken
	for _, m := range c.fold.History().Messages {
		all = c.split(all, m)
	}
	entries := make([]transcript.Entry, 0, len(all)+len(c.between))
	left := c.between
	until := func(line int) {
		for len(left) > 0 && c.lines[left[0].ID].at < line {
			if c.fold.Live(left[0].ID) {
				entries = append(entries, c.compaction(left[0], all))
			}
			left = left[1:]
		}
	}
	for _, e := range all {
		until(e.from)
		entries = append(entries, e.Entry)
	}
	until(len(c.lines) + 1)
	return entries
}

// split appends a message of a history as entries.
func (c *conversation) split(all []spoken, m transcript.Message) []spoken {
	first := len(all)
	for i, b := range m.Content {
		id := m.Origins[i].Entry
		if text, ok := b.(transcript.TextBlock); ok && id == "" && text.Text == rebuild.Opening {
			continue
		}
		line := c.lines[id]
		n := len(all) - 1
		if n < first || m.Role == transcript.RoleUser && all[n].ID != id {
			e := transcript.Entry{ID: id, Time: line.time, Body: transcript.Fragment{Kind: string(m.Role), Role: m.Role}}
			all = append(all, spoken{Entry: e, from: line.at})
			n++
		}
		all[n].to = max(all[n].to, line.at)
		if f, ok := all[n].Body.(transcript.Fragment); ok {
			f.Content = append(f.Content, b)
			if _, isText := b.(transcript.TextBlock); isText && len(f.Content) == 1 {
				f = f.WithContent(f.Content...)
			}
			all[n].Body = f
		}
	}
	return all
}

// compaction returns a compaction that names the entries that are exported, and
// any other entry as it is.
func (c *conversation) compaction(e transcript.Entry, all []spoken) transcript.Entry {
	body, ok := e.Body.(transcript.Compaction)
	if !ok {
		return e
	}
	if kept := c.lines[body.FirstKept].at; kept > 0 {
		for _, s := range all {
			if s.to >= kept {
				body.FirstKept = s.ID
				break
			}
		}
	}
	if covered := c.lines[body.CoversTo].at; covered > 0 {
		for _, s := range all {
			if s.from > covered {
				break
			}
			if s.from > 0 {
				body.CoversTo = s.ID
			}
		}
	}
	e.Body = body
	return e
}
