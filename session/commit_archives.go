package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// ArchiveInfo describes an archive of a session: the part of it that one
// [Session.Commit] has put away.
type ArchiveInfo struct {
	Name      string           `json:"name"`  // such as "archive_001"
	Entry     string           `json:"entry"` // of the commit
	At        time.Time        `json:"at"`    // the time of the commit
	First     string           `json:"first,omitempty"`
	Last      string           `json:"last,omitempty"`
	Runs      []transcript.Run `json:"runs,omitempty"`     // the ranges of lines that it has
	Messages  int              `json:"messages,omitempty"` // texts of the user and answers
	Abstract  string           `json:"abstract,omitempty"`
	Overview  string           `json:"overview,omitempty"`
	Owner     string           `json:"owner,omitempty"`     // of the session at that time
	Extracted bool             `json:"extracted,omitempty"` // an [transcript.Extracted] without an error names it
}

// Archives returns the archives of the session, the oldest first. It reads the
// whole transcript, but decodes few of its lines.
func (s *Session) Archives(ctx context.Context) ([]ArchiveInfo, error) {
	all, _, err := s.archives(ctx)
	return all, s.store.wrap("read", s.ref, err)
}

// accounting are the types of lines about commits.
var accounting = words.NewLiterals(`"commit"`, `"extracted"`)

// archives returns the archives and the places of their commits.
func (s *Session) archives(ctx context.Context) (all []ArchiveInfo, places []driver.Cursor, err error) {
	var a ledger
	if err := a.read(s.ownRecords(ctx), accounting); err != nil {
		return nil, nil, err
	}
	for _, r := range slices.Backward(a.records) {
		c, ok := r.Entry.Body.(transcript.Commit)
		if !ok {
			continue
		}
		if whole, err := a.whole(s.store.scan(ctx, s.ref), r); err != nil {
			return nil, nil, err
		} else if !whole {
			continue
		}
		places = append(places, driver.Cursor(r.Offset))
		all = append(all, ArchiveInfo{
			Name: c.Archive, Entry: r.Entry.ID, At: r.Entry.Time, First: c.FirstEntry, Last: c.LastEntry, Runs: c.Runs, Messages: c.Messages,
			Abstract: c.Abstract, Overview: c.Overview, Owner: c.Owner, Extracted: a.extracted[r.Entry.ID],
		})
	}
	return all, places, nil
}

// A ledger has the lines of a session that account for commits and usage, the last
// one first, without repeats and those of the session that it is a fork of.
type ledger struct {
	records   []transcript.Record
	starts    map[string]driver.Cursor // entry ID -> the place of its batch
	extracted map[string]bool          // entry ID of a commit -> what the last extraction says

	batch []transcript.Record // of which the first line is looked for
}

// read reads the lines that have one of the literals, and the rest of their
// batches.
func (a *ledger) read(sift sifting, literals words.Literals) error {
	a.starts, a.extracted = map[string]driver.Cursor{}, map[string]bool{}
	keep := func(_ driver.Cursor, lines []byte) bool { return len(a.batch) > 0 || literals.In(lines) }
	for rec, err := range sift(keep) {
		switch {
		case err != nil:
			return err
		case !rec.HasEntry():
			a.batch = nil
			continue
		}
		e := rec.Entry
		switch b := e.Body.(type) {
		case transcript.Commit, transcript.Used:
			a.batch = append(a.batch, rec)
		case transcript.Extracted:
			if _, known := a.extracted[b.Commit]; !known {
				a.extracted[b.Commit] = b.Err == ""
			}
		}
		if e.Part <= 1 {
			for _, r := range a.batch {
				a.starts[r.Entry.ID] = driver.Cursor(rec.Offset)
			}
			a.records = append(a.records, a.batch...)
			a.batch = nil
		}
	}
	return nil
}

// ownRecords returns the sifting of the lines that a fork has not copied.
func (s *Session) ownRecords(ctx context.Context) sifting {
	return func(keep driver.Keep) iter.Seq2[transcript.Record, error] {
		return s.store.records(ctx, s.ref, ScanOptions{Backward: true, Own: true, Keep: func(lines []byte) bool { return keep(0, lines) }})
	}
}

