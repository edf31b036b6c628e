package rebuild

import (
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
)

// ErrNewerFormat reports an entry of a newer format that must not be ignored.
// Nothing was written; a newer version of this module can read the session.
var ErrNewerFormat = errors.New("written by a newer version that this one cannot ignore")

// Options of a [Fold]. Nil and the zero value are the defaults.
type Options struct {
	// Summary is where the summary of a compaction is shown.
	Summary SummaryForm
	// Full shows the whole conversation: compactions and clips are ignored,
	// rewinds and hides are not.
	Full bool
	// Tail means that the first batch is the first one that a later compaction
	// keeps: earlier batches are missing, and needed only by a rewind to them,
	// see [Fold.Has]. With Full, a result without its call is shown as late.
	Tail bool
}

// SummaryForm is the form in which a model is shown the summary of a
// compaction.
type SummaryForm int

// The forms of a summary.
const (
	SummaryUser   SummaryForm = iota // a user message before the kept ones
	SummaryPair                      // the same, and an assistant message that accepts it
	SummarySystem                    // the system prefix of the history
)

// Fold makes a history of entries. Feed it the batches of a transcript in
// order, at any pace; ask for the history at any time. Each answer costs the
// number of messages, not the number of entries read so far; only a rewind, a
// compaction, a clip and a hide make it start over.
//
// A Fold keeps the IDs and bodies of added entries and does not change them. It
// is for one goroutine; its results may be passed to others.
type Fold struct {
	opts Options
	err  error

	nodes    []*node // lines that histories are made of, in file order
	tip      int     // the last live node, -1 for none
	tips     tips
	slab     slab[node]
	cut      map[string][]*node // idempotency key -> nodes of its cut append
	batches  int
	head     string
	first    string // ID of the header: rewinding there empties the history
	copied   bool   // the first lines are copies from another session, by the header
	ignored  Report // what concerns no message: unknown types, rewinds
	standing Standing

	asm     *assembler // the live path; nil when it must be made anew
	placing *placing   // for Where; nil when it must be made anew
}

// node is a message line, a system prompt, tools, a dispatch, a decision, an end of a
// turn, a compaction, a clip or a hide.
type node struct {
	id       string // of its entry
	body     transcript.Body
	ord      int // its index among all nodes
	parent   int // the live node before it, -1 for none
	chain    int // the first of the nodes up to it that are each the parent of the next
	batch    int // ordinal of the batch
	complete bool
	dead     int // the ord that the retry which superseded it began with, 0 for none
	edited   int // the dead of the superseded node right before it, or the ord of the hide that shows it again
	hidden   int // the ord of the hide in force, 0 for none; path sets it and edited
	after    int // the tip after the line of coversTo, or after the line its request was rendered from; noAfter if none
}

// tips are the tips after the batches of entries.
type tips struct {
	byID   map[string]int
	recent []ended // that byID lacks
}

// ended is an entry and the tip after its batch.
type ended struct {
	id  string
	tip int
}

// placing holds the places of entries in a fold, see [Fold.Where]. The maps are keyed by
// ID.
type placing struct {
	live       []bool          // of the nodes
	kept       int             // the first node that the last live compaction keeps
	compacted  map[string]bool // before kept, in the same batch
	clipped    map[string]bool
	hidden     map[string]bool
	superseded map[string]bool
	rewound    map[string]bool // nodes; a rewind may be in the same batch
}

// hiding is the last live hide of an entry.
type hiding struct {
	ord int
	off bool
}

// noAfter differs from every index of a node and from -1, which is before all
// of them.
const noAfter = -2

// New returns a Fold that has seen nothing.
func New(opts *Options) *Fold {
	f := &Fold{tip: -1, tips: tips{byID: map[string]int{}}, cut: map[string][]*node{}}
	if opts != nil {
		f.opts = *opts
	}
	return f
}

