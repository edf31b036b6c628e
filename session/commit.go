package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/abstract"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// CommitOptions says how [Session.Commit] archives.
type CommitOptions struct {
	// Keep is how much of what is archived the history goes on to show verbatim.
	// The zero value shows none of it: the overview takes its place.
	Keep compact.Keep
	// KeepHistory leaves the history as it is: nothing is compacted.
	KeepHistory bool
	// Summarizer writes the overview; nil means that of [Options].Compact.
	Summarizer compact.Summarizer
	// Timeout is how long the summarizer may take; 0 means that of
	// [Options].Compact.
	Timeout time.Duration
}

// Committed is what [Session.Commit] did.
type Committed struct {
	Archived bool `json:"archived"`
	// Reason says why nothing was archived: [NothingNew] or [TurnOpen].
	Reason string `json:"reason,omitempty"`

	Archive  string `json:"archive,omitempty"`  // the name, such as "archive_001"
	Entry    string `json:"entry,omitempty"`    // of the commit
	First    string `json:"first,omitempty"`    // the first entry that was archived
	Last     string `json:"last,omitempty"`     // the last one
	Abstract string `json:"abstract,omitempty"` // one line
	Overview string `json:"overview,omitempty"`
	Messages int    `json:"messages,omitempty"` // texts of the user and answers
}

// Why a commit archives nothing.
const (
	NothingNew = "no_messages" // every message is in an archive
	TurnOpen   = "turn_open"   // the turn that is going on is all that is new
)

// opCommit is the Op of errors of commits.
const opCommit = "commit"

// Commit archives what was said since the last commit: the entries of the history
// that are in no archive yet, up to the last turn that is over. A turn that waits
// for an answer, a result or a person stays for the next commit, and so does what
// others append meanwhile. An archive is a range of the transcript; nothing is
// copied, moved or removed.
//
// When the error is nil, either one commit entry describes the archive, as durable
// as any append, or Committed.Reason says why there was nothing to archive. So
// calling Commit again is always right: after a kill it finds either the whole
// commit or none. Entries that were copied by a fork are never archived, nor are
// rewound ones; if the rewind is undone, the next commit archives them.
//
// The overview is written by one call of the summarizer. In the same append it
// takes the place of what was archived in the history, as the summary of a
// compaction, unless KeepHistory is set; it then stands for what the summary before
// it stood for, too. The abstract is the text of the first line of the overview
// that has the form "**Label**: text", or else of its first line that is no
// heading. If the summarizer fails or takes too long, compact.Extractive stands in
// for it, which is no error.
//
// The overview is made while nothing is locked. If another commit, a compaction or
// a rewind comes in between, Commit begins again, and asks the summarizer again if
// there is still something to archive; after five tries the error matches
// [ErrConflict]. After an error nothing was archived, except that a
// [*NotDurableError] leaves it open. One commit or compaction at a time runs on a
// session in a process; others wait for it.
func (s *Session) Commit(ctx context.Context, opts *CommitOptions) (done Committed, err error) {
	ctx, free, err := s.alone(ctx, opCommit)
	if err != nil {
		return done, err
	}
	defer free()
	const tries = 5
	for range tries {
		if done, err = s.commitOnce(ctx, *cmp.Or(opts, new(CommitOptions))); !errors.Is(err, ErrConflict) {
			break
		}
	}
	return done, err
}

// archiving is one commit.
type archiving struct {
	work
	opts    CommitOptions
	to      int    // the first message of the history that is not archived
	open    string // the first entry of that
	last    rebuild.Commit
	owner   string
	new     unfiled
	scan    scan        // up to where the history was read
	cut     compact.Cut // what the compaction replaces; At is 0 if there is none
	commit  transcript.Commit
	extract bool // the overview is one, and no model has written it
}

// commitOnce archives what is there now. The error matches ErrConflict if that
// has changed meanwhile.
func (s *Session) commitOnce(ctx context.Context, opts CommitOptions) (Committed, error) {
	a, began := archiving{opts: opts}, time.Now()
	a.Options = s.compactOptions(&compact.Options{Summarizer: opts.Summarizer, Timeout: opts.Timeout})
	l, err := s.survey(ctx, &a)
	if err != nil {
		return Committed{}, err
	}
	if a.new.messages == 0 {
		if a.new.open > 0 {
			return Committed{Reason: TurnOpen}, nil
		}
		return Committed{Reason: NothingNew}, nil
	}
	c, err := s.overview(ctx, &a, l)
	if err == nil {
		a.commit, err = s.describe(ctx, &a, c.Summary)
	}
	if err != nil {
		return Committed{}, s.store.wrap(opCommit, s.ref, err)
	}
	var ids []string
	if a.cut.At > 0 {
		a.also = a.item
		if ids, err = s.commit(ctx, opCommit, &a.work, &c, a.cut); err == nil {
			s.store.tell(ctx, s.ref, Event{Kind: EventCompactionDone, Took: time.Since(began), Cut: a.cut, Compaction: c, StandIn: a.standIn})
		}
	} else {
		ids, err = s.update(ctx, opCommit, a.rev, func(v *View) ([]transcript.Item, error) {
			item, err := a.item(v.t, new(transcript.Compaction))
			return []transcript.Item{item}, err
		})
		ids = append(ids, "") // of the compaction
	}
	if err != nil {
		return Committed{}, err
	}
	b := a.commit
	return Committed{
		Archived: true, Archive: b.Archive, Entry: ids[len(ids)-2], First: b.FirstEntry, Last: b.LastEntry,
		Abstract: b.Abstract, Overview: b.Overview, Messages: b.Messages,
	}, nil
}

