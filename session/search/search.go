package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Query selects the hits of [Store]. Either Text or Regexp is set; all other
// set fields must match as well.
type Query struct {
	// Text holds words, in any script: whole ones, parts of identifiers (user of
	// getUserByID, b/c.go of a/b/c.go), beginnings of words with a trailing *, and
	// phrases in double quotes. In scripts without spaces between words, a word is found
	// anywhere. An emoji is a word. These do not matter: case, forms by NFKC of Unicode
	// 15 (with rare exceptions), curly apostrophes, soft hyphens, characters without
	// width, points of Arabic and Hebrew, and the color of an emoji. Accents do: cafe
	// does not find café. An entry must contain all words, at most 64 in 4 kB of text;
	// phrases count as words. If Ranked is set one word is enough, and neighbouring
	// characters of scripts without spaces count in pairs.
	Text string `json:"text,omitempty"`
	// Regexp is a regular expression of package regexp. It sees one block of an
	// entry at a time, with its case and width. It may have at most 2 kB, and 1,000
	// instructions when compiled: repetitions like x{500} take most.
	Regexp string `json:"regexp,omitempty"`
	// Ranked asks for the best entries instead of the newest, by BM25: a line is a
	// document, and the rarity of a word follows from the lines of the chosen
	// sessions whose bytes may contain it. It needs Text.
	Ranked bool `json:"ranked,omitempty"`

	Role  string `json:"role,omitempty"`  // user, assistant, tool or system, see [Hit]
	Block string `json:"block,omitempty"` // type of the block, see [Hit]
	Tool  string `json:"tool,omitempty"`  // only calls of this tool and their results

	// Since and Until limit the time of the entry: at or after Since, before
	// Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`

	// Limit is the most hits; 0 means unlimited, for a Ranked search 20.
	Limit int `json:"limit,omitempty"`

	// Sessions chooses the sessions, as [session.Store.List] does, without After and
	// Limit. [Session] ignores it.
	Sessions session.ListOptions `json:"sessions,omitzero"`
}