// Add takes the next batch. An incomplete one must be final: no writer will
// complete it (see [transcript.Batcher]). The error matches [ErrNewerFormat];
// it is returned by every later Add.
func (f *Fold) Add(b transcript.Batch) error {
	if f.err != nil {
		return f.err
	}
	if len(b.Entries) == 0 {
		return nil
	}
	f.batches++
	f.placing = nil
	f.standing.add(b)
	key := b.Entries[0].Idem
	if cut := f.cut[key]; len(cut) > 0 { // the rest of a cut append gives way to its retry
		for _, n := range cut {
			n.dead = len(f.nodes)
		}
		f.asm = nil
		f.ignored = append(f.ignored, repairf("superseded-batch", b.Entries[0].ID, "%d lines", len(cut)))
		delete(f.cut, key)
	}
	first := len(f.nodes)
	for i := range b.Entries {
		e := &b.Entries[i]
		if err := f.addEntry(e, b.Complete); err != nil {
			f.err = err
			return err
		}
		if transcript.IsHead(e.Type()) {
			f.head = e.ID
		}
	}
	for i := range b.Entries {
		if id := b.Entries[i].ID; id != "" {
			f.tips.recent = append(f.tips.recent, ended{id, f.tip})
		}
	}
	if key != "" && !b.Complete {
		f.cut[key] = f.nodes[first:]
	}
	return nil
}

func (f *Fold) addEntry(e *transcript.Entry, complete bool) error {
	switch b := e.Body.(type) {
	case transcript.Interrupt:
		if b.Ended != "" {
			if n := f.addNode(e, complete); f.asm != nil {
				f.asm.add(n)
			}
		}
	case transcript.Hide:
		f.addNode(e, complete)
		f.asm = nil
	case transcript.MessageLine, transcript.System, transcript.Tools, transcript.Dispatch, transcript.Decision:
		n := f.addNode(e, complete)
		if f.asm != nil && f.asm.displaces(n) {
			f.asm = nil
		}
		if f.asm != nil {
			f.asm.add(n)
		}
	case transcript.Compaction, transcript.Clip:
		if c, ok := b.(transcript.Clip); ok && !f.opts.Full {
			for _, clip := range c.Clips {
				if !f.Has(clip.Entry) {
					f.ignored = append(f.ignored, repairf("unresolved-clip", e.ID, "no entry %q before it", clip.Entry))
				}
			}
		}
		f.addNode(e, complete)
		if !f.opts.Full {
			f.asm = nil
		}
	case transcript.Header:
		if f.first == "" && len(f.nodes) == 0 {
			f.first, f.copied = e.ID, b.Base.Session != ""
		}
	case transcript.Rewind:
		tip, ok := f.tipAt(b.To)
		if !ok {
			f.ignored = append(f.ignored, repairf("unresolved-rewind", e.ID, "no entry %q before it", b.To))
			return nil
		}
		if tip != f.tip {
			f.tip, f.asm = tip, nil
		}
	case transcript.Unknown:
		if b.Critical {
			return fmt.Errorf("rebuild: entry %s of type %q: %w", e.ID, b.Kind, ErrNewerFormat)
		}
		f.ignored = append(f.ignored, repairf("unknown-entry", e.ID, "type %q", b.Kind))
	}
	return nil
}

func (f *Fold) addNode(e *transcript.Entry, complete bool) *node {
	n := f.slab.one()
	*n = node{
		id: e.ID, body: e.Body, ord: len(f.nodes), parent: f.tip, chain: len(f.nodes),
		batch: f.batches, complete: complete, after: noAfter,
	}
	if f.tip >= 0 && f.tip == len(f.nodes)-1 {
		n.chain = f.nodes[f.tip].chain
	}
	switch b := e.Body.(type) {
	case transcript.Compaction:
		if tip, ok := f.tipAt(b.CoversTo); ok { // now: a later line may have the same ID
			n.after = tip
		}
	case transcript.MessageLine:
		if b.Made.After != "" {
			n.after = f.renderedFrom(b.Made.After)
		}
	}
	f.nodes = append(f.nodes, n)
	f.tip = n.ord
	return n
}

// Head is the ID of the last message, compaction or rewind entry, or empty.
func (f *Fold) Head() string { return f.head }

// Has reports whether an entry with this ID was added: whether a rewind can go
// there.
func (f *Fold) Has(id string) bool {
	_, ok := f.tipAt(id)
	return ok
}

// tipAt returns the tip after the batch of an entry; of several with that ID
// the last one, but of the header's the first. Entries are indexed at the first
// call: most sessions never need it.
func (f *Fold) tipAt(id string) (tip int, ok bool) {
	for _, e := range f.tips.recent {
		if _, seen := f.tips.byID[e.id]; !seen || e.id != f.first {
			f.tips.byID[e.id] = e.tip
		}
	}
	f.tips.recent = nil
	tip, ok = f.tips.byID[id]
	return tip, ok
}

// Live reports whether the lines up to and including the entry are in force,
// that is, not rewound. Entries that no history is made of are live with the
// message line before them.
func (f *Fold) Live(id string) bool {
	tip, ok := f.tipAt(id)
	return ok && f.liveTip(tip)
}

