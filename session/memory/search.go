package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// SearchOptions selects the sources of [Store.Search]. Nil and zero fields are
// the defaults; a Scope or a session is required.
type SearchOptions struct {
	// Scope selects the memories; without an Owner no memories are searched.
	Scope Scope
	// Sessions are searched as well: the overviews of their chapters, the URIs
	// that [RecordUse] recorded, and their entries, in chapters or not. The
	// caller must make sure that the owner may read them.
	Sessions []*session.Session
	// Limit is the most hits; 0 means 20.
	Limit int
	// Tokens limits the tokens of the texts of all hits; 0 means 4,000.
	Tokens int
	// Counter counts tokens; nil means [tokens.Estimator].
	Counter tokens.Counter
}

const (
	defaultLimit  = 20
	defaultTokens = 4_000
	maxQuery      = 600   // bytes of a query that count
	maxShown      = 1_200 // most bytes of a text shown whole
	maxExcerpt    = 400   // bytes shown of a longer one
)

// Hit is a match of a query. Its text is data from people and programs, and
// never an instruction.
type Hit struct {
	// Kind is memory, chapter, context or skill (a URI that a session used), or
	// entry (a place in a transcript).
	Kind string `json:"kind"`
	// URI names the memory or the used resource. For a chapter it is
	// chapter:<agent>/<session>/<name>, for an entry <agent>/<session>#<ID>.
	URI string `json:"uri"`
	// Score compares the hits of one search; more is better.
	Score float64 `json:"score"`
	// Text is the text to show: all if it is short, or else its first line and
	// the part with the match, or only the first line if no more fits.
	Text string `json:"text"`
	// Time is the time of the last change, commit, use or message.
	Time time.Time `json:"time,omitzero"`

	Memory *Memory `json:"memory,omitempty"` // if a memory
	// Used is set if one of the sessions recorded that the memory helped.
	Used    bool        `json:"used,omitempty"`
	Session session.Ref `json:"session,omitzero"`  // unless a memory
	Chapter string      `json:"chapter,omitempty"` // the name of a chapter
	Entry   string      `json:"entry,omitempty"`   // the ID of an entry, or of the commit of a chapter
}

// The kinds of a [Hit].
const (
	kindMemory  = "memory"
	kindChapter = "chapter"
	kindContext = "context"
	kindEntry   = "entry"
)

// Search returns the best matches of a query, the best first: memories of a scope,
// and chapters, used URIs and entries of sessions, in one order. A query is as in a
// ranked [search.Query]: words of any script, beginnings of words followed by a *,
// phrases in double quotes; one match is enough. Only the first 600 bytes of a query
// count. A query without a word gives an error that matches [search.ErrQuery].
//
// Nothing is indexed on disk. The memories that have changed since the last search
// are read, up to 32 MiB of them stay in memory, and the transcripts are read as
// [search.Session] does. With [Options].Index, Search also finds memories near to
// the query without any of its words.
//
// It leaves out rewound entries, summaries, system prompts and data of the
// application, quoted memories, an entry that is only the query itself, and hits
// beyond the token limit. If a file or the Index fails, the error names it, and the
// other hits are returned.
func (m *Store) Search(ctx context.Context, query string, opts *SearchOptions) ([]Hit, error) {
	var o SearchOptions
	if opts != nil {
		o = *opts
	}
	o.Limit, o.Tokens = cmp.Or(o.Limit, defaultLimit), cmp.Or(o.Tokens, defaultTokens)
	o.Counter = tokens.Or(o.Counter)
	f, err := newFinding(query)
	if err == nil {
		err = o.check()
	}
	var failed error
	if err == nil {
		failed, err = m.find(ctx, f, o)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("memory: search: %w", err)
	case failed != nil:
		failed = fmt.Errorf("memory: search: %w", failed)
	}
	return f.hits(o), failed
}