// whole reports whether the batch of a record was written whole.
func (a *ledger) whole(scan scan, r transcript.Record) (bool, error) {
	for b, err := range transcript.Batches(scan(a.starts[r.Entry.ID], driver.Forward)) {
		return b.Complete && indexOf(b.Entries, r.Entry.ID) >= 0, err
	}
	return false, nil
}

// Archived returns the messages of an archive, as if nothing had been compacted or
// clipped since. Calls are there with their results. The rest of the transcript is
// passed over without being decoded. If there is no archive with that name the
// error matches fs.ErrNotExist.
func (s *Session) Archived(ctx context.Context, name string) (h rebuild.History, err error) {
	all, places, err := s.archives(ctx)
	if err != nil {
		return h, s.store.wrap("read", s.ref, err)
	}
	i := slices.IndexFunc(all, func(a ArchiveInfo) bool { return a.Name == name })
	if i < 0 {
		return h, s.store.wrap("read", s.ref, fmt.Errorf("there is no archive %q: use a name that Archives gives: %w", name, fs.ErrNotExist))
	}
	runs := all[i].Runs
	if len(runs) == 0 {
		runs = []transcript.Run{{First: all[i].First, Last: all[i].Last}}
	}
	if runs[0].First == "" { // another program has archived nothing, or it was lost before the import
		return h, nil
	}
	scan := s.store.scan(ctx, s.ref)
	from, err := s.startOf(ctx, runs[0].First)
	if err == nil {
		h, err = historyOf(until(scan, places[i]), from, runs, func(key string) (bool, error) { return hasKey(scan, places[i], key) })
	}
	if err != nil {
		return h, s.store.wrap("read", s.ref, err)
	}
	return h, s.FilterModel(ctx, &h)
}

// startOf returns the place of the batch of an entry.
func (s *Session) startOf(ctx context.Context, id string) (driver.Cursor, error) {
	rec, err := s.find(ctx, id)
	if err != nil || rec.Entry.Part <= 1 {
		return driver.Cursor(rec.Offset), err
	}
	p, err := locate(s.store.scan(ctx, s.ref), id)
	return p.start, err
}

// hasKey reports whether an append under an idempotency key begins behind a place.
func hasKey(scan scan, from driver.Cursor, key string) (bool, error) {
	for rec, err := range scan(from, driver.Forward) {
		if err != nil {
			return false, err
		}
		if rec.HasEntry() && rec.Entry.Idem == key {
			return true, nil
		}
	}
	return false, nil
}

// Live returns the messages that are in no archive, those of a turn that is going
// on included, as if nothing had been compacted or clipped. Right after a commit
// only such a turn is there.
func (s *Session) Live(ctx context.Context) (h rebuild.History, err error) {
	var last rebuild.Commit
	var end driver.Cursor
	err = s.View(ctx, func(v *View) error {
		last, end = v.Fold().Standing().Commit, driver.Cursor(v.End())
		return nil
	})
	if err != nil {
		return h, err
	}
	scan := until(s.store.scan(ctx, s.ref), end)
	u, err := findUnfiled(scan, last, "")
	if err == nil {
		h, err = historyOf(scan, u.from, u.live, nil)
	}
	if err != nil {
		return h, s.store.wrap("read", s.ref, err)
	}
	return h, s.FilterModel(ctx, &h)
}

// Summary returns the summary that the history begins with. If it begins with none
// it is the overview of the last commit, and empty if there was none.
func (s *Session) Summary(ctx context.Context) (string, error) {
	var last rebuild.Commit
	var of *transcript.Compaction
	err := s.View(ctx, func(v *View) error {
		of, last = v.Fold().History().Compaction, v.Fold().Standing().Commit
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case of != nil:
		return of.Summary, nil
	case last.Entry == "":
		return "", nil
	}
	rec, err := s.find(ctx, last.Entry)
	if err != nil && !errors.Is(err, ErrNoEntry) { // else it is damaged
		return "", s.store.wrap("read", s.ref, err)
	}
	c, _ := rec.Entry.Body.(transcript.Commit)
	return c.Overview, nil
}
