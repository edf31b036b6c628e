package exchange

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// Lines writes the lines of the transcript as they are, rewound and compacted
// ones included: a file in the format of docs/FORMAT.md. Damage is left out, see
// [session.Session.Health]. Lines keeps the lines of one append in memory.
//
// All exports of this package call the filters of the store, which mask texts that are
// older than their hook and add media: see [session.Options].
func Lines(ctx context.Context, s *session.Session, w io.Writer) (err error) {
	defer audit(ctx, s, &err)
	if err := ofStore(s); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for b, err := range transcript.Batches(s.Scan(ctx, session.ScanOptions{})) {
		if err == nil {
			b.Entries, err = s.FilterExport(ctx, b.Entries)
		}
		if err != nil {
			return err
		}
		for _, e := range b.Entries {
			_, _ = out.Write(e.Line())
			if err := out.WriteByte('\n'); err != nil { // the error of Write
				return failed(s, err)
			}
		}
	}
	return failed(s, out.Flush())
}

// A Renderer renders requests in a provider's JSON. The Formats of the packages
// below rebuild/wire are Renderers.
type Renderer interface {
	// Request returns the body of a request, and a report of changes for the
	// provider.
	Request(req transcript.Request) (body []byte, report rebuild.Report, err error)
}

// Request writes the next model request: the history in the form of r. Base holds
// the rest of the request, the name of the model for example; Request sets its
// Messages, and adds the prompt of the history to its System. The report lists
// content that the provider does not take.
func Request(ctx context.Context, s *session.Session, w io.Writer, r Renderer, base transcript.Request) (_ rebuild.Report, err error) {
	defer audit(ctx, s, &err)
	if err := ofStore(s); err != nil {
		return nil, err
	}
	h, err := s.History(ctx)
	if err == nil {
		err = redactHistory(ctx, s, &h)
	}
	if err != nil {
		return nil, err
	}
	base.System, base.Messages = h.SystemPrompt(base.System), h.Messages
	body, report, err := r.Request(base)
	if err == nil {
		_, err = w.Write(append(body, '\n'))
	}
	return report, failed(s, err)
}

// Export writes the session in the form of another program: the whole conversation,
// repaired and without rewound entries, each compaction where it was made. The ID stays; a
// session that could not keep the one that it came with gets that. Set fields of as override
// the store. [Import] of the written files into the store adds nothing. Export returns
// counts of content that the program cannot hold, system prompts or the owner for example. The
// program's index is written by [dialect.Writer.Close].
func Export(ctx context.Context, s *session.Session, w *dialect.Writer, as dialect.Session) (_ dialect.Losses, err error) {
	defer audit(ctx, s, &err)
	entries, lost, err := conversation(ctx, s)
	if err != nil {
		return nil, err
	}
	info, err := redactedInfo(ctx, s)
	if err != nil {
		return nil, err
	}
	as.ID, as.Key, as.Agent = cmp.Or(as.ID, originalID(info), info.ID), cmp.Or(as.Key, info.Key), cmp.Or(as.Agent, info.Agent)
	as.Title, as.Owner = cmp.Or(as.Title, info.Title), cmp.Or(as.Owner, info.Owner)
	if as.Created.IsZero() {
		as.Created = info.CreatedAt
	}
	if as.Updated.IsZero() {
		as.Updated = info.UpdatedAt
	}
	losses, err := w.Write(as, exported(ctx, s, entries))
	for name, n := range losses {
		lost[name] += n
	}
	return lost, failed(s, err)
}

// audit reports an export of a session.
func audit(ctx context.Context, s *session.Session, err *error) {
	if ofStore(s) != nil {
		return
	}
	s.Store().Audit(ctx, session.Action{Name: "export", Session: s.Ref(), Err: *err})
}

func failed(s *session.Session, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("exchange: export %s/%s: %w", s.Ref().Agent, s.Ref().ID, err)
}