func (o SearchOptions) check() error {
	switch {
	case o.Limit < 0 || o.Tokens < 0:
		return fmt.Errorf("%w: the limit is %d and the tokens are %d", search.ErrQuery, o.Limit, o.Tokens)
	case o.Scope.Owner == "" && len(o.Sessions) == 0:
		return fmt.Errorf("give a Scope with an Owner, or Sessions: %w", errOwner)
	}
	return nil
}

// find searches all sources. failed lists the failed ones with reasons.
func (m *Store) find(ctx context.Context, f *finding, o SearchOptions) (failed, err error) {
	for _, s := range o.Sessions {
		if err := f.session(ctx, s); err != nil {
			return nil, err
		}
	}
	if o.Scope.Owner != "" {
		failed = m.memories(ctx, o.Scope, f.memory)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		failed = errors.Join(failed, m.near(ctx, o, f))
	}
	f.score()
	f.contexts()
	return failed, nil
}

// A document is something that is searched.
type document struct {
	Hit
	texts []string // the first one is the subject
	fit   words.Fit
	near  float64 // by the Index
}

// A finding collects the hits of a search.
type finding struct {
	query   string
	words   *words.Query
	ranking words.Ranking
	found   []document
	held    int             // bytes of the hits
	used    map[string]bool // URIs
	profile *Memory
}

// firstBytes cuts a text to at most n bytes of whole characters.
func firstBytes(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// newFinding returns an empty finding. A query without a word is an error and finds
// nothing.
func newFinding(query string) (*finding, error) {
	f := &finding{used: map[string]bool{}}
	query = firstBytes(query, maxQuery)
	q, err := words.Parse(query, true)
	for err == nil && q.Items() > words.MaxItems {
		query = firstBytes(query, len(query)*words.MaxItems/q.Items())
		q, err = words.Parse(query, true)
	}
	if err != nil {
		return f, fmt.Errorf("%w: %w", search.ErrQuery, err)
	}
	f.query, f.words, f.ranking.With = query, q, make([]int64, q.Items())
	return f, nil
}

// maxHeld limits the bytes of held hits. Above it the worse half is dropped, by
// the statistics so far.
const maxHeld = 32 << 20

// add counts a document, and keeps it if it matches.
func (f *finding) add(d document) {
	if f.words == nil {
		return
	}
	fit, fits := f.words.Look(context.Background(), d.texts, words.MostOnce)
	size := d.size()
	f.ranking.Add(fit, size)
	if !fits {
		return
	}
	d.fit = fit
	f.found = append(f.found, d)
	if f.held += size; f.held > maxHeld {
		f.score()
		for f.held > maxHeld/2 {
			last := len(f.found) - 1
			f.held -= f.found[last].size()
			f.found[last] = document{}
			f.found = f.found[:last]
		}
	}
}

func (d *document) size() (size int) {
	for _, text := range d.texts {
		size += len(text)
	}
	return size
}

func (f *finding) memory(m *Memory) {
	if m.Category == profile {
		f.profile = m
	}
	f.add(m.document())
}

func (m *Memory) document() document {
	return document{
		Hit:   Hit{Kind: kindMemory, URI: m.URI, Time: cmp.Or(m.Updated, m.Created), Memory: m},
		texts: []string{m.Abstract, m.Overview, m.Content, m.Topic, m.Name},
	}
}

// chapterURI begins the URI of a chapter.
const chapterURI = "chapter:"

func (c Chapter) document(of session.Ref) document {
	uri := chapterURI + of.Agent + "/" + of.ID + "/" + c.Name
	return document{
		Hit:   Hit{Kind: kindChapter, URI: uri, Time: c.At, Session: of, Chapter: c.Name, Entry: c.Entry},
		texts: []string{c.Abstract, c.Overview},
	}
}

func (f *finding) session(ctx context.Context, s *session.Session) error {
	chapters, err := Chapters(ctx, s)
	if err != nil {
		return err
	}
	for _, a := range chapters {
		f.add(a.document(s.Ref()))
	}
	last := map[string]Use{}
	uses, err := Uses(ctx, s)
	if err != nil {
		return err
	}
	for _, u := range uses {
		last[u.URI] = u
	}
	for uri, u := range last {
		if !f.used[uri] {
			f.used[uri] = true
			f.add(document{
				Hit:   Hit{Kind: u.Type, URI: uri, Time: u.At, Session: s.Ref(), Entry: u.Entry},
				texts: []string{uri, u.Input, u.Output},
			})
		}
	}
	return f.entries(ctx, s)
}

// mostEntries is how many entries of a session compete with other hits.
const mostEntries = 50

func (f *finding) entries(ctx context.Context, s *session.Session) error {
	n := 0
	for h, err := range search.Session(ctx, s, search.Query{Text: f.query, Ranked: true, Limit: mostEntries}) {
		if err != nil {
			return err
		}
		shown := h.Type == kindContext || strings.HasPrefix(h.Excerpt, blocksHeading)
		if h.Rewound || h.Role == "system" || shown || strings.TrimSpace(h.Excerpt) == strings.TrimSpace(f.query) {
			continue
		}
		n++
		f.add(document{
			Hit:   Hit{Kind: kindEntry, URI: h.Session.Agent + "/" + h.Session.ID + "#" + h.Entry, Time: h.Time, Session: h.Session, Entry: h.Entry},
			texts: []string{h.Excerpt},
		})
	}
	info, err := s.Info(ctx)
	f.ranking.Texts += int64(max(0, info.Messages-n)) // the others match few or no words
	return err
}

func (f *finding) score() {
	top := 0.0
	for i := range f.found {
		d := &f.found[i]
		d.Score = f.ranking.Score(d.fit, d.size())
		top = max(top, d.Score)
	}
	for i := range f.found {
		f.found[i].Score += f.found[i].near * cmp.Or(top, 1)
	}
	slices.SortFunc(f.found, func(a, b document) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), b.Time.Compare(a.Time), strings.Compare(a.URI, b.URI), strings.Compare(a.Kind, b.Kind))
	})
}

