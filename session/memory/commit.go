package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/abstract"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// CommitOptions are the options of [Commit].
type CommitOptions struct {
	// Keep is the part of the chapter that the history still shows verbatim. The zero
	// value keeps no part: the overview replaces the chapter.
	Keep compact.Keep
	// KeepHistory leaves the history unchanged: it is not compacted.
	KeepHistory bool
	// Summarizer writes the overview; nil means the one in Compact of the
	// [session.Options].
	Summarizer compact.Summarizer
	// Timeout is how long the summarizer may take; 0 means the timeout of
	// Compact in the [session.Options].
	Timeout time.Duration
	// Leave is how many of the newest messages stay for the next commit, with the rest of
	// their turns. Results of tools do not count.
	Leave int
	// Unanswered also closes a turn that waits for an answer, for sessions that only
	// record messages. Calls without a result still keep their turn open, and so does
	// a running turn: Commit takes the turn lock for its append to exclude one.
	Unanswered bool
	// Now is the clock of [Commits]; nil is [time.Now].
	Now func() time.Time
}

// Committed is the result of [Commit].
type Committed struct {
	// Reason explains why no chapter was closed: "no_messages" if every message
	// is in a chapter, "turn_open" if only the running turn is new, "all_left" if Leave
	// leaves all new messages.
	Reason string `json:"reason,omitempty"`
	// Open counts the messages that stay for the next commit: of the unfinished turn, and
	// by Leave.
	Open int `json:"open,omitempty"`

	Chapter  string `json:"chapter,omitempty"`  // its name, such as "chapter_001"; empty if none was closed
	Entry    string `json:"entry,omitempty"`    // of the commit
	First    string `json:"first,omitempty"`    // the first entry of the chapter
	Last     string `json:"last,omitempty"`     // the last one
	Abstract string `json:"abstract,omitempty"` // one line
	Overview string `json:"overview,omitempty"`
	Messages int    `json:"messages,omitempty"` // texts of the user and answers
}

// The reasons of [Committed].
const (
	nothingNew = "no_messages"
	turnOpen   = "turn_open"
	allLeft    = "all_left"
)

// Commit closes a chapter with the entries of the history that are in no chapter,
// up to the last complete turn. A turn that waits for an answer, a result or a
// person stays for the next commit, and so do concurrent appends. A chapter is a
// range of the transcript; nothing is copied, moved or removed.
//
// When the error is nil, either one commit entry describes the chapter, as durable
// as any append, or Committed.Reason explains why there was nothing to close. So
// calling Commit again is always right: after a kill it finds the whole commit or
// no trace of it. Entries that a fork copied are in no chapter, nor are rewound
// ones; if the rewind is undone, the next chapter contains them.
//
// One call of the summarizer writes the overview. Unless KeepHistory is set, the
// overview replaces the chapter in the history, in the same append, as the
// summary of a compaction; then it also covers the earlier summary. The abstract
// is the text of the overview's first line of the form "**Label**: text", or
// else of its first line other than a heading. If the summarizer fails or takes
// too long, compact.Extractive replaces it, without an error.
//
// No lock is held while the overview is written. If another commit, a compaction or a
// rewind intervenes, or with Unanswered a turn or an answer, Commit begins again. It calls the
// summarizer again if there are still messages to commit; after five tries the error matches
// [session.ErrConflict]. After an erase it matches [session.ErrReplaced]. After an
// error no chapter was closed; only a [*session.NotDurableError] leaves that
// uncertain.
func Commit(ctx context.Context, s *session.Session, opts *CommitOptions) (done Committed, err error) {
	o := *cmp.Or(opts, new(CommitOptions))
	const tries = 5
	for range tries {
		if done, err = commit(ctx, s, o); !errors.Is(err, session.ErrConflict) {
			break
		}
	}
	return done, err
}

// op is the Op of errors of commits.
const op = "commit"

// closing is one commit.
type closing struct {
	s       *session.Session
	opts    CommitOptions
	options compact.Options
	rev     int
	end     int64           // the history was read up to here
	history rebuild.History // with the chapter's messages
	to      int             // its first message outside of the chapter
	last    ledger
	new     unfiled
	cut     compact.Cut // the replaced part; At is 0 without a compaction
	commit  transcript.Commit
	// failures is how many summaries failed in a row; 0 once the summarizer wrote the
	// overview.
	failures int
}

