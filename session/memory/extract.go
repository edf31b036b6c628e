package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Result lists the memories from one commit.
type Result struct {
	Chapter string `json:"chapter"`
	Commit  string `json:"commit"`
	Diff    string `json:"diff"` // its name in the storage
	// Counts are by category; "unknown" counts candidates of invalid categories.
	Counts   map[string]transcript.ExtractedCount `json:"counts"`
	Outcomes []Outcome                            `json:"outcomes"`
	// Reason explains a lack of candidates.
	Reason string `json:"reason,omitempty"`
	// Repeated is set if all was done before, and nothing was written.
	Repeated bool `json:"repeated,omitempty"`
}

// An Outcome is the fate of a candidate.
type Outcome struct {
	Category Category `json:"category"`
	Action   Action   `json:"action,omitempty"` // empty: it was refused
	ID       string   `json:"id,omitempty"`     // of the memory that now holds it
	URI      string   `json:"uri,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Count    int      `json:"count,omitempty"` // of candidates, if several
}

// An extraction learns from one chapter.
type extraction struct {
	planner
	s       *session.Session
	chapter Chapter
	name    string // of the diff, without an extension
}

var errNoExtractor = errors.New("there is no extractor: set Options.Extractor")

// Extract learns from a chapter of a session, given by its name or the entry ID of
// its commit, and appends a [transcript.Extracted] to the session. It is idempotent:
// after a nil error a further call does nothing, and after an error or a kill it
// continues where the last one ended. It calls the Extractor again only if no diff
// exists. When the error is nil, the memories and the diff are on stable storage.
//
// An error changes no chapter and does not keep later ones from being learned. Unless
// ctx is done, an Extracted with the error is appended to the session, and the
// chapter stays [Store.Pending]. A refused candidate is not an error; the result
// gives the reason.
//
// A memory that a person edited is merged in its present text, a renamed one is found,
// and a deleted one stays away unless the chapter teaches it anew. An edit that is
// saved just between the last reading of a memory's file and its replacement is lost:
// no lock can keep a person's editor out. Extracts of one commit exclude each other,
// even between processes.
func (m *Store) Extract(ctx context.Context, s *session.Session, chapter string) (Result, error) {
	ref := s.Ref()
	fail := func(r Result, err error) (Result, error) {
		return r, fmt.Errorf("memory: %s of session %s/%s was not learned, it stays pending; extract it again: %w", chapter, ref.Agent, ref.ID, err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return fail(Result{}, err)
	}
	owner := info.Owner
	a, err := findChapter(ctx, s, chapter)
	if err != nil {
		return fail(Result{}, err)
	}
	x := &extraction{s: s, chapter: a, name: diffName(owner, a.Entry)}
	x.planner = planner{
		Store: m, scope: Scope{ref.Agent, owner}, asked: map[int]answer{}, ids: map[int]string{},
		source: Source{Owner: owner, Agent: ref.Agent, Session: ref.ID, Chapter: a.Name, Commit: a.Entry},
	}
	if err := x.scope.check(); err != nil {
		return fail(x.result(&diff{}), err)
	}
	unlock, err := m.files.Lock(ctx, path.Join("commits", a.Entry))
	if err != nil {
		return fail(x.result(&diff{}), err)
	}
	defer unlock()
	r, err := x.run(ctx)
	if err != nil {
		return fail(r, err)
	}
	return r, nil
}

// Pending returns the names of the chapters of a session that are still to be learned,
// the oldest first: never or not fully extracted, or opened again by an erase. The
// chapters of a session without an owner stay pending, and Extract refuses them.
func (m *Store) Pending(ctx context.Context, s *session.Session) (names []string, err error) {
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	chapters, err := Chapters(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, a := range chapters {
		done := a.Extracted
		if done {
			var d diff
			if done, err = m.readJSON(ctx, diffName(info.Owner, a.Entry)+diffExt, &d); err != nil {
				return nil, err
			}
			done = done && d.Done
		}
		if !done {
			names = append(names, a.Name)
		}
	}
	return names, nil
}

func findChapter(ctx context.Context, s *session.Session, name string) (Chapter, error) {
	chapters, err := Chapters(ctx, s)
	if err != nil {
		return Chapter{}, err
	}
	for _, a := range chapters {
		if a.Name == name || a.Entry == name {
			return a, nil
		}
	}
	return Chapter{}, fmt.Errorf("there is no such chapter: %w", fs.ErrNotExist)
}

// run learns the rest of the commit. The caller holds the commit's lock.
func (x *extraction) run(ctx context.Context) (Result, error) {
	var d diff
	begun, err := x.readJSON(ctx, x.name+diffExt, &d)
	done := d.Done
	switch {
	case err == nil && !begun:
		err = x.begin(ctx, &d)
	case err == nil && !done:
		err = x.underLock(ctx, func() error { return x.finish(ctx, &d, true) })
	case err == nil && !x.chapter.Extracted: // a kill may have preceded it
		err = x.files.Remove(ctx, x.name+progressExt)
	}
	r := x.result(&d)
	if err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, x.append(ctx, transcript.Extracted{Commit: x.chapter.Entry, Err: clip(oneLine(err.Error()), maxAbstract)}))
		}
		return r, err
	}
	// Another process may have appended that while this one waited for the lock.
	if x.chapter, err = findChapter(ctx, x.s, x.chapter.Entry); err == nil && (!done || !x.chapter.Extracted) {
		x.announce("append")
		return r, x.append(ctx, transcript.Extracted{Commit: x.chapter.Entry, Counts: r.Counts, Diff: r.Diff})
	}
	r.Repeated = true
	return r, err
}

// begin asks the models, writes the diff and applies it.
func (x *extraction) begin(ctx context.Context, d *diff) error {
	v, err := x.load(ctx, x.scope) // first: without readable memories no model is paid
	if err != nil {
		return err
	}
	h, err := ReadChapter(ctx, x.s, x.chapter.Name)
	if err != nil {
		return err
	}
	bounded, cancel := x.bounded(ctx)
	defer cancel()
	found, reason, err := x.ask(bounded, h.Messages)
	if err != nil {
		return err
	}
	offers := accept(found)
	x.announce("asked")
	// Models are slow, so they run without the lock of the scope. With it, only
	// decisions on changed memories are repeated.
	x.plan(bounded, v, offers)
	x.announce("planned")
	return x.underLock(ctx, func() error {
		bounded, cancel := x.bounded(ctx)
		defer cancel()
		v, err := x.load(ctx, x.scope)
		if err != nil {
			return err
		}
		steps := x.plan(bounded, v, offers)
		*d = diff{
			ExtractedAt: x.opts.Now().UTC(), Source: x.source, Reason: reason,
		}
		d.setSteps(steps)
		x.announce("diff")
		if err := x.files.Create(ctx, x.name+diffExt, encode(d)); err != nil {
			return err
		}
		return x.finish(ctx, d, false)
	})
}

// append appends the result of the extraction to the session.
func (x *extraction) append(ctx context.Context, e transcript.Extracted) error {
	_, err := x.s.Append(ctx, e)
	return err
}

func (x *extraction) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.opts.Timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, x.opts.Timeout)
}

func (x *extraction) underLock(ctx context.Context, do func() error) error {
	unlock, err := x.lock(ctx, x.scope)
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// ask returns the candidates from messages, or the reason for a lack of them.
func (x *extraction) ask(ctx context.Context, messages []transcript.Message) (found []Candidate, reason string, err error) {
	if x.opts.Extractor == nil {
		return nil, "", errNoExtractor
	}
	if len(messages) == 0 {
		return nil, "the chapter has no messages", nil
	}
	found, err = x.opts.Extractor.Extract(ctx, Input{x.scope, x.source, x.chapter.Abstract, x.chapter.Overview, withoutShown(messages)})
	if err != nil {
		return nil, "", fmt.Errorf("the extractor: %w", err)
	}
	found = slices.Clone(found)
	for i := range found {
		for _, text := range []*string{&found[i].Topic, &found[i].Abstract, &found[i].Overview, &found[i].Content} {
			*text = x.opts.Redact(ctx, *text)
		}
	}
	if len(found) == 0 {
		reason = "the extractor found nothing to remember"
	}
	return found, reason, nil
}

// finish does the remaining steps of a diff. The caller holds the scope's lock.
func (x *extraction) finish(ctx context.Context, d *diff, again bool) error {
	p := progress{Of: d.ExtractedAt}
	if again {
		var found progress
		if _, err := x.readJSON(ctx, x.name+progressExt, &found); err != nil {
			return err
		}
		if found.Of.Equal(p.Of) { // not of a removed diff
			p = found
		}
		// A kill may have preceded the sync of the diff's name.
		if err := x.files.Write(ctx, x.name+diffExt, encode(d)); err != nil {
			return err
		}
	}
	steps := d.steps()
	for _, s := range p.Instead {
		if s.N >= 1 && s.N <= len(steps) {
			steps[s.N-1] = s
		}
	}
	for i := min(max(p.Done, 0), len(steps)); i < len(steps); i++ {
		if steps[i].After == "" {
			continue // nothing to do or log
		}
		if err := x.do(ctx, steps, i, &p, again); err != nil {
			return err
		}
		again = false
		p.Done = i + 1
		x.announce("log")
		if err := x.files.Write(ctx, x.name+progressExt, encode(p)); err != nil {
			return err
		}
	}
	d.setSteps(steps)
	d.Done = true
	x.announce("done")
	if err := x.files.Write(ctx, x.name+diffExt, encode(d)); err != nil {
		return err
	}
	x.announce("clean")
	return x.files.Remove(ctx, x.name+progressExt)
}

// do does one step. If the memory has neither its old nor its new text, another
// writer changed it, and do decides the step again.
func (x *extraction) do(ctx context.Context, steps []step, i int, p *progress, again bool) error {
	const tries = 10
	for range tries {
		done, err := x.try(ctx, steps, i, again)
		if done || err != nil {
			return err
		}
		bounded, cancel := x.bounded(ctx)
		defer cancel()
		v, err := x.load(ctx, x.scope)
		if err != nil {
			return err
		}
		n := steps[i].N
		delete(x.ids, n)
		anew := x.step(bounded, v, acceptOne(*cmp.Or(steps[i].Candidate, &Candidate{})), n)
		anew.Reason = cmp.Or(anew.Reason, "decided anew: the memory was changed meanwhile")
		steps[i] = anew
		p.Instead = append(p.Instead, anew)
		x.announce("instead")
		if err := x.files.Write(ctx, x.name+progressExt, encode(p)); err != nil {
			return err
		}
		if anew.After == "" {
			return nil
		}
	}
	return fmt.Errorf("%s keeps changing", steps[i].File)
}

// try does one step, and reports whether it is done.
func (x *extraction) try(ctx context.Context, steps []step, i int, again bool) (bool, error) {
	s := steps[i]
	if !s.Category.valid() || path.Dir(s.File) != x.scope.folder(s.Category, x.opts.Shared) {
		return false, fmt.Errorf("the diff names the file %q; remove the diff to learn the chapter again", s.File)
	}
	found, err := x.locate(ctx, s, again || s.Before != "")
	if err != nil {
		return false, err
	}
	after := parse(s.File, []byte(s.After)).hash()
	switch {
	case found != nil && found.hash() == after:
		if again { // a kill may have preceded the sync of its name
			err = x.files.Write(ctx, found.file, []byte(s.After))
		}
		return err == nil, err
	case s.Before == "" && found == nil:
		x.announce("create")
		err := x.files.Create(ctx, s.File, []byte(s.After))
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return err == nil, err
	case found == nil: // deleted
		return false, nil
	case s.Before == "", again && x.applied(found, steps[:i]):
		return true, nil // but changed since
	case found.hash() == parse(s.File, []byte(s.Before)).hash():
		x.announce("update")
		err := x.files.Write(ctx, found.file, []byte(s.After))
		steps[i].File, steps[i].URI = found.file, uriOf(s.Category, found.file)
		return err == nil, err
	}
	return false, nil
}

// applied reports whether a memory names this commit as a source, and no earlier
// step wrote it: then the step was done, and the memory changed since.
func (x *extraction) applied(m *Memory, before []step) bool {
	return slices.ContainsFunc(m.Sources, func(s Source) bool { return s.Commit == x.source.Commit }) &&
		!slices.ContainsFunc(before, func(s step) bool { return s.ID == m.ID })
}

// locate finds the memory of a step: in its file, or wherever a person moved it.
func (x *extraction) locate(ctx context.Context, s step, search bool) (*Memory, error) {
	m, err := x.read(ctx, x.scope, s.Category, s.File)
	if err == nil && m.ID == s.ID {
		return &m, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || !search {
		return nil, ignore(err, fs.ErrNotExist)
	}
	v, err := x.load(ctx, x.scope)
	if err != nil {
		return nil, err
	}
	return v.find(s.ID), nil
}

func (x *extraction) result(d *diff) Result {
	r := Result{
		Chapter: x.chapter.Name, Commit: x.chapter.Entry, Diff: x.name + diffExt, Reason: d.Reason,
		Counts: map[string]transcript.ExtractedCount{}, Outcomes: []Outcome{},
	}
	for _, s := range d.steps() {
		o := Outcome{Category: s.Category, ID: cmp.Or(s.ID, s.PageID), URI: s.URI, Reason: s.Reason, Count: s.Count}
		n := r.Counts[string(s.Category)]
		switch {
		case s.Failed:
			n.Failed += cmp.Or(s.Count, 1)
		case s.After == "":
			o.Action = Skip
			n.Skipped++
		case s.Before == "":
			o.Action = Create
			n.Added++
		default:
			o.Action = Merge
			n.Merged++
		}
		r.Counts[string(s.Category)] = n
		r.Outcomes = append(r.Outcomes, o)
	}
	return r
}
