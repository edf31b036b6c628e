package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/examples/convolog/internal/screen"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

// A Result is the outcome for one session: of an import, or of a file that was written.
type Result struct {
	Dialect  dialect.Dialect `json:"dialect,omitempty"`
	Source   string          `json:"source,omitempty"` // its ID there, or its path
	Messages int             `json:"messages"`
	Session  session.Ref     `json:"session,omitzero"`
	Key      string          `json:"key,omitempty"`
	File     string          `json:"file,omitempty"` // a document for the session
	Created  bool            `json:"created,omitempty"`
	Records  int             `json:"records,omitempty"`
	Appended int             `json:"appended,omitempty"`
	Trashed  bool            `json:"trashed,omitempty"` // the session is in the trash of the store
	Lost     dialect.Losses  `json:"lost,omitempty"`
	Aside    map[string]int  `json:"aside,omitempty"` // records that no model is shown, by name
	Failed   *Failure        `json:"failed,omitempty"`
	err      error           // of Failed
}

func (r *Result) fail(err error) { r.Failed, r.err = &Failure{err.Error()}, err }

// A Failure is the reason why a session was not written, or not completely.
type Failure struct {
	Title string `json:"title"`
}

// Of describes the source of a session.
func Of(s dialect.Session) Result {
	return Result{Dialect: s.Dialect, Source: cmp.Or(s.ID, s.Path), Messages: s.Messages}
}

// imported returns the result of an import.
func imported(im exchange.Imported) Result {
	r := Of(im.Source)
	r.Session, r.Key, r.Created, r.Records, r.Appended, r.Trashed = im.Session, im.Key.String(), im.Created, im.Records, im.Appended, im.Trashed
	r.Lost, r.Aside = im.Lost, im.Source.Asides
	if im.Err != nil {
		r.fail(im.Err)
	}
	return r
}

func (r Result) String() string {
	line := fmt.Sprintf("%s %s, %d messages", r.Dialect, r.Source, r.Messages)
	switch {
	case r.Failed != nil:
		return line + ": " + r.Failed.Title
	case r.Session.ID != "":
		line += fmt.Sprintf(": session %s of agent %s, %d of %d records are new", r.Session.ID, r.Session.Agent, r.Appended, r.Records)
	case r.File != "":
		line += ": " + r.File
	}
	if r.Dialect == dialect.Native && r.Session.ID != "" && r.Records == 0 {
		line += ", it is in the store: convolog merge adds the entries that it lacks"
	}
	if r.Trashed {
		line += ", in the trash: convolog session restore " + r.Session.ID + " brings it back"
	}
	return line + counts(", without %d %s", r.Lost) + counts(", set aside %d %s", r.Aside)
}

// counts formats numbers in the order of their names.
func counts(format string, of map[string]int) string {
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&sb, format, of[name], name)
	}
	return sb.String()
}

// A Summary is the result of an import or a conversion.
type Summary struct {
	DryRun   bool           `json:"dryRun,omitempty"`
	Sessions []Result       `json:"sessions"`
	Failed   int            `json:"failed"`
	Lost     dialect.Losses `json:"lost,omitempty"`  // of all sessions
	Aside    map[string]int `json:"aside,omitempty"` // of all sessions
}

// NewSummary returns an empty summary.
func NewSummary(dry bool) *Summary {
	return &Summary{DryRun: dry, Sessions: []Result{}, Lost: dialect.Losses{}, Aside: map[string]int{}}
}

// Add adds a result, and prints a line about it unless it has failed.
func (s *Summary) Add(out io.Writer, r Result) error {
	s.Sessions = append(s.Sessions, r)
	for name, n := range r.Lost {
		s.Lost[name] += n
	}
	for name, n := range r.Aside {
		s.Aside[name] += n
	}
	if r.Failed != nil { // the error of the command names it
		s.Failed++
		return nil
	}
	_, err := fmt.Fprintln(out, screen.Printable(r.String(), ""))
	return err
}

// Take finds the sessions of names in a format, writes them to a target and closes it. It
// prints a line about each session, and the sums at the end, which name the target. It
// continues after a session that the target does not take.
func (s *Summary) Take(ctx context.Context, out io.Writer, names []string, from, to string, w Target) error {
	var errs []error
	var stop error
	distinct := Names{}
	for _, name := range names {
		sessions, unread := Find(name, from)
		failed := w.Write(ctx, name, distinct.Distinct(sessions), func(r Result) error {
			if r.Failed != nil {
				errs = append(errs, fmt.Errorf("%s: session %s: %w", name, cmp.Or(r.Session.ID, r.Source), cmp.Or(r.err, errors.New(r.Failed.Title))))
			}
			stop = cmp.Or(ctx.Err(), s.Add(out, r))
			return stop
		})
		errs = append(errs, unread, failed)
		if stop != nil {
			return errors.Join(append(errs, stop, s.close(w))...)
		}
	}
	errs = append(errs, s.close(w))
	if len(s.Sessions) == 0 && errors.Join(errs...) == nil {
		errs = append(errs, errors.New("the files contain no session: convolog inspect describes them"))
	}
	return errors.Join(append(errs, s.End(out, to))...)
}

// close closes a target. A program whose files cannot be written keeps none.
func (s *Summary) close(w Target) error {
	err := w.Close()
	if _, ok := w.(*program); ok && err != nil {
		s.fail(err)
	}
	return err
}

// fail notes that no session was written.
func (s *Summary) fail(err error) {
	for i := range s.Sessions {
		s.Sessions[i].Failed = cmp.Or(s.Sessions[i].Failed, &Failure{err.Error()})
	}
	s.Failed, s.Lost, s.Aside = len(s.Sessions), dialect.Losses{}, map[string]int{}
}

// End prints the sums after the last result: the losses by kind and number, in a dry run
// before anything is written.
func (s *Summary) End(out io.Writer, to string) error {
	if len(s.Sessions) == 0 {
		return nil
	}
	written, lost, aside := "written", "Lost", "Set aside for no model"
	if s.DryRun {
		written, lost, aside = "would be written", "Would be lost", "Would be set aside for no model"
	}
	list := func(of map[string]int) string {
		return cmp.Or(strings.TrimPrefix(counts(", %d %s", of), ", "), "nothing")
	}
	text := fmt.Sprintf("%d sessions %s to %s, %d failed\n", len(s.Sessions)-s.Failed, written, to, s.Failed)
	if len(s.Sessions) > s.Failed {
		text += fmt.Sprintf("%s: %s.\n", lost, list(s.Lost))
	}
	if len(s.Aside) > 0 {
		text += fmt.Sprintf("%s: %s.\n", aside, list(s.Aside))
	}
	_, err := io.WriteString(out, screen.Printable(text, "\n"))
	return err
}