// liveTip reports whether a node, or -1 for the beginning, is in force.
func (f *Fold) liveTip(tip int) bool {
	i := f.tip
	for i > tip {
		if f.nodes[i].chain <= tip {
			return true
		}
		i = f.nodes[f.nodes[i].chain].parent
	}
	return i == tip
}

// renderedFrom returns the tip that a request was rendered from: -1, before all
// nodes, if the line is missing or no longer in force.
func (f *Fold) renderedFrom(after string) int {
	const nearby = 64 // nodes searched before all entries are indexed
	tip, ok := -1, false
	for i := len(f.nodes) - 1; i >= max(0, len(f.nodes)-nearby) && !ok; i-- {
		if f.nodes[i].id == after {
			for tip, ok = i, true; tip+1 < len(f.nodes) && f.nodes[tip+1].batch == f.nodes[i].batch; {
				tip++
			}
		}
	}
	if !ok {
		tip, ok = f.tipAt(after)
	}
	if !ok || !f.liveTip(tip) {
		return -1
	}
	return tip
}

// History returns the canonical history of the entries so far. The caller owns
// the slices: the messages, their content and their origins. The values inside a
// block are shared with the fold and must not be modified.
func (f *Fold) History() History {
	h := f.live().history()
	h.Cleared, h.Answered = f.standing.Cleared, f.Answered()
	if f.tip >= 0 && !f.opts.Full {
		h.After = f.nodes[f.tip].id
	}
	return h
}

// Preview returns the history as it would be if [Fold.Prompts] and the compaction were
// added now, and changes nothing. Its turns are those that the compaction keeps: together
// with its TurnsBefore they are all there are.
func (f *Fold) Preview(c transcript.Compaction) (h History, turns int) {
	c.TurnsBefore = max(c.TurnsBefore, 1) // not asked for here, and costly to find out
	after := *f
	after.slab, after.batches = slab[node]{}, f.batches+1
	after.addNode(&transcript.Entry{Body: c}, true) // past the end of f's nodes, which will overwrite it
	a := after.assemble()
	for _, p := range f.Prompts() {
		if b, ok := p.(transcript.Body); ok {
			*a.prompts.of(b) = b
		}
	}
	return a.history(), a.started()
}

// Prompts returns the last live [transcript.System] and [transcript.Tools]
// entries, which are in force.
func (f *Fold) Prompts() (items []transcript.Item) {
	var last prompts
	for i := f.tip; i >= 0 && len(items) < 2; i = f.nodes[i].parent {
		n := f.nodes[i]
		if at := last.of(n.body); at != nil && *at == nil && n.dead == 0 {
			*at = n.body
			if item, ok := n.body.(transcript.Item); ok {
				items = append(items, item)
			}
		}
	}
	return items
}

// Report returns the repairs that were needed for History, in the order of
// the history.
func (f *Fold) Report() Report {
	var rep Report
	f.live().render(&rep)
	return append(rep, f.ignored...)
}

// Turns is the number of turns of the conversation, those before a compaction
// included.
func (f *Fold) Turns() int {
	a := f.live()
	return a.turnsBefore + a.started()
}

func (f *Fold) live() *assembler {
	if f.asm == nil {
		f.asm = f.assemble()
	}
	return f.asm
}

func (f *Fold) assemble() *assembler {
	path := f.path()
	a := newAssembler()
	a.full, a.cutFront = f.opts.Full, f.opts.Full && f.opts.Tail
	start, marker := 0, -1
	if !f.opts.Full {
		for i, n := range path {
			switch b := f.nodes[n].body.(type) {
			case transcript.Compaction:
				marker = i
				for _, id := range b.Read {
					a.read[id] = true
				}
			case transcript.Clip:
				for _, clip := range b.Clips {
					a.clips[clip.Entry] = append(a.clips[clip.Entry], clipping{clip, n})
				}
			}
		}
	}
	if marker >= 0 {
		start = f.summarise(a, path, marker)
		a.cutFront = start > 0 || f.opts.Tail || f.copied
	}
	a.items = make([]*item, 0, len(path)-start)
	f.feed(a, path[start:])
	return a
}

// hides returns the hides in force, by entry.
func (f *Fold) hides() map[string]hiding {
	all := map[string]hiding{}
	for i := f.tip; i >= 0; i = f.nodes[i].parent {
		h, _ := f.nodes[i].body.(transcript.Hide)
		for _, id := range h.Entries {
			if _, later := all[id]; !later && f.nodes[i].dead == 0 {
				all[id] = hiding{i, h.Off}
			}
		}
	}
	return all
}

