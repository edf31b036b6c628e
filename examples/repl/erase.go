package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// eraseWords shows which places in all sessions contain the words; without words it erases
// the last shown places.
func eraseWords(ctx context.Context, r *repl, words string) error {
	switch {
	case words != "":
		return r.planErase(ctx, words)
	case r.erasure == nil:
		r.out.say("Usage: /erase <words>: show what contains them, in all sessions; then /erase erases it")
		return nil
	}
	report, err := erase.Run(ctx, r.store, *r.erasure)
	if err != nil {
		return err
	}
	r.erasure = nil
	r.out.say("Erased: %s.", counted(report.Places))
	for _, beyond := range report.Beyond {
		r.out.say("Out of reach: %s", beyond)
	}
	r.session, err = r.store.Get(ctx, r.session.Ref())
	return err
}

func (r *repl) planErase(ctx context.Context, words string) error {
	lower := strings.ToLower(words)
	plan, err := erase.Preview(ctx, r.store, erase.Erasure{Match: func(e transcript.Entry) bool {
		return strings.Contains(strings.ToLower(said(e)), lower)
	}})
	if err != nil {
		return err
	}
	if len(plan.Places) == 0 {
		r.out.say("Nothing contains these words.")
		return nil
	}
	r.erasure = &plan
	r.out.say("In %d session(s): %s. /erase erases it, for good.", len(plan.Entries), counted(plan.Places))
	return nil
}

func counted(places []transcript.Place) string {
	n := map[string]int{}
	for _, p := range places {
		n[p.Kind]++
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		list = append(list, fmt.Sprintf("%d %s", n[kind], strings.ReplaceAll(kind, "_", " ")))
	}
	return strings.Join(list, ", ")
}

// said returns the texts of an entry, without the names of its members.
func said(e transcript.Entry) string {
	f, ok := e.Body.(transcript.MessageLine)
	if !ok {
		return string(e.Line())
	}
	texts := []string{f.Message().Text()}
	for _, b := range f.Content {
		switch b := b.(type) {
		case transcript.ToolCallBlock:
			texts = append(texts, string(b.Input))
		case transcript.ToolResultBlock:
			texts = append(texts, b.Text())
		case transcript.ThinkingBlock:
			texts = append(texts, b.Thinking)
		}
	}
	return strings.Join(texts, "\n")
}
