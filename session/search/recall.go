package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// RecallTool is a tool that reads entries no longer in the model's history.
type RecallTool struct {
	transcript.Tool
	call func(ctx context.Context, input json.RawMessage) (string, error)
}

// Call runs the tool on the input of a call and returns the result, of at most
// about 8,000 bytes. An error is worded for the model: pass it to
// [transcript.ToolError].
func (t RecallTool) Call(ctx context.Context, input json.RawMessage) (string, error) {
	text, err := t.call(ctx, input)
	if own, ok := errors.AsType[*session.Error](err); ok {
		err = own.Err // the name of a file is useless to a model
	}
	return text, err
}

// recallMost limits the bytes of the result of a [RecallTool], without a line about the
// rest; recallShown limits the bytes of one entry in a search, and recallHead is reserved
// in a window for the head of each entry.
const (
	recallMost  = 8_000
	recallHead  = 150
	recallShown = 900
	recallHits  = 8
)

// RecallTools returns the tools for a model to search its conversation, to read
// around an entry, and to read the omitted part of a long result: recall_search,
// recall_window and recall_read. They read s and the others, which the schemas do
// not name and no input can change. Their definitions are the same for every
// session; with a nil s they are definitions only, and calls fail.
//
// Of s they show entries missing from its history because of a compaction or a
// clip. Entries that a rewind has taken back or that are hidden are left out, and so
// are the results of these tools.
//
// For clips and summaries to mention the tools, offer them in the Tools of a
// guard.Guard, and set Recall in [session.Options].Compact for the compactions that no
// guard asks for.
func RecallTools(s *session.Session, others ...*session.Session) []RecallTool {
	r := &recall{s: s, all: append([]*session.Session{s}, others...)}
	tool := func(name, about, properties, required string, call func(context.Context, json.RawMessage) (string, error)) RecallTool {
		schema := json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":["` + required + `"],"additionalProperties":false}`)
		if s == nil {
			call = func(context.Context, json.RawMessage) (string, error) {
				return "", errors.New("there is no conversation to read")
			}
		}
		return RecallTool{Tool: transcript.Tool{Name: name, Description: about, InputSchema: schema}, call: call}
	}
	return []RecallTool{
		tool(recalltool.Search,
			"Searches earlier parts of this conversation that are no longer shown, and returns the best excerpts with the IDs of their entries. "+
				"Use it before saying that something is not known: for a date, an amount, a name, a decision, who said what. "+
				"Give words that were probably used; further searches with other words find more.",
			`"query":{"type":"string","description":"Words. Double quotes around a phrase, * at the end of the beginning of a word."},`+
				`"role":{"type":"string","enum":["user","assistant","tool"],"description":"Only what the user said, the assistant said, or tools returned."},`+
				`"since":{"type":"string","description":"Only from this time on: 2026-11-20 or 2026-11-20T08:00:00Z."},`+
				`"until":{"type":"string","description":"Only before this time."},`+
				`"limit":{"type":"integer","description":"How many entries at most; 8 by default, 20 at most."}`,
			"query", r.search),
		tool(recalltool.Window,
			"Shows an entry of this conversation and the messages before and after it, oldest first.",
			`"entry":{"type":"string","description":"ID of the entry."},`+
				`"before":{"type":"integer","description":"How many messages before it; 3 by default."},`+
				`"after":{"type":"integer","description":"How many messages after it; 3 by default."}`,
			"entry", r.window),
		tool(recalltool.Read,
			"Reads a part of one entry of this conversation, a long tool result for example: from its beginning, from a line or an offset on, or the lines that match.",
			`"entry":{"type":"string","description":"ID of the entry."},`+
				`"from":{"type":"integer","description":"First line, from 1."},"to":{"type":"integer","description":"Last line."},`+
				`"offset":{"type":"integer","description":"Where to go on, in bytes."},`+
				`"match":{"type":"string","description":"Regular expression: only lines that match."},`+
				`"around":{"type":"integer","description":"Lines to show around each that matches."}`,
			"entry", r.read),
	}
}

// recall is what the tools of one model read.
type recall struct {
	s   *session.Session
	all []*session.Session
}

// decode reads the input of a call, strictly: a model learns from the error.
func decode(input json.RawMessage, args any) error {
	d := json.NewDecoder(bytes.NewReader(input))
	d.DisallowUnknownFields()
	if err := d.Decode(args); err != nil {
		return fmt.Errorf("the input does not fit the schema of the tool: %w", err)
	}
	return nil
}