// conversation returns the whole conversation as entries in order: an answer with its
// details as one entry, user texts and tool results as they were recorded, with the
// contexts they refer to; compactions, commits, used contexts, the status of calls,
// system prompts and which tools may be called where they were recorded. The result that
// the fold has made up for a call without one is in an entry without an ID. Lost counts
// damage, hidden entries, which are left out, entries of unknown types and repeated
// batches.
func conversation(ctx context.Context, s *session.Session) ([]transcript.Entry, dialect.Losses, error) {
	if err := ofStore(s); err != nil {
		return nil, nil, err
	}
	c := conversed{fold: rebuild.New(&rebuild.Options{Full: true}), lines: map[string]place{}, contexts: map[string][]transcript.Block{}, answers: map[string]transcript.MessageLine{}}
	lost := dialect.Losses{}
	records := watched(s.Scan(ctx, session.ScanOptions{}), func(rec transcript.Record) {
		if rec.Damage != nil {
			lost["damage"]++
		}
	})
	for batch, err := range transcript.Batches(records) {
		if err != nil {
			return nil, nil, err
		}
		if c.fold.Repeats(batch.Entries[0]) {
			lost["repeated"]++
			continue
		}
		if err := c.fold.Add(batch); err != nil {
			return nil, nil, failed(s, err)
		}
		for _, e := range batch.Entries {
			switch b := e.Body.(type) {
			case transcript.Unknown:
				lost["unknown"]++
			case transcript.Compaction, transcript.Commit, transcript.Extracted, transcript.Used, transcript.ToolStatus, transcript.System, transcript.Tools:
				c.between = append(c.between, e)
			case transcript.MessageLine:
				if slices.ContainsFunc(b.Content, isContext) {
					c.contexts[e.ID] = b.Content
				}
				if b.Model != "" {
					c.answers[e.ID] = transcript.MessageLine{API: b.API, Model: b.Model, StopReason: b.StopReason, Usage: b.Usage, RequestID: b.RequestID}
				}
			default:
			}
			c.lines[e.ID] = place{len(c.lines) + 1, e.Time}
		}
	}
	for id := range c.lines {
		if w, _ := c.fold.Where(id); w.Hidden {
			lost["hidden"]++
		}
	}
	return c.entries(), lost, nil
}

// A conversed holds the state of one session export.
type conversed struct {
	fold    *rebuild.Fold
	lines   map[string]place   // by entry ID
	between []transcript.Entry // other than messages: compactions, commits, contexts, prompts
	// contexts are the blocks of the entries that refer to contexts, which the
	// fold makes texts of.
	contexts map[string][]transcript.Block
	answers  map[string]transcript.MessageLine // the details of each answer, by its first entry
}

func isContext(b transcript.Block) bool {
	_, ok := b.(transcript.ContextBlock)
	return ok
}

// recorded returns a block of a history as it was recorded, if the fold has made
// a text of a context.
func (c *conversed) recorded(b transcript.Block, from transcript.Origin) transcript.Block {
	blocks := c.contexts[from.Entry]
	if from.Block >= 0 && from.Block < len(blocks) && isContext(blocks[from.Block]) {
		return blocks[from.Block]
	}
	return b
}

// A place is the number of a line, from 1, and its time.
type place struct {
	at   int
	time time.Time
}

// A spoken is an entry to be exported and the lines that it was made of.
type spoken struct {
	transcript.Entry
	from, to int
}

// entries merges the messages of the fold with what lies between them.
func (c *conversed) entries() []transcript.Entry {
	var all []spoken
	for _, m := range c.fold.History().Messages {
		all = c.split(all, m)
	}
	entries := make([]transcript.Entry, 0, len(all)+len(c.between))
	rest := c.between
	inForce := map[string]transcript.Body{} // a prompt, by its type: compactions repeat it
	until := func(line int) {
		for ; len(rest) > 0 && c.lines[rest[0].ID].at < line; rest = rest[1:] {
			e := rest[0]
			if !c.fold.Live(e.ID) && !isCommitted(e) {
				continue
			}
			if e.Type() == "system" || e.Type() == "tools" {
				if reflect.DeepEqual(inForce[e.Type()], e.Body) {
					continue
				}
				inForce[e.Type()] = e.Body
			}
			entries = append(entries, c.translate(e, all))
		}
	}
	for _, e := range all {
		until(e.from)
		entries = append(entries, e.Entry)
	}
	until(len(c.lines) + 1)
	return entries
}

