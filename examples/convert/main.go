// Convert writes sessions in the form of another program.
//
//	go run ./examples/convert FROM... -to FORMAT DIR
//
// FROM is a transcript, or a folder in which sessions are looked for, in the
// native format or any dialect that package transcript/dialect reads. FORMAT
// is mini-claw, claw0, zyhive or openviking. DIR is made if it is not there;
// no file in it is ever overwritten, and nothing in FROM is changed.
//
// What is written is the conversation as a model would be shown it without
// compactions: repaired, rewound, in valid order. Compactions are written
// where the format has them. What it has no place for is counted.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript/dialect"
)

const usage = "Usage: convert FROM... -to FORMAT DIR\n"

func main() {
	to, dir, from, err := arguments(os.Args[1:])
	if err != nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(os.Stdout, to, dir, from); err != nil {
		fmt.Fprintln(os.Stderr, "convert:", err)
		os.Exit(1)
	}
}

// arguments reads FROM... -to FORMAT DIR, with the flag anywhere.
func arguments(args []string) (to dialect.Dialect, dir string, from []string, err error) {
	var rest []string
	for len(args) > 0 {
		flags := flag.NewFlagSet("convert", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		name := flags.String("to", string(to), "the format to write")
		if err := flags.Parse(args); err != nil {
			return "", "", nil, err
		}
		to = dialect.Dialect(*name)
		if args = flags.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	if to == "" || len(rest) < 2 {
		return "", "", nil, errors.New("too few arguments")
	}
	return to, rest[len(rest)-1], rest[:len(rest)-1], nil
}

// run converts all it can, also after a session that it cannot.
func run(out io.Writer, to dialect.Dialect, dir string, from []string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	w, err := dialect.NewWriter(to, func(name string) (io.WriteCloser, error) {
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return nil, err
		}
		return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if err != nil {
		return err
	}
	var errs []error
	written := 0
	for _, name := range from {
		sessions, err := find(name)
		if err != nil {
			errs = append(errs, err)
		}
		for _, s := range sessions {
			line, err := convert(w, s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", name, cmp.Or(s.Path, s.ID), err))
				continue
			}
			written++
			if _, err := fmt.Fprint(out, line); err != nil {
				return err
			}
		}
	}
	if written == 0 {
		errs = append(errs, errors.New("no session was written"))
	}
	return errors.Join(append(errs, w.Close())...)
}

// find returns the sessions of a folder, or the one in a file.
func find(name string) ([]dialect.Session, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	root := name
	if !info.IsDir() {
		root = filepath.Dir(name)
	}
	folder, err := dialect.ReadFolder(os.DirFS(root))
	if folder == nil {
		return nil, err
	}
	sessions := slices.Collect(folder.Sessions())
	if info.IsDir() {
		return sessions, err
	}
	i := slices.IndexFunc(sessions, func(s dialect.Session) bool {
		return s.Path == filepath.Base(name) || s.Dialect == dialect.OpenViking && s.Path == "."
	})
	if i < 0 {
		return nil, fmt.Errorf("%s: no transcript of a known dialect", name)
	}
	return sessions[i : i+1], nil
}

// convert writes a session and returns a line about it.
func convert(w *dialect.Writer, s dialect.Session) (string, error) {
	entries, lost, err := conversation(s)
	if err != nil {
		return "", err
	}
	losses, err := w.Write(s, entries)
	if err != nil {
		return "", err
	}
	for name, n := range losses {
		lost[name] += n
	}
	line := []string{fmt.Sprintf("%s %s: %d messages", s.Dialect, s.ID, s.Messages)}
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		line = append(line, fmt.Sprintf("without %d %s", lost[name], name))
	}
	return strings.Join(line, ", ") + "\n", nil
}