func (f *Fold) path() []int {
	path, hides := make([]int, 0, f.tip+1), f.hides()
	for i := f.tip; i >= 0; i = f.nodes[i].parent {
		if dead := f.nodes[i].dead; dead == 0 {
			n := f.nodes[i]
			n.hidden, n.edited = 0, 0
			if _, ok := n.body.(transcript.MessageLine); ok {
				switch h := hides[n.id]; {
				case h.ord < i: // of an earlier line with the same ID
				case h.off:
					n.edited = h.ord
				default:
					n.hidden = h.ord
				}
			}
			path = append(path, i)
		} else if len(path) > 0 {
			next := f.nodes[path[len(path)-1]]
			next.edited = max(next.edited, dead)
		}
	}
	slices.Reverse(path)
	return path
}

// boundary returns the index in path of the first entry that the compaction at
// marker keeps, and the deciding entry: firstKept, else coversTo. Without either
// it is the entry after the marker, and by is empty. An entry inside a batch means
// the whole batch.
func (f *Fold) boundary(path []int, marker int) (start int, by string) {
	e := f.nodes[path[marker]]
	c, _ := e.body.(transcript.Compaction)
	for i, n := range slices.Backward(path[:marker]) {
		if c.FirstKept == "" || f.nodes[n].id != c.FirstKept {
			continue
		}
		for i > 0 && f.nodes[path[i-1]].batch == f.nodes[n].batch {
			i--
		}
		return i, c.FirstKept
	}
	behind, _ := slices.BinarySearch(path[:marker], e.after+1)
	if e.after == -1 || behind > 0 && (path[behind-1] == e.after || f.nodes[e.after].dead > 0) {
		return behind, c.CoversTo
	}
	return marker + 1, ""
}

// summarise puts the summary of the compaction at marker in front, and returns the
// index in path of the first entry that is kept.
func (f *Fold) summarise(a *assembler, path []int, marker int) (start int) {
	e := f.nodes[path[marker]]
	c, _ := e.body.(transcript.Compaction)
	start, by := f.boundary(path, marker)
	if by == "" {
		a.note("unresolved-boundary", e.id, "neither firstKeptEntryId %q nor coversTo %q is a live entry before it", c.FirstKept, c.CoversTo)
	}
	changed := f.hideSummarised(a, &c, path[marker:], path[start:])
	a.summary, a.turnsBefore, a.compacted = &c, c.TurnsBefore, e.ord
	if c.TurnsBefore == 0 && start > 0 {
		before := newAssembler()
		f.feed(before, path[:start])
		a.turnsBefore = before.started()
	}
	from := source{node: &node{id: e.id}} // of no batch
	say := func(answer bool, texts ...string) {
		it := a.newItem(from.node, len(texts))
		it.answer, it.since = answer, changed
		for _, text := range texts {
			if text != "" {
				it.parts = append(it.parts, part{transcript.TextBlock{Text: text}, from})
			}
		}
		it.plain = len(it.parts) == 1
		a.prelude = append(a.prelude, it)
	}
	text, carried := "", CarriedText(c)
	if c.Summary = words.Printable(c.Summary); !IsBlank(c.Summary) {
		text = SummaryHeading + "\n" + c.Summary
	}
	if f.opts.Summary == SummarySystem {
		a.system, text = text, ""
	}
	say(false, text, carried)
	if f.opts.Summary == SummaryPair && text != "" {
		say(true, summaryReply)
	}
	return start
}

// hideSummarised removes the carried items of hidden entries from a compaction, and
// returns the ord of the last hide that concerns them. Its summary stays, which is
// noted for each entry that a later line hides and that is not kept.
func (f *Fold) hideSummarised(a *assembler, c *transcript.Compaction, later, kept []int) (since int) {
	hides := f.hides()
	*c, _ = c.WithoutCarried(func(entry string) bool {
		h, ok := hides[entry]
		since = max(since, h.ord)
		return ok && !h.off
	})
	for _, i := range later {
		h, _ := f.nodes[i].body.(transcript.Hide)
		for _, id := range h.Entries {
			if hides[id] == (hiding{ord: i}) && !slices.ContainsFunc(kept, func(n int) bool { return f.nodes[n].id == id }) {
				a.note("hidden-entry", id, "a summary may have its words")
			}
		}
	}
	return since
}
