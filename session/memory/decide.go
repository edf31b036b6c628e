package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// A planner turns candidates into steps.
type planner struct {
	*Store
	scope  Scope
	source Source
	asked  map[int]answer // by the number of a step
	ids    map[int]string // of created memories, by step
}

// An answer is a decision with its candidate and memories.
type answer struct {
	about    string
	decision Decision
	err      error
}

// plan turns offers into steps, and changes the view. It does not repeat decisions
// of an earlier plan about the same memories.
func (p *planner) plan(ctx context.Context, v *view, offers []offer) (steps []step) {
	for i, o := range offers {
		steps = append(steps, p.step(ctx, v, o, i+1))
	}
	return steps
}

// step decides on one offer, and changes the view.
func (p *planner) step(ctx context.Context, v *view, o offer, n int) step {
	c := o.Candidate
	if o.code != "" {
		return step{N: n, Category: c.Category, Code: o.code, Reason: o.reason, Count: o.count, Failed: true}
	}
	switch d := p.decide(ctx, n, c, p.choices(v, c)); d.Action {
	case Skip:
		return step{N: n, Category: c.Category, PageID: d.Into, Code: "duplicate", Reason: d.Reason}
	case Merge:
		return p.merge(v, c, n, d)
	default:
		return p.create(v, c, n, d)
	}
}

// choices returns the memories that may absorb a candidate or contain it already.
func (p *planner) choices(v *view, c Candidate) []Memory {
	if c.Category == profile {
		return v.of(profile)
	}
	similar := v.similar(c)
	if c.Category.merges() {
		return similar
	}
	// An event that happens twice is two events, but a commit that is learned again
	// repeats its own.
	return slices.DeleteFunc(similar, func(m Memory) bool {
		return !slices.ContainsFunc(m.Sources, func(s Source) bool { return s.Commit == p.source.Commit })
	})
}

// decide returns a possible decision. The Decider runs only if there is a choice,
// and while time remains.
func (p *planner) decide(ctx context.Context, n int, c Candidate, similar []Memory) Decision {
	if len(similar) == 0 {
		return Decision{Action: Create}
	}
	byWords, _ := lexical{}.Decide(ctx, c, similar)
	if !c.Category.merges() {
		if byWords.Action == Merge {
			byWords = Decision{Action: Create}
		}
		return byWords
	}
	var about strings.Builder
	for _, m := range similar {
		about.WriteString(m.ID + " " + m.hash() + "\n")
	}
	a, ok := p.asked[n]
	if !ok || a.about != about.String() {
		a = answer{about: about.String(), err: context.Cause(ctx)}
		if a.err == nil {
			a.decision, a.err = p.opts.Decider.Decide(ctx, c, similar)
		}
		p.asked[n] = a
	}
	d, err := a.decision, a.err
	if err == nil {
		d, err = possible(d, c, similar)
	}
	if err != nil {
		d = byWords
		d.Reason = "decided by words: " + clip(oneLine(err.Error()), maxAbstract)
	}
	if c.Category == profile && d.Action != Merge { // the one profile absorbs all that is new
		d = byWords
	}
	return d
}

// possible completes a decision, or returns an error if that was not among the
// choices.
func possible(d Decision, c Candidate, similar []Memory) (Decision, error) {
	d.Reason = clip(oneLine(d.Reason), maxAbstract)
	at := 0
	if d.Into != "" {
		at = slices.IndexFunc(similar, func(m Memory) bool { return m.ID == d.Into })
	}
	switch {
	case d.Action == Create:
		return d, nil
	case d.Action != Skip && d.Action != Merge:
		return d, fmt.Errorf("%q is not an action", clip(string(d.Action), 60))
	case at < 0:
		return d, fmt.Errorf("%q is not one of the similar memories", clip(d.Into, 60))
	}
	d.Into = similar[at].ID
	if d.Text = d.Text.normal(); d.Text == (Text{}) {
		d.Text = mergeLines(similar[at], c)
	}
	if d.Action == Merge && (d.Text.Abstract == "" || d.Text.size() > maxText) {
		return d, fmt.Errorf("a merged memory needs a first line and at most %d bytes", maxText)
	}
	return d, nil
}

func (p *planner) create(v *view, c Candidate, n int, d Decision) step {
	folder := p.scope.folder(c.Category, p.opts.Shared)
	if p.ids[n] == "" {
		p.ids[n] = uuid.Must(uuid.NewV7()).String()
	}
	now := p.opts.Now().UTC()
	m := Memory{
		ID: p.ids[n], Scope: p.scope, Category: c.Category, Topic: c.Topic, Text: c.Text, Instruction: c.Instruction,
		Sources: []Source{p.sourceFor(c.Category)}, Created: now, Updated: now,
		file: v.fileName(folder, c, p.source.Commit, n),
	}
	return p.write(v, m, step{N: n, Category: c.Category, Reason: d.Reason, Candidate: &c})
}

func (p *planner) merge(v *view, c Candidate, n int, d Decision) step {
	old := *v.find(d.Into)
	m := old
	m.Text = d.Text
	if m.size() > maxText && !m.Edited {
		m.Text = m.shorten(maxText)
	}
	s := step{N: n, Category: c.Category, Reason: d.Reason, Candidate: &c}
	if size := m.size(); size > maxText {
		s.Candidate, s.Code, s.PageID, s.Failed = nil, "too_large", old.ID, true
		s.Reason = fmt.Sprintf("with it the memory had %d bytes, of %d at most, and a person has edited it: shorten the file", size, maxText)
		return s
	}
	if m.Text == old.Text {
		s.Candidate, s.Code, s.PageID = nil, "duplicate", old.ID
		return s
	}
	m.Instruction = m.Instruction || c.Instruction
	m.Sources = orderSources(append(slices.Clone(m.Sources), p.sourceFor(c.Category)))
	m.Updated = p.opts.Now().UTC()
	s.Before = string(old.format())
	return p.write(v, m, s)
}

// write completes a step that writes a memory.
func (p *planner) write(v *view, m Memory, s step) step {
	data := m.format()
	s.ID, s.File, s.After = m.ID, m.file, string(data)
	m = parse(m.file, data)
	m.Scope, m.Category = p.scope, s.Category
	s.URI = uriOf(s.Category, s.File)
	m.URI = s.URI
	v.put(m)
	return s
}

// sourceFor is the source of a memory of a category. Shared ones name the owner.
func (p *planner) sourceFor(c Category) Source {
	s := p.source
	if !p.opts.Shared || !c.ofAgent() {
		s.Owner = ""
	}
	return s
}
