// Convert writes sessions in the form of another program.
//
//	go run ./examples/convert [-dry-run] FROM... -to FORMAT DIR
//
// FROM is a transcript, or a folder in which sessions are looked for, in the
// native format or any dialect that package transcript/dialect reads. FORMAT
// is one of:
//
//	native      a store of Convolog; what was imported earlier is brought up
//	            to date, nothing is doubled, and the original lines are kept
//	mini-claw, claw0, zyhive, openviking
//	            the files of these programs
//	jsonl       a transcript of Convolog each, without a store
//	markdown    a document for people each
//	anthropic, openai-chat, openai-responses, gemini, bedrock
//	            a request each, as a model would be sent
//
// DIR is made if it is not there. No file in it is ever overwritten, and
// nothing in FROM is changed. A document that cannot be written whole is removed
// again. With -dry-run nothing is written at all.
//
// What is written is the conversation as a model would be shown it without
// compactions: repaired, without what was rewound. Compactions are written
// where the format has them. What it has no place for is counted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

const usage = `Usage: convert [-dry-run] [-model NAME] FROM... -to FORMAT DIR

FROM is a transcript or a folder of some; FORMAT is one of
  `

func main() {
	job, err := arguments(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(os.Stderr, "convert: %s\n\n", printable(err.Error(), "\n"))
		}
		fmt.Fprintln(os.Stderr, usage+strings.Join(formats(), ", "))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err = job.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "convert:", printable(err.Error(), "\n"))
		os.Exit(1)
	}
}

// A job is what the command line asks for.
type job struct {
	from  []string
	to    string
	dir   string
	model string // in requests
	dry   bool
}

// arguments reads the command line, with flags anywhere.
func arguments(args []string) (job, error) {
	var j job
	var rest []string
	for len(args) > 0 {
		flags := flag.NewFlagSet("convert", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.StringVar(&j.to, "to", j.to, "the format to write")
		flags.StringVar(&j.model, "model", j.model, "the model in requests")
		flags.BoolVar(&j.dry, "dry-run", j.dry, "write nothing")
		if err := flags.Parse(args); err != nil {
			return j, err
		}
		if args = flags.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	switch {
	case j.to == "":
		return j, errors.New("no -to: say which format to write")
	case targets[j.to] == nil:
		return j, fmt.Errorf("there is no format %q", j.to)
	case slices.Contains(rest, ""):
		return j, errors.New("an empty name among FROM and DIR: is a variable not set?")
	case len(rest) == 0:
		return j, errors.New("no FROM and no DIR: name what to read, and last the folder to write to")
	case len(rest) == 1:
		return j, fmt.Errorf("only one of FROM and DIR: %q is taken for DIR, name what to read in front of it", rest[0])
	}
	j.from, j.dir = rest[:len(rest)-1], rest[len(rest)-1]
	return j, nil
}

// run converts all it can, also after a session that it cannot.
func (j job) run(ctx context.Context, out io.Writer) (err error) {
	if err := j.check(); err != nil {
		return err
	}
	w, err := targets[j.to](j)
	if err != nil {
		return err
	}
	written, failed := 0, 0
	var errs []error
	for _, name := range j.from {
		sessions, err := find(name)
		if err != nil {
			errs = append(errs, err)
		}
		for line, err := range w.write(ctx, sessions) {
			if ctx.Err() != nil {
				return errors.Join(append(errs, ctx.Err(), w.close())...)
			}
			if err != nil {
				failed++
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			written++
			if _, err := fmt.Fprintln(out, printable(line, "")); err != nil {
				return errors.Join(err, w.close())
			}
		}
	}
	errs = append(errs, w.close())
	done := "written to " + j.dir
	if j.dry {
		done = "would be written to " + j.dir
	}
	_, err = fmt.Fprintf(out, "%d sessions %s, %d failed\n", written, done, failed)
	if written+failed == 0 {
		errs = append(errs, errors.New("no session was found: go run ./examples/inspect FROM says what the files are"))
	}
	return errors.Join(append(errs, err)...)
}

// check says what is wrong with FROM and DIR.
func (j job) check() error {
	info, err := os.Stat(j.dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a folder: name one to write to, last of all", j.dir)
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

// resolved returns the absolute path of a file, without links in as much of it
// as is there.
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

// printable returns text, which may be from anywhere, without the characters
// that command a terminal, break lines or turn them around, but for those in
// keep.
func printable(text, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && !strings.ContainsRune(keep, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
