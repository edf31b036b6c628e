// Tokenizer counts texts and conversations with the real vocabulary of a model,
// o200k, and prints the error of package tokens's estimate:
//
//	cd examples/tokenizer && go run . FILE...
//
// It counts a transcript as the prompt that it makes, any other file as a text;
// without a file it reads a text from the standard input. The vocabulary is
// part of the program, which needs no network.
//
// counter.go is the part to copy: a Counter for session.Options, guard.Guard
// and compact.Options.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
	"github.com/convolog/convolog/transcript/tokens"
)

func main() {
	flag.Parse()
	if err := run(flag.Args(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tokenizer:", err)
		os.Exit(1)
	}
}

func run(files []string, in io.Reader, out io.Writer) error {
	counter, err := newExact()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return report(out, "-", counter, text)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err == nil {
			err = report(out, name, counter, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// report prints a line for one text or transcript.
func report(out io.Writer, name string, counter *exact, data []byte) error {
	var est tokens.Estimator
	estimate, count := est.Text(string(data)), 0
	kind, sure, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
	if err == nil && sure {
		h, err := history(data, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		estimate, count = est.Count(h.SystemPrompt(""), nil, h.Messages), counter.Count(h.SystemPrompt(""), nil, h.Messages)
	} else {
		count = counter.text(string(data))
	}
	_, err = fmt.Fprintf(out, "%s: %d tokens, estimated %d (%+.1f %%)\n", name, count, estimate, 100*(float64(estimate)/float64(max(count, 1))-1))
	return err
}

// history folds a transcript into the conversation that would go to a model.
func history(data []byte, kind dialect.Dialect) (rebuild.History, error) {
	opts, err := kind.ScanOptions()
	if err != nil {
		return rebuild.History{}, err
	}
	opts.Final = true
	fold := rebuild.New(nil)
	var batcher transcript.Batcher
	for rec, err := range transcript.Scan(bytes.NewReader(data), int64(len(data)), opts) {
		if err != nil {
			return rebuild.History{}, err
		}
		for _, b := range batcher.Take(rec) {
			if err := fold.Add(b); err != nil {
				return rebuild.History{}, err
			}
		}
	}
	for _, b := range batcher.Break() {
		if err := fold.Add(b); err != nil {
			return rebuild.History{}, err
		}
	}
	return fold.History(), nil
}
