// Package inspect describes transcripts: their program, content and damage, and the repairs
// of the model request. It reads the native format and every dialect of package
// transcript/dialect, and changes no file.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/examples/convolog/internal/screen"
	"github.com/convolog/convolog/transcript/dialect"
)

// Run describes all files and folders, even after an unreadable one. For a folder it shows
// all sessions in and below it, with their rows in the program's index. With asJSON it
// writes one line of JSON for each session.
func Run(out io.Writer, asJSON bool, names []string) error {
	return Each(names, func(name string, folder *dialect.Folder) error {
		if asJSON {
			return nil
		}
		return printFolder(out, name, folder)
	}, func(f *Finding) error {
		if asJSON {
			line, err := json.Marshal(f)
			if err == nil {
				_, err = fmt.Fprintln(out, screen.JSON(string(line)))
			}
			return err
		}
		return f.print(out)
	})
}

// Each calls inFolder with every folder in names, and show with a finding for every session.
// If either returns an error, Each returns that error at once. Otherwise its error names
// the unreadable files and folders.
func Each(names []string, inFolder func(string, *dialect.Folder) error, show func(*Finding) error) error {
	var errs []error
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case info.IsDir():
			folder, err := dialect.ReadFolder(convert.Files(name))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			if folder == nil {
				continue
			}
			if err := inFolder(name, folder); err != nil {
				return err
			}
			for s := range convert.Sessions(name, folder, "") {
				if err := show(inspectSession(name, s)); err != nil {
					return err
				}
			}
		default:
			found, err := inFile(name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			for _, f := range found {
				if err := show(f); err != nil {
					return err
				}
			}
		}
	}
	return errors.Join(errs...)
}

// inFile describes a transcript, or each session of a document or a compressed file.
func inFile(name string) ([]*Finding, error) {
	var found []*Finding
	if ext := filepath.Ext(name); ext == ".json" || ext == ".zst" {
		sessions, err := convert.Find(name, "")
		if err == nil {
			for s := range sessions {
				found = append(found, inspectSession(filepath.Dir(name), s))
			}
			return found, nil
		}
	}
	f, err := inspect(name)
	return append(found, f), err
}