// Hit is an entry that fits a [Query].
type Hit struct {
	Session session.Ref `json:"session"`
	Entry   string      `json:"entry"` // its ID
	Time    time.Time   `json:"time,omitzero"`
	// Role is the speaker: user, assistant, tool for results of calls, or system
	// for system prompts, summaries of compactions and data of the application.
	Role string `json:"role"`
	// Block is the index, in the content of the entry, of the block with the
	// match, and Type the type of that block: text, thinking, tool_use,
	// tool_result, document, context or the type of an unknown block. Type is
	// system or summary for entries without blocks, and app for data of the
	// application on the entry.
	Block int    `json:"block"`
	Type  string `json:"type"`
	Tool  string `json:"tool,omitempty"` // of a call, or of a result whose call exists

	// The place of the entry. Rewound: it left the history. Compacted: a summary
	// replaces it. Clipped: the history shows shorter content. Hidden: it was taken
	// out of the history.
	Rewound   bool `json:"rewound,omitempty"`
	Compacted bool `json:"compacted,omitempty"`
	Clipped   bool `json:"clipped,omitempty"`
	Hidden    bool `json:"hidden,omitempty"`

	Score float64 `json:"score,omitempty"` // of a Ranked search; more is better
	// Excerpt is an unaltered part of the block's text. Start and End are the byte
	// offsets of the first match in Excerpt.
	Excerpt string `json:"excerpt"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

// ErrQuery reports a [Query] that cannot be searched for. The error gives the
// reason.
var ErrQuery = errors.New("the query cannot be used")

const maxText = 4 << 10 // bytes of a Query.Text

// rankedLimit is the Limit of a Ranked search without one.
const rankedLimit = 20

// Store yields the entries of whole transcripts that fit a query: it also finds and marks
// compacted, clipped, hidden and rewound entries. Hits come from the session with the
// newest message first, and in a session the newest entry first; a Ranked search yields
// the best one first.
//
// Without an index, all transcripts that q.Sessions chooses are read, on all cores,
// each on one. Lines that cannot match are not decoded. Memory grows with the
// transcripts only in [session.Session.Where]. No lock is taken: entries appended
// during the search may be found or not, and a session deleted during it is left
// out.
//
// Repeated text is left out: the results of [RecallTools], the items that a compaction
// carries over from present entries, and lines that a fork copied from a session that
// is also searched.
//
// A query that cannot be used gives an error that matches [ErrQuery]. The sequence
// ends after the first pair with an error. It may be ranged over several times and
// searches each time. All goroutines end with the loop.
func Store(ctx context.Context, st *session.Store, q Query) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		s, err := newSearch(q)
		if err == nil {
			err = s.choose(ctx, st)
		}
		if err != nil {
			yield(Hit{}, fmt.Errorf("search: %w", err))
			return
		}
		s.run(ctx, yield)
	}
}

// Session is [Store] for one session.
func Session(ctx context.Context, s *session.Session, q Query) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		run, err := newSearch(q)
		if err != nil {
			yield(Hit{}, &session.Error{Op: "search", Session: s.Ref(), Err: err})
			return
		}
		run.all, run.one = []*source{{ref: s.Ref(), s: s}}, true
		run.run(ctx, yield)
	}
}

// choose chooses the sessions, with the newest message first.
func (s *search) choose(ctx context.Context, st *session.Store) error {
	opts := s.query.Sessions
	opts.After, opts.Limit = "", 0
	infos, err := st.List(ctx, &opts)
	chosen := map[session.Ref]bool{}
	for _, info := range infos {
		s.all, chosen[info.Ref] = append(s.all, &source{ref: info.Ref, st: st}), true
	}
	for i, info := range infos {
		s.all[i].own = chosen[session.Ref{Agent: info.Base.Agent, ID: info.Base.Session}]
	}
	return err
}

// search is one run of a query.
type search struct {
	query Query
	words *words.Query
	all   []*source
	one   bool // a missing session is an error

	shown int            // bytes of an excerpt
	said  bool           // only texts of users, models and tools
	only  func(Hit) bool // if set: which hits count, by their place
}

// source is a session that is searched.
type source struct {
	ref session.Ref
	st  *session.Store
	s   *session.Session // nil until a call needs it
	own bool             // leaves out copied lines, searched in their source
}

// session returns a handle on the session. Most sessions have no hits and need none.
func (o *source) session(ctx context.Context) (_ *session.Session, err error) {
	if o.s == nil {
		o.s, err = o.st.Get(ctx, o.ref)
	}
	return o.s, err
}

// scan reads the session from its end.
func (o *source) scan(ctx context.Context, opts session.ScanOptions) iter.Seq2[transcript.Record, error] {
	opts.Backward = true
	if o.s != nil {
		return o.s.Scan(ctx, opts)
	}
	return o.st.Scan(ctx, o.ref, opts)
}

func newSearch(q Query) (*search, error) {
	s := &search{query: q, shown: excerptSize}
	var err error
	switch {
	case q.Text != "" && q.Regexp != "":
		err = errors.New("set Text or Regexp, not both")
	case !slices.Contains([]string{"", string(transcript.RoleUser), string(transcript.RoleAssistant), roleTool, roleSystem}, q.Role):
		err = fmt.Errorf("unknown role %q: use user, assistant, tool or system", q.Role)
	case q.Limit < 0:
		err = fmt.Errorf("the limit is %d", q.Limit)
	case q.Regexp != "" && q.Ranked:
		err = errors.New("a regular expression cannot be ranked: give words, or ask for the newest")
	case len(q.Text) > maxText:
		err = fmt.Errorf("the text has %d bytes; at most %d are allowed", len(q.Text), maxText)
	case q.Regexp != "":
		s.words, err = words.Compile(q.Regexp)
	default:
		if s.words, err = words.Parse(q.Text, q.Ranked); err == nil && s.words.Items() > words.MaxItems {
			err = fmt.Errorf("the text has %d words; at most %d are allowed", s.words.Items(), words.MaxItems)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	return s, nil
}

func (s *search) run(ctx context.Context, yield func(Hit, error) bool) {
	if s.query.Ranked {
		s.rank(ctx, yield)
		return
	}
	s.newest(ctx, yield)
}

// isGone reports whether an error only means that a session no longer exists.
func (s *search) isGone(err error) bool {
	return !s.one && (errors.Is(err, session.ErrReplaced) || errors.Is(err, fs.ErrNotExist))
}

// workers is how many sessions to read at the same time.
func (s *search) workers() int { return max(1, min(runtime.GOMAXPROCS(0), len(s.all))) }

// each calls f for every session, some at the same time.
func (s *search) each(ctx context.Context, f func(ctx context.Context, r *reading) error) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(s.workers())
	for _, o := range s.all {
		group.Go(func() error {
			err := f(running, &reading{search: s, source: o})
			if s.isGone(err) {
				return nil
			}
			return err
		})
	}
	return cmp.Or(group.Wait(), ctx.Err())
}

// found is a hit of a session, or the error that ends them.
type found struct {
	hit Hit
	err error
}

// readAhead is how many hits of a session wait for the loop.
const readAhead = 16

// newest yields hits in the order of the sessions. It reads the next sessions
// ahead, each up to its first hits.
func (s *search) newest(ctx context.Context, yield func(Hit, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer func() {
		cancel()
		group.Wait()
	}()
	read := func(o *source) <-chan *found {
		out := make(chan *found, readAhead)
		group.Go(func() {
			defer close(out)
			(&reading{search: s, source: o}).hand(ctx, out)
		})
		return out
	}
	var ahead []<-chan *found // the hits of the sessions that come next
	left, rest := s.query.Limit, s.all
	for len(ahead)+len(rest) > 0 {
		if len(rest) > 0 && len(ahead) < 2*s.workers() {
			ahead, rest = append(ahead, read(rest[0])), rest[1:]
			continue
		}
		for f := range ahead[0] {
			if !yield(f.hit, f.err) || f.err != nil {
				return
			}
			if left--; left == 0 {
				return
			}
		}
		ahead = ahead[1:]
	}
	if err := context.Cause(ctx); err != nil {
		yield(Hit{}, fmt.Errorf("search: %w", err))
	}
}

// hand reads the session and sends its hits to out.
func (r *reading) hand(ctx context.Context, out chan<- *found) {
	send := func(f found) error {
		select {
		case out <- &f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := r.read(ctx, 0, func(m *match) error { return send(found{hit: m.Hit}) })
	if err != nil && !r.isGone(err) {
		_ = send(found{err: err}) // otherwise the search is over
	}
}