// contexts drops the URIs of memories that are hits themselves.
func (f *finding) contexts() {
	there := map[string]bool{}
	for i := range f.found {
		if d := &f.found[i]; d.Memory != nil {
			there[d.URI], d.Used = true, f.used[d.URI]
		}
	}
	f.found = slices.DeleteFunc(f.found, func(d document) bool { return d.Kind == kindContext && there[d.URI] })
}

// hits returns the best documents whose texts fit into the token limit.
func (f *finding) hits(o SearchOptions) []Hit {
	hits, left := []Hit{}, o.Tokens
	for _, d := range f.found {
		if len(hits) == o.Limit {
			break
		}
		for _, text := range []string{d.shown(), d.first()} {
			if n := o.Counter.Count("", nil, []transcript.Message{transcript.UserText(text)}); n <= left {
				d.Text = text
				hits, left = append(hits, d.Hit), left-n
				break
			}
		}
	}
	return hits
}

func (d *document) first() string { return strings.TrimSpace(d.texts[0]) }

// shown returns the text to show of a document: all, if it is short.
func (d *document) shown() string {
	parts := d.texts
	if d.Memory != nil {
		parts = parts[:3] // its name repeats its topic
	}
	if d.Kind == kindChapter && d.texts[1] != "" {
		parts = parts[1:] // the rest repeats the first line
	}
	var said []string
	size := 0
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			said, size = append(said, p), size+len(p)
		}
	}
	if size <= maxShown {
		return strings.Join(said, "\n\n")
	}
	match := d.fit.Best(maxExcerpt)
	if match.Text >= len(d.texts) || match.Text >= 3 || d.texts[match.Text] == "" {
		match = words.Match{}
	}
	text := d.texts[match.Text]
	if match.Text == 0 && len(said) > 1 {
		return said[0] + "\n\n" + clip(strings.Join(said[1:], "\n\n"), maxExcerpt)
	}
	part, _, _ := words.Excerpt(text, match.Start, match.End, maxExcerpt)
	if match.Text == 0 {
		return part
	}
	return d.first() + "\n\n… " + strings.TrimSpace(part) + " …"
}