func (r *recall) search(ctx context.Context, input json.RawMessage) (string, error) {
	var args struct {
		Query, Role, Since, Until string
		Limit                     int
	}
	if err := decode(input, &args); err != nil {
		return "", err
	}
	q := Query{Text: args.Query, Role: args.Role, Ranked: true, Limit: cmp.Or(min(max(args.Limit, 0), 20), recallHits)}
	if err := cmp.Or(parseTime(args.Since, &q.Since), parseTime(args.Until, &q.Until)); err != nil {
		return "", err
	}
	run, err := newSearch(q)
	if err != nil {
		return "", err
	}
	run.shown, run.said = recallShown, true
	run.only = func(h Hit) bool {
		return !h.Rewound && !h.Hidden && (h.Session != r.s.Ref() || h.Compacted || h.Clipped)
	}
	for _, s := range r.all {
		run.all = append(run.all, &source{ref: s.Ref(), s: s})
	}
	out := &recallText{}
	run.run(ctx, func(hit Hit, e error) bool {
		if err = e; err != nil {
			return false
		}
		return out.add(header(hit.Entry, hit.Time, hit.Role, hit.Tool), hit.Excerpt)
	})
	switch {
	case err != nil:
		return "", err
	case out.n == 0:
		return "Nothing that is no longer shown has any of these words. Try others.", nil
	}
	return out.String(), nil
}

func parseTime(text string, at *time.Time) (err error) {
	if text == "" {
		return nil
	}
	if *at, err = time.Parse(time.RFC3339, text); err != nil {
		*at, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		return fmt.Errorf("%q is not a time: write 2026-11-20 or 2026-11-20T08:00:00Z", text)
	}
	return nil
}

func header(entry string, at time.Time, role, tool string) string {
	if tool != "" {
		role += " " + tool
	}
	return fmt.Sprintf("[entry %s, %s, %s]", entry, at.UTC().Format("2006-01-02 15:04"), role)
}

// recallText is a result that is put together of entries.
type recallText struct {
	strings.Builder
	n int
}

// add adds an entry and reports whether there may be room for another one.
func (t *recallText) add(header, text string) bool {
	if room := recallMost - t.Len() - len(header) - 2; len(text) > room {
		if room < 200 {
			return false
		}
		text = text[:runeEnd(text, room)]
	}
	if t.n++; t.n > 1 {
		t.WriteByte('\n')
	}
	t.WriteString(header + "\n" + strings.TrimSpace(text) + "\n")
	return t.Len() < recallMost-200
}

func (r *recall) window(ctx context.Context, input json.RawMessage) (string, error) {
	args := struct {
		Entry         string
		Before, After int
	}{Before: 3, After: 3}
	if err := decode(input, &args); err != nil {
		return "", err
	}
	var entries []transcript.Entry
	err := r.find(ctx, args.Entry, func(s *session.Session) (err error) {
		entries, err = Window(ctx, s, args.Entry, min(max(args.Before, 0), 20), min(max(args.After, 0), 20))
		return err
	})
	if err != nil {
		return "", err
	}
	out := &recallText{}
	for _, e := range entries {
		for _, p := range passages(e) {
			most := recallMost/len(entries) - recallHead
			text := p.text
			if len(text) > most {
				text = text[:runeEnd(text, most)] + fmt.Sprintf("\n[%d of %d bytes; %s has the rest]", most, len(text), recalltool.Read)
			}
			if text != "" && p.role != roleSystem {
				out.add(header(e.ID, e.Time, p.role, p.tool), text)
			}
		}
	}
	return out.String(), nil
}

// find calls f for each session until one has the entry, not hidden.
func (r *recall) find(ctx context.Context, entry string, f func(s *session.Session) error) (err error) {
	for _, s := range r.all {
		var where map[string]rebuild.Where
		switch where, err = s.Where(ctx, entry); {
		case err != nil:
		case where[entry].Hidden:
			err = noEntry(s, entry)
		default:
			err = f(s)
		}
		if !errors.Is(err, session.ErrNoEntry) {
			return err
		}
	}
	return err
}

func (r *recall) read(ctx context.Context, input json.RawMessage) (string, error) {
	var args struct {
		Entry string
		Slice
	}
	if err := decode(input, &args); err != nil {
		return "", err
	}
	args.Max = recallMost
	var p Part
	err := r.find(ctx, args.Entry, func(s *session.Session) (err error) {
		p, err = Read(ctx, s, args.Entry, args.Slice)
		return err
	})
	if err != nil {
		return "", err
	}
	switch {
	case args.Match != "":
		return fmt.Sprintf("%s\n[%d of %d lines match]", p.Text, p.Matches, p.Lines), nil
	case p.Next > 0:
		return fmt.Sprintf("%s\n[up to byte %d of %d, %d lines in all; go on with offset %d]", p.Text, p.Next, p.Bytes, p.Lines, p.Next), nil
	}
	return p.Text, nil
}
