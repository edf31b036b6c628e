// Inspect says what is in transcripts: which program wrote them, what they
// hold, what is damaged, and what a model would be shown.
//
//	go run ./examples/inspect FILE|FOLDER...
//
// It reads the native format and every dialect of package transcript/dialect,
// and changes nothing. Of a folder it shows the sessions that are found there
// or below, with what the program's index says about them. With -json it
// prints one JSON object a session.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/convolog/convolog/transcript/dialect"
)

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object a session")
	flag.Usage = func() {
		_, _ = fmt.Fprintf(flag.CommandLine.Output(), "Usage: inspect [-json] FILE|FOLDER...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, *asJSON, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "inspect:", printable(err.Error(), "\n"))
		os.Exit(1)
	}
}

// run inspects all files and folders, also after one that cannot be read.
func run(out io.Writer, asJSON bool, names []string) error {
	var errs []error
	show := func(f *finding) error {
		if asJSON {
			return json.NewEncoder(out).Encode(f)
		}
		return f.print(out)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case info.IsDir():
			folder, err := dialect.ReadFolder(os.DirFS(name))
			if err != nil {
				errs = append(errs, err)
			}
			if !asJSON {
				if err := printFolder(out, name, folder); err != nil {
					return err
				}
			}
			for s := range folder.Sessions() {
				if err := show(inspectSession(name, s)); err != nil {
					return err
				}
			}
		default:
			f, err := inspect(name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if err := show(f); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}