// survey finds out what is to be archived, and what the overview is to be made of.
func (s *Session) survey(ctx context.Context, a *archiving) (l learned, err error) {
	a.see = func(t *state, _ learned) (cut compact.Cut, err error) {
		if err := t.fill(t.scan(ctx)); err != nil { // who the owner is
			return cut, err
		}
		a.to, a.open = closed(t.fold)
		a.last, a.owner = t.fold.Standing().Commit, t.row.Owner
		return cut, nil
	}
	if _, l, err = s.look(ctx, opCommit, &a.work); err != nil {
		return l, err
	}
	a.scan = until(s.store.scan(ctx, s.ref), a.base)
	a.new, err = findUnfiled(a.scan, a.last, a.open)
	if err == nil && a.new.messages > 0 && !a.opts.KeepHistory {
		a.cut = s.cutFor(a)
	}
	return l, s.store.wrap(opCommit, s.ref, err)
}

// cutFor returns the cut at which the history is compacted; its At is 0 if it is
// not to be.
func (s *Session) cutFor(a *archiving) (cut compact.Cut) {
	isFresh := func(m transcript.Message) bool { // and no summary
		return slices.ContainsFunc(m.Origins, func(o transcript.Origin) bool { return o.Batch > 0 })
	}
	if !slices.ContainsFunc(a.history.Messages[:a.to], isFresh) {
		return cut
	}
	if a.opts.Keep == (compact.Keep{}) {
		if cut = compact.CutAt(a.history, a.to, &a.Options); !s.keeps(cut) {
			return compact.Cut{}
		}
		return cut
	}
	o := a.Options
	o.Keep, o.Room = a.opts.Keep, 0
	o.Check = func(c compact.Cut) bool { return c.At <= a.to && s.keeps(c) }
	if cut = compact.Plan(a.history, &o); cut.Nothing != "" {
		return compact.Cut{}
	}
	return cut
}

// overview has the overview written. It returns the compaction that it is the
// summary of, of which only the summary counts if the cut is nowhere.
func (s *Session) overview(ctx context.Context, a *archiving, l learned) (c transcript.Compaction, err error) {
	h, to := a.history, a.to
	if a.cut.At == 0 {
		h, err = historyOf(a.scan, a.new.from, a.new.runs, nil)
		if to = len(h.Messages); err != nil || to == 0 { // nothing that can be shown
			return c, err
		}
	}
	try := func(ctx context.Context) (c transcript.Compaction, err error) {
		if c, a.extract, err = compact.Overview(ctx, h, to, a.cut.At, &a.Options); err == nil {
			c, err = filterBody(ctx, s, c)
		}
		return c, err
	}
	// Without a compaction nothing would tell that the summarizer works again.
	if a.standIn = a.cut.At > 0 && l.broken(); !a.standIn {
		first, cancel := firstPart(ctx)
		c, err = try(first)
		cancel()
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		if a.cut.At > 0 {
			s.failed(ctx, a.history)
		}
		a.Observe(ctx, compact.Step{Skipped: err})
		s.store.opts.Logger.Warn("the summarizer failed: an extract is the overview of the archive", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	a.unasked, a.standIn = a.standIn, true
	a.Summarizer = compact.Extractive{Counter: a.Counter}
	return try(ctx)
}

// describe returns the commit but for what is known only when it is appended.
func (s *Session) describe(ctx context.Context, a *archiving, overview string) (transcript.Commit, error) {
	// The last line of a summary, about the reading tools, is for the model alone.
	if i := strings.LastIndex(overview, "\n[The tools "+transcript.RecallSearch); i >= 0 {
		overview = overview[:i]
	}
	runs, line := a.new.runs, ""
	if !a.extract {
		line = oneLine(abstract.Of(overview))
	}
	if line == "" {
		var err error
		if line, err = beginningOf(a.scan, a.new.from, runs); err != nil {
			return transcript.Commit{}, err
		}
	}
	c := transcript.Commit{
		Archive: fmt.Sprintf("archive_%03d", a.last.N+1), N: a.last.N + 1, Runs: runs, FirstEntry: runs[0].First, LastEntry: runs[len(runs)-1].Last,
		Messages: a.new.messages, Abstract: line, Overview: overview, Owner: a.owner,
	}
	return filterBody(ctx, s, c)
}

// item returns the commit as it is to be appended now, perhaps with a compaction, whose
// state then lacks the entries that the commit has counted. It fails if the session has
// changed in a way that the commit should know of. The caller holds t.mu.
func (a *archiving) item(t *state, with *transcript.Compaction) (transcript.Item, error) {
	counted := func(e transcript.Entry) bool {
		return holds([]transcript.Entry{e}, transcript.TypeCommit, transcript.TypeUsed)
	}
	with.Standing = slices.DeleteFunc(with.Standing, counted)
	now := t.fold.Standing()
	if t.moved > a.base || now.Commit.Entry != a.last.Entry {
		return nil, ErrConflict
	}
	c := a.commit
	c.Stats, c.Open = now.Stats(), now.Commit.Open
	c.Stats.Commits++
	return c, nil
}

const abstractRunes = 300

// oneLine returns a text with its white space folded, cut at some length.
func oneLine(text string) string {
	return cutRunes(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "), abstractRunes)
}