// commit closes a chapter with the present entries. The error matches ErrConflict if
// they change before the append.
func commit(ctx context.Context, s *session.Session, opts CommitOptions) (Committed, error) {
	a := closing{s: s, opts: opts}
	switch unlock, err := a.lock(ctx); {
	case errors.Is(err, session.ErrBusy):
		a.opts.Unanswered = false
	case err != nil:
		return Committed{}, err
	default:
		unlock()
	}
	if err := a.survey(ctx); err != nil {
		return Committed{}, err
	}
	if a.new.messages == 0 {
		switch {
		case a.new.open > 0 && a.opts.Leave > 0:
			return Committed{Reason: allLeft, Open: a.new.open}, nil
		case a.new.open > 0:
			return Committed{Reason: turnOpen, Open: a.new.open}, nil
		}
		return Committed{Reason: nothingNew}, nil
	}
	c, extract, err := a.overview(ctx)
	if err == nil {
		err = a.describe(ctx, c.Summary, extract)
	}
	if err != nil {
		return Committed{}, fmt.Errorf("memory: commit of session %s/%s: %w", s.Ref().Agent, s.Ref().ID, err)
	}
	unlock, err := a.lock(ctx)
	if errors.Is(err, session.ErrBusy) { // a turn began
		err = session.ErrConflict
	}
	if err != nil {
		return Committed{}, err
	}
	defer unlock()
	ids, err := s.Update(ctx, op, func(v *session.View) ([]transcript.Item, error) {
		line, err := a.line(ctx, v)
		if err != nil || a.cut.At == 0 {
			return []transcript.Item{line}, err
		}
		if a.failures > 0 {
			c.Standing = []transcript.Entry{{Body: transcript.Calibration{Failures: a.failures}}}
		}
		return []transcript.Item{line, c}, nil
	})
	if err != nil {
		return Committed{}, err
	}
	b := a.commit
	return Committed{
		Chapter: chapterName(b.N), Entry: ids[0], First: b.FirstEntry, Last: b.LastEntry,
		Abstract: b.Abstract, Overview: b.Overview, Messages: b.Messages, Open: a.new.open,
	}, nil
}

// lock takes the turn lock if the commit closes a turn without an answer. The error
// matches ErrBusy if a turn is running.
func (a *closing) lock(ctx context.Context) (unlock func(), err error) {
	if !a.opts.Unanswered {
		return func() {}, nil
	}
	free, err := a.s.LockTurn(ctx, false)
	return func() { _ = free() }, err // a lock ends with its process at the latest
}

// survey finds the entries of the chapter, and the messages for the overview. It fails if
// no append is possible.
func (a *closing) survey(ctx context.Context) error {
	open := ""
	_, err := a.s.Update(ctx, op, func(v *session.View) ([]transcript.Item, error) {
		info, err := v.Info()
		if err != nil {
			return nil, err
		}
		a.options, err = v.CompactOptions(&compact.Options{Summarizer: a.opts.Summarizer, Timeout: a.opts.Timeout})
		a.rev, a.end, a.history, a.failures = info.Rev, v.End(), v.Fold().History(), failures(v)
		a.to, open = closed(v.Fold(), a.opts.Leave, a.opts.Unanswered)
		a.opts.Unanswered = a.opts.Unanswered && v.Fold().Pending().Owed
		a.commit.Owner = info.Owner
		return nil, err
	})
	if err == nil {
		a.last, err = readLedger(ctx, a.s, a.end)
	}
	if err == nil {
		a.new, err = findUnfiled(ctx, a.s, upTo(ctx, a.s, a.end), a.last.LastEntry, open)
	}
	if err == nil && a.new.messages > 0 && !a.opts.KeepHistory {
		a.cut = a.plan()
	}
	return err
}

// plan returns the cut for the compaction; its At is 0 if there is to be none.
func (a *closing) plan() (cut compact.Cut) {
	isFresh := func(m transcript.Message) bool { // not a summary
		return slices.ContainsFunc(m.Origins, func(o transcript.Origin) bool { return o.Batch > 0 })
	}
	if !slices.ContainsFunc(a.history.Messages[:a.to], isFresh) {
		return cut
	}
	o := a.options
	if a.opts.Keep == (compact.Keep{}) {
		if cut = compact.CutAt(a.history, a.to, &o); !o.Check(cut) {
			return compact.Cut{}
		}
		return cut
	}
	o.Keep, o.Room = a.opts.Keep, 0
	o.Check = func(c compact.Cut) bool { return c.At <= a.to && a.options.Check(c) }
	if cut = compact.Plan(a.history, &o); cut.Nothing != "" {
		return compact.Cut{}
	}
	return cut
}

