// Inspect says what is in transcripts: which program wrote them, what they
// hold, what is damaged, and what a model would be shown.
//
//	go run ./examples/inspect FILE...
//
// It reads the native format and those of mini-claw and claw0, and changes
// nothing. With -json it prints one JSON object a file.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
	"github.com/convolog/convolog/transcript/tokens"
)

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object a file")
	flag.Usage = func() {
		_, _ = fmt.Fprintf(flag.CommandLine.Output(), "Usage: inspect [-json] FILE...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, *asJSON, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "inspect:", err)
		os.Exit(1)
	}
}

// run inspects all files, also after one that cannot be read.
func run(out io.Writer, asJSON bool, files []string) error {
	var errs []error
	for _, file := range files {
		f, err := inspect(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if asJSON {
			err = json.NewEncoder(out).Encode(f)
		} else {
			err = f.print(out)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// finding is what is found in one file.
type finding struct {
	File     string              `json:"file"`
	Bytes    int64               `json:"bytes"`
	Dialect  dialect.Dialect     `json:"dialect"` // empty if it is none that is known
	Sure     bool                `json:"sure"`
	Session  string              `json:"session,omitempty"`
	Key      string              `json:"key,omitempty"`
	Entries  map[string]int      `json:"entries"` // by type
	Messages int                 `json:"messages"`
	Turns    int                 `json:"turns"`
	Tokens   int                 `json:"tokens"`
	Damage   []transcript.Damage `json:"damage"`
	Repairs  rebuild.Report      `json:"repairs"`
	Owed     bool                `json:"owed"` // the model owes an answer
	Cut      bool                `json:"cut"`  // the last answer was cut
	User     string              `json:"user,omitempty"`
	Calls    []string            `json:"calls"`           // without a result: "name id"
	Error    string              `json:"error,omitempty"` // why there is no more of a history
}

func inspect(name string) (_ *finding, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a FIFO would make open wait
		return nil, fmt.Errorf("%s: not a regular file: name the .jsonl files themselves", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()

	f := &finding{File: name, Bytes: info.Size(), Entries: map[string]int{}, Damage: []transcript.Damage{}, Repairs: rebuild.Report{}, Calls: []string{}}
	if f.Dialect, f.Sure, err = dialect.Detect(file, f.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	opts, err := cmp.Or(f.Dialect, dialect.Native).ScanOptions()
	if err != nil {
		return nil, err
	}
	opts.Final = true
	if err := f.read(file, opts); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// read scans and folds the file.
func (f *finding) read(r io.ReaderAt, opts *transcript.ScanOptions) error {
	fold := rebuild.New(nil)
	var batcher transcript.Batcher
	for rec, err := range transcript.Scan(r, f.Bytes, opts) {
		if err != nil {
			return err
		}
		f.add(fold, f.take(&batcher, rec))
	}
	f.add(fold, batcher.Break())
	h := fold.History()
	f.Messages, f.Turns = len(h.Messages), fold.Turns()
	f.Tokens = tokens.Estimator{}.Count(h.System, nil, h.Messages)
	f.Repairs = append(f.Repairs, fold.Report()...)
	p := fold.Pending()
	f.Owed, f.Cut, f.User = p.Owed, p.Cut, p.User
	for _, c := range p.Calls {
		f.Calls = append(f.Calls, c.Name+" "+c.ID)
	}
	return nil
}

// add folds batches up to the first that cannot be: the entries and the damage
// behind it are counted all the same.
func (f *finding) add(fold *rebuild.Fold, batches []transcript.Batch) {
	for _, b := range batches {
		if err := fold.Add(b); err != nil && f.Error == "" {
			f.Error = err.Error()
		}
	}
}

func (f *finding) take(batcher *transcript.Batcher, rec transcript.Record) []transcript.Batch {
	if rec.Damage != nil {
		f.Damage = append(f.Damage, *rec.Damage)
		return batcher.Break()
	}
	f.Entries[rec.Entry.Type()]++
	if h, ok := rec.Entry.Body.(transcript.Header); ok && f.Session == "" {
		f.Session, f.Key = rec.Entry.ID, h.Key
	}
	return batcher.Add(rec.Entry)
}

func (f *finding) print(out io.Writer) error {
	var err error
	line := func(name, format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, "  %-9s "+format+"\n", append([]any{name}, args...)...)
		}
	}
	if _, err := fmt.Fprintf(out, "%s (%d bytes)\n", f.File, f.Bytes); err != nil {
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
	total := 0
	for _, t := range slices.Sorted(maps.Keys(f.Entries)) {
		total += f.Entries[t]
	}
	line("entries", "%d", total)
	for _, t := range slices.Sorted(maps.Keys(f.Entries)) {
		line("", "%6d  %s", f.Entries[t], t)
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