// split appends a message of a history as entries: an answer as one, a user
// message as one for each line that it was made of.
func (c *conversed) split(all []spoken, m transcript.Message) []spoken {
	first := len(all)
	for i, b := range m.Content {
		if m.Origins[i].Block == transcript.PromptEntry {
			continue // it is between the messages
		}
		id := m.Origins[i].Entry
		b = c.recorded(b, m.Origins[i])
		if text, ok := b.(transcript.TextBlock); ok && id == "" && text.Text == neutral.Opening {
			continue // the fold has put it there
		}
		line := c.lines[id]
		n := len(all) - 1
		if n < first || m.Role == transcript.RoleUser && all[n].ID != id {
			f := c.answers[id]
			f.Kind, f.Role = string(m.Role), m.Role
			e := transcript.Entry{ID: id, Time: line.time, Body: f}
			all = append(all, spoken{Entry: e, from: line.at})
			n++
		}
		all[n].to = max(all[n].to, line.at)
		if f, ok := all[n].Body.(transcript.MessageLine); ok {
			f.Content = append(f.Content, b)
			if _, isText := b.(transcript.TextBlock); isText && len(f.Content) == 1 {
				f = f.WithContent(f.Content...)
			}
			all[n].Body = f
		}
	}
	return all
}

// isCommitted reports whether an entry is about a commit, which no rewind takes
// back.
func isCommitted(e transcript.Entry) bool {
	return e.Type() == "commit" || e.Type() == "extracted"
}

// translate makes compactions and commits name entries that are exported. Other
// entries stay as they are.
func (c *conversed) translate(e transcript.Entry, all []spoken) transcript.Entry {
	switch b := e.Body.(type) {
	case transcript.Compaction:
		e.Body = c.compaction(b, all)
	case transcript.Commit:
		e.Body = c.commit(b, all)
	default:
	}
	return e
}

// commit makes a commit name the first and the last message of each run that are
// exported. A run without any is left out.
func (c *conversed) commit(body transcript.Commit, all []spoken) transcript.Commit {
	runs := body.Runs
	if len(runs) == 0 && body.FirstEntry != "" {
		runs = []transcript.Run{{First: body.FirstEntry, Last: body.LastEntry}}
	}
	body.Runs = nil
	for _, r := range runs {
		first, last := c.lines[r.First].at, c.lines[r.Last].at
		var named transcript.Run
		for _, s := range all {
			if s.from > 0 && s.to >= first && s.from <= last && s.isMessage() {
				named = transcript.Run{First: cmp.Or(named.First, s.ID), Last: s.ID}
			}
		}
		if named.First != "" && first > 0 {
			body.Runs = append(body.Runs, named)
		}
	}
	if n := len(body.Runs); n > 0 {
		body.FirstEntry, body.LastEntry = body.Runs[0].First, body.Runs[n-1].Last
	}
	return body
}

// isMessage reports whether there is more in an entry than results.
func (s spoken) isMessage() bool {
	f, _ := s.Body.(transcript.MessageLine)
	return slices.ContainsFunc(f.Content, func(b transcript.Block) bool { return transcript.BlockType(b) != "tool_result" })
}

// compaction makes a compaction name the first entry that has a line of the kept
// range, and the last that has one of the covered range.
func (c *conversed) compaction(body transcript.Compaction, all []spoken) transcript.Compaction {
	if kept := c.lines[body.FirstKept].at; kept > 0 {
		if i := slices.IndexFunc(all, func(s spoken) bool { return s.to >= kept }); i >= 0 {
			body.FirstKept = all[i].ID
		}
	}
	covered := c.lines[body.CoversTo].at
	for _, s := range all {
		if covered == 0 || s.from > covered {
			break
		}
		if s.from > 0 {
			body.CoversTo = s.ID
		}
	}
	return c.withCarried(body)
}

// withCarried returns a compaction whose summary holds the carried items as well, as
// other programs have no place for them. Items from hidden entries are left out.
func (c *conversed) withCarried(body transcript.Compaction) transcript.Compaction {
	hidden := func(entry string) bool { w, _ := c.fold.Where(entry); return w.Hidden }
	body, _ = body.WithoutCarried(hidden)
	if text := rebuild.CarriedText(body); text != "" {
		summary, _ := recalltool.Cut(body.Summary)
		body.Summary = strings.TrimLeft(summary+"\n\n"+text, "\n")
		body.Pins, body.Rules, body.Files, body.Errors, body.IDs, body.Said = nil, nil, nil, nil, nil, nil
	}
	return body
}