// overview has the overview written. It returns a compaction with it as the summary, and
// whether that is an extract, which no model wrote. Without a cut only the summary counts.
func (a *closing) overview(ctx context.Context) (c transcript.Compaction, extract bool, err error) {
	h, to := a.history, a.to
	if a.cut.At == 0 {
		h, err = historyOf(ctx, a.s, upTo(ctx, a.s, a.end), a.new.from, a.new.runs, nil)
		if to = len(h.Messages); err != nil || to == 0 { // no messages to show
			return c, false, err
		}
	}
	try := func(ctx context.Context) error {
		if c, extract, err = compact.Overview(ctx, h, to, a.cut.At, &a.options); err == nil {
			c, err = filtered(ctx, a.s, c)
		}
		return err
	}
	// Without a compaction the recovery of the summarizer must be recorded
	// here.
	if a.cut.At == 0 || !broken(a.failures) {
		first, cancel := firstPart(ctx)
		err = try(first)
		cancel()
		if err == nil || ctx.Err() != nil {
			a.failures = 0
			return c, extract, err
		}
		if a.cut.At > 0 {
			a.noteFailure(ctx)
		}
		a.options.Observe(ctx, compact.Step{Skipped: err.Error()})
	}
	a.failures++
	a.options.Summarizer = compact.Extractive{Counter: a.options.Counter}
	err = try(ctx)
	return c, extract, err
}

// firstPart returns a context that leaves a quarter of the time for the later
// steps.
func firstPart(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)*3/4)
	}
	return ctx, func() {}
}

// failures returns how many summaries failed in a row.
func failures(v *session.View) (n int) {
	for _, c := range v.Fold().Standing().Calibrations {
		n = max(n, c.Failures)
	}
	return n
}

// broken reports whether to skip the summarizer, by the rule of
// [session.Session.CompactFor].
func broken(failures int) bool { return failures >= 3 && failures%8 != 0 }

// noteFailure records a failed summary. If recording fails it is only logged.
func (a *closing) noteFailure(ctx context.Context) {
	_, _ = a.s.Update(context.WithoutCancel(ctx), op, func(v *session.View) ([]transcript.Item, error) {
		info, err := v.Info()
		return []transcript.Item{transcript.Calibration{Failures: failures(v) + 1, FailedAt: info.Tokens}}, err
	})
}

// describe makes the commit, except for members known only at the append. extract is set
// if code wrote the overview, so none of its lines can be the abstract.
func (a *closing) describe(ctx context.Context, overview string, extract bool) error {
	// The last line of a summary, about the reading tools, is only for the model.
	overview, _ = recalltool.Cut(overview)
	runs, line := a.new.runs, ""
	if !extract {
		line = clip(oneLine(abstract.Of(overview)), maxAbstract)
	}
	if line == "" {
		h, err := historyOf(ctx, a.s, upTo(ctx, a.s, a.end), a.new.from, runs, nil)
		if err != nil {
			return err
		}
		line = beginningOf(h)
	}
	var err error
	a.commit, err = filtered(ctx, a.s, transcript.Commit{
		N: a.last.N + 1, Runs: runs, FirstEntry: runs[0].First, LastEntry: runs[len(runs)-1].Last,
		Messages: a.new.messages, Abstract: line, Overview: overview, Owner: a.commit.Owner,
	})
	return err
}

// filtered returns a body as it is stored, for the caller.
func filtered[T transcript.Body](ctx context.Context, s *session.Session, body T) (T, error) {
	got, err := s.FilterWrite(ctx, []transcript.Entry{{Body: body}})
	if err != nil {
		return body, err
	}
	if b, ok := got[0].Body.(T); ok {
		body = b
	}
	return body, nil
}

// line returns the commit for an append now. It fails if the session changed in
// a way that affects the commit.
func (a *closing) line(ctx context.Context, v *session.View) (transcript.Commit, error) {
	info, err := v.Info()
	if err != nil {
		return transcript.Commit{}, err
	}
	if info.Rev != a.rev {
		return transcript.Commit{}, fmt.Errorf("%w: something was erased from it, and nothing was written", session.ErrReplaced)
	}
	now := a.last
	for rec, err := range a.s.Scan(ctx, session.ScanOptions{From: a.end, To: v.End()}) {
		if err != nil {
			return transcript.Commit{}, err
		}
		switch b := rec.Entry.Body.(type) {
		case transcript.Commit, transcript.Compaction, transcript.Rewind:
			return transcript.Commit{}, session.ErrConflict
		case transcript.MessageLine: // the answer belongs to the chapter's last turn
			if a.opts.Unanswered && b.Role == transcript.RoleAssistant {
				return transcript.Commit{}, session.ErrConflict
			}
		}
		now.add(rec.Entry)
	}
	c := a.commit
	c.Stats, c.Open = now.stats(), now.Open
	c.Stats.Commits++
	return c, nil
}
