package rebuild

import (
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// ErrNewerFormat reports an entry of a newer format that must not be ignored. Nothing
// was written. A newer version of this module can read the session.
var ErrNewerFormat = errors.New("written by a newer version and must not be ignored")

// Options of a [Fold]. Nil and the zero value are the defaults.
type Options struct {
	// Summary is the form in which the summary of a compaction is shown.
	Summary SummaryForm
	// Full shows the whole conversation: compactions and clips are ignored,
	// rewinds and hides are not.
	Full bool
	// Tail means that earlier batches are missing: the first batch is the first one
	// that a later compaction keeps. Only a rewind to a missing batch needs that batch,
	// see [Fold.Has]. With Full, a result without its call is shown as late.
	Tail bool
}

// Fold makes a history from entries. Feed it the batches of a transcript in order, at
// any pace, and ask for the history at any time. The cost of an answer depends on the
// number of messages, not on the number of entries so far. Only a rewind, a compaction,
// a clip or a hide makes the fold start over.
//
// A Fold keeps the IDs and bodies of added entries and does not change them. It is for
// one goroutine; its results may be passed to other goroutines.
type Fold struct {
	opts Options
	err  error

	trail
	cut      map[string][]*node // idempotency key -> nodes of its cut append
	head     string
	copied   bool   // the first lines are copies from another session, by the header
	ignored  Report // repairs outside of messages: unknown types, rewinds
	standing Standing

	asm     *assembler // the live path; nil when it must be made anew
	placing *placing   // for Where; nil when it must be made anew
}

// New returns an empty Fold.
func New(opts *Options) *Fold {
	f := &Fold{trail: trail{tip: -1, tips: map[string]int{}}, cut: map[string][]*node{}}
	if opts != nil {
		f.opts = *opts
	}
	return f
}

// Add takes the next batch. An incomplete batch must be final: no writer will complete
// it (see [transcript.Batcher]). The error matches [ErrNewerFormat], and every later
// Add returns it again.
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
		f.ignored.note("superseded-batch", b.Entries[0].ID, "%d lines", len(cut))
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
			f.recent = append(f.recent, ended{id, f.tip})
		}
	}
	if key != "" && !b.Complete {
		f.cut[key] = f.nodes[first:]
	}
	return nil
}

func (f *Fold) addEntry(e *transcript.Entry, complete bool) error {
	if request, ok := e.Body.(transcript.Interrupt); ok && request.Ended == "" {
		return nil
	}
	switch b := e.Body.(type) {
	case transcript.Hide:
		f.addNode(e, complete)
		f.asm = nil
	case transcript.MessageLine, transcript.System, transcript.Tools, transcript.Dispatch, transcript.Decision, transcript.Interrupt:
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
					f.ignored.note("unresolved-clip", e.ID, "no entry %q before it", clip.Entry)
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
			f.ignored.note("unresolved-rewind", e.ID, "no entry %q before it", b.To)
			return nil
		}
		if tip != f.tip {
			f.tip, f.asm = tip, nil
		}
	case transcript.Unknown:
		if b.Critical {
			return fmt.Errorf("rebuild: entry %s of type %q: %w", e.ID, b.Kind, ErrNewerFormat)
		}
		f.ignored.note("unknown-entry", e.ID, "type %q", b.Kind)
	}
	return nil
}

// Head returns the ID of the last message, compaction or rewind entry, or "".
func (f *Fold) Head() string { return f.head }

// Has reports whether an entry with this ID was added, and can thus be the target of a
// rewind.
func (f *Fold) Has(id string) bool {
	_, ok := f.tipAt(id)
	return ok
}

// Live reports whether the lines up to and including the entry are in force, that is,
// not rewound. An entry outside of the history is live if the message line before it
// is.
func (f *Fold) Live(id string) bool {
	tip, ok := f.tipAt(id)
	return ok && f.liveTip(tip)
}

// Where returns the place of an entry, and whether the entry was added. The place does
// not depend on [Options].Full. An entry outside of the history, such as a title, has
// the place of the message line before it.
func (f *Fold) Where(id string) (w Where, ok bool) {
	tip, ok := f.tipAt(id)
	if !ok {
		return w, false
	}
	if f.placing == nil {
		f.placing = f.place()
	}
	p := f.placing
	if own := p.own[id]; own != nil {
		w = *own
	}
	switch {
	case w.Superseded:
		return Where{Superseded: true}, true
	case w.Rewound || tip >= 0 && !p.live[tip]:
		return Where{Rewound: true}, true
	}
	w.Compacted = w.Compacted || tip < p.kept
	return w, true
}

// History returns the canonical history of the entries so far. The caller owns the
// slices: the messages, their content and their origins. The values inside a block
// belong to the fold and must not be modified.
func (f *Fold) History() History {
	h := f.live().history()
	h.Cleared, h.Answered = f.standing.Cleared, f.Answered()
	if f.tip >= 0 && !f.opts.Full {
		h.After = f.nodes[f.tip].id
	}
	return h
}

// Preview returns the history as it would be after adding [Fold.Prompts] and the
// compaction, and changes nothing. It also returns the number of turns that the
// compaction keeps, which excludes its TurnsBefore.
func (f *Fold) Preview(c transcript.Compaction) (h History, turns int) {
	c.TurnsBefore = max(c.TurnsBefore, 1) // not needed here, and costly to compute
	after := *f
	after.slab, after.batches = slab[node]{}, f.batches+1
	after.addNode(&transcript.Entry{Body: c}, true) // after the end of f's nodes, which will overwrite it
	a := after.assemble()
	for _, p := range f.Prompts() {
		if b, ok := p.(transcript.Body); ok {
			*a.prompts.of(b) = b
		}
	}
	return a.history(), a.started()
}

// Prompts returns the [transcript.System] and [transcript.Tools] entries in force: the
// last live ones.
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

// Report returns the repairs that History needed, in the order of the history.
func (f *Fold) Report() Report {
	var rep Report
	f.live().render(&rep)
	return append(rep, f.ignored...)
}

// Turns returns the number of turns of the conversation, including those before a
// compaction.
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
			switch b := n.body.(type) {
			case transcript.Compaction:
				marker = i
				for _, id := range b.Read {
					a.read[id] = true
				}
			case transcript.Clip:
				for _, clip := range b.Clips {
					a.clips[clip.Entry] = append(a.clips[clip.Entry], clipping{clip, n.ord})
				}
			}
		}
	}
	if marker >= 0 {
		start = a.summarise(&f.trail, path, marker, f.opts.Summary)
		a.cutFront = start > 0 || f.opts.Tail || f.copied
	}
	a.items = make([]*item, 0, len(path)-start)
	a.feed(path[start:])
	return a
}

// Answered returns the model that the last answer of the history names. It returns ""
// if there is no answer, or if the answer names no model. Its cost does not depend on
// the length of the history.
func (f *Fold) Answered() (model string) {
	for _, it := range slices.Backward(f.live().items) {
		if it.answer && it.shows() {
			return it.model
		}
	}
	return ""
}

// Standing returns the state in force.
func (f *Fold) Standing() Standing { return f.standing }
