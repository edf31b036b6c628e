package inspect

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/examples/convolog/internal/screen"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
	"github.com/convolog/convolog/transcript/tokens"
)

// A Finding describes one transcript.
type Finding struct {
	File     string              `json:"file"`
	Bytes    int64               `json:"bytes"`
	Dialect  dialect.Dialect     `json:"dialect"` // empty if unknown
	Sure     bool                `json:"sure"`
	Session  string              `json:"session,omitempty"`
	Key      string              `json:"key,omitempty"`
	Title    string              `json:"title,omitempty"`
	Labels   []string            `json:"labels,omitempty"`
	Archives []string            `json:"archives,omitempty"`
	Entries  map[string]int      `json:"entries"`          // by type
	Asides   map[string]int      `json:"asides,omitempty"` // custom entries by name; no model sees them
	Messages int                 `json:"messages"`
	Turns    int                 `json:"turns"`
	Tokens   int                 `json:"tokens"`
	Damage   []transcript.Damage `json:"damage"`
	Repairs  rebuild.Report      `json:"repairs"`
	Owed     bool                `json:"owed"` // the model owes an answer
	Cut      bool                `json:"cut"`  // the last answer was cut
	User     string              `json:"user,omitempty"`
	Calls    []string            `json:"calls"`           // calls without a result, as "name id"
	Error    string              `json:"error,omitempty"` // the error that ended the history
}

func newFinding(name string) *Finding {
	return &Finding{
		File: name, Entries: map[string]int{}, Asides: map[string]int{},
		Damage: []transcript.Damage{}, Repairs: rebuild.Report{}, Calls: []string{},
	}
}

func inspect(name string) (_ *Finding, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a FIFO would make open wait
		return nil, fmt.Errorf("%s is not a regular file: name the .jsonl files themselves", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()

	f := newFinding(name)
	f.Bytes = info.Size()
	if f.Dialect, f.Sure, err = dialect.Detect(file, f.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	records := cmp.Or(f.Dialect, dialect.Native).Scan(file, f.Bytes, &transcript.ScanOptions{Final: true})
	if err := f.read(records); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func inspectSession(folder string, s dialect.Session) *Finding {
	f := newFinding(filepath.Join(folder, filepath.FromSlash(s.Path)))
	if info, err := os.Stat(f.File); err == nil && info.Mode().IsRegular() {
		f.Bytes = info.Size()
	}
	f.Dialect, f.Sure, f.Session, f.Key = s.Dialect, s.Sure, cmp.Or(s.ID, filepath.Base(f.File)), s.Key
	f.Title, f.Labels, f.Archives = s.Title, s.Labels, s.Archives
	if err := f.read(s.Records()); err != nil {
		f.Error = err.Error()
	}
	return f
}

func (f *Finding) read(records iter.Seq2[transcript.Record, error]) error {
	fold := rebuild.New(nil)
	var batcher transcript.Batcher
	for rec, err := range records {
		if err != nil {
			return err
		}
		f.add(fold, f.take(&batcher, rec))
	}
	f.add(fold, batcher.Break())
	h := fold.History()
	f.Messages, f.Turns = len(h.Messages), fold.Turns()
	f.Tokens = tokens.Estimator{}.Count(h.SystemPrompt(""), nil, h.Messages)
	f.Repairs = append(f.Repairs, fold.Report()...)
	p := fold.Pending()
	f.Owed, f.Cut, f.User = p.Owed, p.Cut, p.User
	for _, c := range p.Calls {
		f.Calls = append(f.Calls, c.Call.Name+" "+c.Call.ID)
	}
	return nil
}

// add folds batches. It keeps the first error of the fold, and continues, so that later
// entries and damage are also counted.
func (f *Finding) add(fold *rebuild.Fold, batches []transcript.Batch) {
	for _, b := range batches {
		if err := fold.Add(b); err != nil && f.Error == "" {
			f.Error = err.Error()
		}
	}
}

func (f *Finding) take(batcher *transcript.Batcher, rec transcript.Record) []transcript.Batch {
	if rec.Damage != nil {
		f.Damage = append(f.Damage, *rec.Damage)
	}
	if !rec.HasEntry() {
		return batcher.Break()
	}
	f.Entries[rec.Entry.Type()]++
	switch b := rec.Entry.Body.(type) {
	case transcript.Header:
		if f.Session == "" {
			f.Session, f.Key = rec.Entry.ID, b.Key
		}
	case transcript.Meta:
		if b.Title != nil {
			f.Title = *b.Title
		}
	case transcript.Custom:
		f.Asides[b.Name]++
	}
	return batcher.Add(rec.Entry)
}

func (f *Finding) print(out io.Writer) error {
	var err error
	line := func(name, format string, args ...any) {
		if err == nil {
			text := screen.Printable(fmt.Sprintf(format, args...), "")
			_, err = fmt.Fprintf(out, "  %-9s %s\n", name, text)
		}
	}
	if _, err := fmt.Fprintf(out, "%s (%d bytes)\n", screen.Printable(f.File, ""), f.Bytes); err != nil {
		return err
	}
	switch {
	case f.Dialect == "":
		line("dialect", "none that is known")
	case f.Sure:
		line("dialect", "%s", f.Dialect)
	default:
		line("dialect", "%s, or one like it", f.Dialect)
	}
	if f.Session != "" {
		line("session", "%s  key %s", f.Session, cmp.Or(f.Key, "(none)"))
	}
	if f.Title != "" {
		line("title", "%s", f.Title)
	}
	if len(f.Labels) > 0 {
		line("labels", "%s", strings.Join(f.Labels, ", "))
	}
	for _, a := range f.Archives {
		line("archive", "%s", a)
	}
	total := 0
	for _, t := range slices.Sorted(maps.Keys(f.Entries)) {
		total += f.Entries[t]
	}
	line("entries", "%d", total)
	for _, t := range slices.Sorted(maps.Keys(f.Entries)) {
		line("", "%6d  %s", f.Entries[t], t)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Asides)) {
		line("", "%6d  of these custom: %s", f.Asides[name], name)
	}
	line("history", "%d messages, %d turns, ~%d tokens", f.Messages, f.Turns, f.Tokens)
	if f.Error != "" {
		line("error", "%s", f.Error)
	}
	if f.Owed || f.Cut {
		line("pending", "%d calls, text %q, answer cut: %v", len(f.Calls), f.User, f.Cut)
	}
	line("damage", "%d", len(f.Damage))
	for _, d := range f.Damage {
		line("", "%s", d)
	}
	line("repairs", "%d", len(f.Repairs))
	for _, r := range f.Repairs {
		line("", "%s", r)
	}
	return err
}

// printFolder prints the content of a folder other than sessions.
func printFolder(out io.Writer, name string, f *dialect.Folder) error {
	name = screen.Printable(name, "")
	_, err := fmt.Fprintf(out, "%s: %d other files, %d memories\n", name, len(f.Others), len(f.Memories))
	for _, i := range f.Indexes {
		switch {
		case err != nil:
			return err
		case i.Err != nil:
			_, err = fmt.Fprintf(out, "  index     %s: %s\n", screen.Printable(i.Path, ""), screen.Printable(i.Err.Error(), ""))
		default:
			_, err = fmt.Fprintf(out, "  index     %s: %s, %d sessions\n", screen.Printable(i.Path, ""), cmp.Or(i.Dialect, "unknown"), i.Sessions)
		}
	}
	return err
}
