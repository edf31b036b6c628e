// Package convert writes sessions in the form of another program. FROM is a transcript,
// or a folder to search for sessions. They are in the native format, in a dialect that
// package transcript/dialect reads, or in a JSON file with the array of a provider, whose
// form the content shows. The format to write is one of:
//
//	native      a store of Convolog; a second run adds only new records, and the
//	            original lines are kept
//	mini-claw, claw0, zyhive, openviking, pi, claude-code, codex
//	            the files of these programs
//	jsonl       a transcript of Convolog for each session, without a store
//	markdown, html
//	            a document for people for each session
//	anthropic, openai-chat, openai-responses, gemini, bedrock
//	            a model request for each session
//
// A job makes the folder to write to if it is missing. It never overwrites a file in this
// folder, and never changes a file in FROM. It removes a document that it could not write
// completely. The files of another program are written if all their names are free, the
// index among them; if one cannot be written, the job removes all that it made. A dry run
// writes no file.
//
// The output is the conversation that a model would see without compactions: repaired,
// and without rewound entries. Compactions are written if the format has them. The report
// counts the parts that the format cannot hold.
package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
)

// A Job is a conversion that a command line describes.
type Job struct {
	Import exchange.ImportOptions // without DryRun and Done
	From   string                 // the form of arrays; empty: what their content shows
	// Open opens the store in a folder; nil means [session.Open].
	Open func(dir string, readOnly bool) (*session.Store, error)

	from  []string
	to    string
	dir   string
	model string // the model in requests
	dry   bool
}

// New returns a job. The last of names is the folder to write to, and the others are files
// and folders to read. It fails if a name is missing or empty, or if the format is unknown.
func New(names []string, to, model string, dry bool) (Job, error) {
	j, rest := Job{to: to, model: model, dry: dry}, names
	switch {
	case j.to == "":
		return j, fmt.Errorf("no --to: choose the format to write, one of %s", strings.Join(formats(), ", "))
	case !slices.Contains(formats(), j.to):
		return j, fmt.Errorf("there is no format %q, only %s", j.to, strings.Join(formats(), ", "))
	case slices.Contains(rest, ""):
		return j, errors.New("an empty name among FROM and DIR: is a variable not set?")
	case len(rest) == 0:
		return j, errors.New("no FROM and no DIR: name the files to read, and then the folder to write to")
	case len(rest) == 1:
		return j, fmt.Errorf("only one of FROM and DIR: %q is taken for DIR, put FROM before it", rest[0])
	}
	j.from, j.dir = rest[:len(rest)-1], rest[len(rest)-1]
	return j, nil
}

// Run converts all sessions and prints a line about each, and the sums at the end. It
// continues after a session that it cannot convert.
func (j Job) Run(ctx context.Context, out io.Writer) (*Summary, error) {
	if j.isProgram() && !j.dry {
		rehearsal := j
		rehearsal.dry = true
		if sum, err := rehearsal.run(ctx, io.Discard); errors.Is(err, fs.ErrExist) {
			failed := NewSummary(false)
			failed.Failed = len(sum.Sessions)
			return failed, err
		}
	}
	return j.run(ctx, out)
}

func (j Job) run(ctx context.Context, out io.Writer) (*Summary, error) {
	sum := NewSummary(j.dry)
	if err := j.check(); err != nil {
		return sum, err
	}
	w, err := j.target()
	if err != nil {
		return sum, err
	}
	return sum, sum.Take(ctx, out, j.from, j.From, j.dir, w)
}

func (j Job) check() error {
	info, err := os.Stat(j.dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a folder: the last name must be the folder to write to", j.dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	dir, err := resolved(j.dir)
	if err != nil {
		return err
	}
	for _, name := range j.from {
		from, err := resolved(name)
		if err != nil {
			return err
		}
		info, err := os.Stat(from)
		if err != nil {
			return fmt.Errorf("cannot read FROM: %w", err)
		}
		rel, relErr := filepath.Rel(from, dir)
		if info.IsDir() && relErr == nil && (rel == "." || filepath.IsLocal(rel)) {
			return fmt.Errorf("%s is in %s, which is read: choose another folder to write to", j.dir, name)
		}
	}
	return nil
}

// resolved returns the absolute path of a file. It resolves symbolic links in the existing
// part of the path.
func resolved(name string) (string, error) {
	full, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := full; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest), nil
		}
		if dir == filepath.Dir(dir) {
			return full, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
