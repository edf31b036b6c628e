package search

import (
	"context"
	"slices"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// calls are the tool calls of a session by ID. An ID may repeat; the last call
// comes first.
type calls map[string][]call

// call is a tool call at its place.
type call struct {
	at   int64
	name string
}

// tool returns the name of the tool that the result at an offset belongs to. The call
// is the last one with the ID, before the result or in its line.
func (c calls) tool(id string, at int64) string {
	for _, call := range c[id] {
		if call.at <= at {
			return call.name
		}
	}
	return ""
}

// calling matches lines with a call.
var calling = words.NewLiterals(`"tool_use"`)

func readCalls(ctx context.Context, s *source) (calls, error) {
	all := calls{}
	for rec, err := range s.scan(ctx, session.ScanOptions{Keep: calling.In}) {
		if err != nil {
			return nil, err
		}
		f, _ := rec.Entry.Body.(transcript.MessageLine)
		for _, b := range f.Content {
			if c, ok := b.(transcript.ToolCallBlock); ok {
				all[c.ID] = append(all[c.ID], call{rec.Offset, c.Name})
			}
		}
	}
	return all, nil
}

// compacting matches lines with a compaction.
var compacting = words.NewLiterals(`"compaction"`)

// readAbsent returns the IDs of entries that compactions carry items of, but
// that do not precede them.
func readAbsent(ctx context.Context, s *source) (map[string]bool, error) {
	absent := map[string]bool{}
	keep := func(lines []byte) bool { return len(absent) > 0 || compacting.In(lines) }
	for rec, err := range s.scan(ctx, session.ScanOptions{Keep: keep}) {
		if err != nil {
			return nil, err
		}
		delete(absent, rec.Entry.ID)
		if c, ok := rec.Entry.Body.(transcript.Compaction); ok {
			for _, i := range carriedItems(c) {
				absent[i.Entry] = true
			}
		}
		delete(absent, "")
	}
	return absent, nil
}

func carriedItems(c transcript.Compaction) []transcript.Carried {
	return slices.Concat(c.Said, c.Rules, c.Errors, c.Files, c.IDs)
}
