package memory

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Chapter is the part of a session that one [Commit] closed.
type Chapter struct {
	Name      string           `json:"name"`  // such as "chapter_001"
	Entry     string           `json:"entry"` // of the commit
	At        time.Time        `json:"at"`    // the time of the commit
	First     string           `json:"first,omitempty"`
	Last      string           `json:"last,omitempty"`
	Runs      []transcript.Run `json:"runs,omitempty"`     // its ranges of lines
	Messages  int              `json:"messages,omitempty"` // texts of the user and answers
	Abstract  string           `json:"abstract,omitempty"`
	Overview  string           `json:"overview,omitempty"`
	Extracted bool             `json:"extracted,omitempty"` // a [transcript.Extracted] names it without an error
}

func chapterName(n int) string { return fmt.Sprintf("chapter_%03d", n) }

// Chapters returns the chapters of the session, the oldest first. It reads the
// whole transcript, but decodes few of its lines.
func Chapters(ctx context.Context, s *session.Session) ([]Chapter, error) {
	all, _, err := chapters(ctx, s)
	return all, err
}

// chaptered are the types of lines about chapters.
var chaptered = words.NewLiterals(`"commit"`, `"extracted"`)

// chapters returns the chapters and the places of their commits.
func chapters(ctx context.Context, s *session.Session) (all []Chapter, places []int64, err error) {
	extracted := map[string]bool{} // by commit: the last extraction succeeded
	for r, err := range accounted(ctx, s, session.ScanOptions{}, chaptered) {
		if err != nil {
			return nil, nil, err
		}
		switch b := r.Entry.Body.(type) {
		case transcript.Extracted:
			if _, known := extracted[b.Commit]; !known {
				extracted[b.Commit] = b.Err == ""
			}
		case transcript.Commit:
			places = append(places, r.Offset)
			all = append(all, Chapter{
				Name: chapterName(b.N), Entry: r.Entry.ID, At: r.Entry.Time, First: b.FirstEntry, Last: b.LastEntry, Runs: b.Runs,
				Messages: b.Messages, Abstract: b.Abstract, Overview: b.Overview, Extracted: extracted[r.Entry.ID],
			})
		}
	}
	slices.Reverse(all)
	slices.Reverse(places)
	return all, places, nil
}

// ReadChapter returns the messages of a chapter, as if nothing had been compacted or
// clipped since. Calls come with their results. The rest of the transcript is
// skipped, not decoded. If no chapter has that name, the error matches
// fs.ErrNotExist.
func ReadChapter(ctx context.Context, s *session.Session, name string) (h rebuild.History, err error) {
	all, places, err := chapters(ctx, s)
	if err != nil {
		return h, err
	}
	i := slices.IndexFunc(all, func(c Chapter) bool { return c.Name == name })
	if i < 0 {
		return h, fmt.Errorf("memory: session %s/%s has no chapter %q: use a name from Chapters: %w", s.Ref().Agent, s.Ref().ID, name, fs.ErrNotExist)
	}
	runs := all[i].Runs
	if len(runs) == 0 {
		runs = []transcript.Run{{First: all[i].First, Last: all[i].Last}}
	}
	if runs[0].First == "" { // another program's archive, without messages or with lost ones
		return h, nil
	}
	first, err := find(ctx, s, runs[0].First)
	switch {
	case err != nil:
		return h, err
	case first.End == 0:
		return h, fmt.Errorf("memory: chapter %s of session %s/%s: entry %q: %w", name, s.Ref().Agent, s.Ref().ID, runs[0].First, session.ErrNoEntry)
	case first.Entry.Part > 1:
		first.Offset = 0 // its batch begins somewhere before
	}
	h, err = historyOf(ctx, s, upTo(ctx, s, places[i]), first.Offset, runs, func(key string) (bool, error) {
		for rec, err := range s.Scan(ctx, session.ScanOptions{From: places[i]}) {
			if err != nil || rec.HasEntry() && rec.Entry.Idem == key {
				return err == nil, err
			}
		}
		return false, nil
	})
	if err != nil {
		return h, err
	}
	return h, s.FilterModel(ctx, &h)
}

// find returns the record of an entry, the last one with the ID; for an empty ID the zero
// value.
func find(ctx context.Context, s *session.Session, id string) (transcript.Record, error) {
	if id != "" {
		for rec, err := range s.Scan(ctx, session.ScanOptions{Backward: true, ID: id}) {
			return rec, err
		}
	}
	return transcript.Record{}, nil
}

// Uncommitted returns the messages outside of chapters, including a running turn,
// without compactions and clips. Right after a commit that turn is all.
func Uncommitted(ctx context.Context, s *session.Session) (h rebuild.History, err error) {
	var end int64
	err = s.View(ctx, func(v *session.View) error {
		end = v.End()
		return nil
	})
	if err != nil {
		return h, err
	}
	l, err := readLedger(ctx, s, end)
	if err != nil {
		return h, err
	}
	read := upTo(ctx, s, end)
	u, err := findUnfiled(ctx, s, read, l.LastEntry, "")
	if err == nil {
		h, err = historyOf(ctx, s, read, u.from, u.live, nil)
	}
	if err != nil {
		return h, err
	}
	return h, s.FilterModel(ctx, &h)
}
