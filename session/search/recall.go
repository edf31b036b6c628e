package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// RecallTool is a tool that reads entries missing from the model's history.
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
// rest. A search shows recallHits entries if the model sets no limit.
const (
	recallMost   = 8_000
	recallHits   = 10
	mostSkipped  = 1_000
	mostInWindow = 44
)

// RecallTools returns the tools for a model to search its conversation, to read
// around an entry, and to read the omitted part of a long result: recall_search,
// recall_window and recall_read. They read s and the others; schemas do not name
// these, and no input can change them. Their definitions are the same for every
// session; with a nil s they are only definitions, and calls fail.
//
// Of s they show entries missing from its history because of a compaction or a clip.
// They omit rewound and hidden entries, and the results of these tools. All lines of
// entries are indented, so that no text can imitate another entry. A search shortens
// long entries around the match, so that all entries of a page have room.
//
// For clips and summaries to mention the tools, offer them in the Tools of a
// guard.Guard, and set Recall in [session.Options].Compact for compactions without
// a guard's request.
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
				"Give words that were probably used; further searches with other words find more. The text of an entry is indented by two spaces.",
			`"query":{"type":"string","maxLength":4096,"description":"Words. Double quotes around a phrase, * at the end of the beginning of a word."},`+
				`"role":{"type":"string","enum":["user","assistant","tool"],"description":"Only what the user said, the assistant said, or tools returned."},`+
				`"since":{"type":"string","description":"Only from this time on: 2026-11-20 or 2026-11-20T08:00:00Z."},`+
				`"until":{"type":"string","description":"Only before this time."},`+
				`"limit":{"type":"integer","description":"How many entries at most; 10 by default, 20 at most."},`+
				`"offset":{"type":"integer","description":"How many of the best entries to skip, to see the ones after them."}`,
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
				`"match":{"type":"string","maxLength":2048,"description":"Regular expression: only lines that match."},`+
				`"around":{"type":"integer","description":"Lines to show around each that matches."}`,
			"entry", r.read),
	}
}

// recall holds the sessions of one model's tools.
type recall struct {
	s   *session.Session
	all []*session.Session
}

// decode reads the input of a call strictly: a model learns from the error.
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
		Limit, Offset             int
	}
	if err := decode(input, &args); err != nil {
		return "", err
	}
	limit, skip := cmp.Or(min(max(args.Limit, 0), 20), recallHits), min(max(args.Offset, 0), mostSkipped)
	q := Query{Text: args.Query, Role: args.Role, Ranked: true, Limit: skip + limit + 1}
	if err := cmp.Or(parseTime(args.Since, &q.Since), parseTime(args.Until, &q.Until)); err != nil {
		return "", err
	}
	run, err := newSearch(q)
	if err != nil {
		return "", err
	}
	run.shown, run.said = recallMost+1, true // the excerpt is cut again
	run.only = func(h Hit) bool {
		return !h.Rewound && !h.Hidden && (h.Session != r.s.Ref() || h.Compacted || h.Clipped)
	}
	for _, s := range r.all {
		run.all = append(run.all, &source{ref: s.Ref(), s: s})
	}
	var list []recalled
	run.run(ctx, func(hit Hit, e error) bool {
		list = append(list, recalled{header(hit.Entry, hit.Time, hit.Role, hit.Tool), hit.Excerpt, hit.Start, hit.End})
		err = e
		return e == nil
	})
	list = list[min(skip, len(list)):]
	switch {
	case err != nil:
		return "", err
	case len(list) == 0 && skip > 0:
		return "There are no more.", nil
	case len(list) == 0:
		return "Nothing that is no longer shown has any of these words. Try others.", nil
	case len(list) > limit && skip == mostSkipped:
		return pageOf(list[:limit]) + "\n[more entries have some of the words; use rarer ones]", nil
	case len(list) > limit:
		return pageOf(list[:limit]) + fmt.Sprintf("\n[more entries have some of the words; go on with offset %d]", skip+limit), nil
	}
	return pageOf(list), nil
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
		role += " " + neutral.ToolName(tool)
	}
	return quote.Rest(fmt.Sprintf("entry %s, %s, %s", entry, at.UTC().Format("2006-01-02 15:04"), role))
}

// recalled is an entry in a result, with the place of its match.
type recalled struct {
	header, text string
	start, end   int
}

// within returns the text in at most so many bytes, and whether it is whole.
func (e recalled) within(most int) (text string, whole bool) {
	if text = quote.Lines(strings.TrimSpace(e.text)); len(text) <= most {
		return text, true
	}
	for size := most; size > 0; size = min(size-1, size*most/len(text)) { // indentation takes room
		part, _, _ := words.Excerpt(e.text, e.start, e.end, size)
		if text = quote.Lines(strings.TrimSpace(part)); len(text) <= most {
			return text, false
		}
	}
	return "", false
}

// pageOf writes entries of at most recallMost bytes. It shortens the longest ones to
// equal lengths.
func pageOf(list []recalled) string {
	room := recallMost
	sizes := make([]int, len(list))
	for i, e := range list {
		room -= len(e.header) + len("[, in part]\n\n\n")
		sizes[i] = len(quote.Lines(e.text))
	}
	slices.Sort(sizes)
	most := recallMost
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			most = share
			break
		}
		room -= size
	}
	var parts []string
	for _, e := range list {
		text, whole := e.within(most)
		if !whole {
			e.header += ", in part"
		}
		parts = append(parts, "["+e.header+"]\n"+text+"\n")
	}
	return strings.Join(parts, "\n")
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
	var list []recalled
	for _, e := range entries {
		for _, p := range passages(e) {
			if p.text != "" && p.role != roleSystem {
				list = append(list, recalled{header: header(e.ID, e.Time, p.role, p.tool), text: p.text})
			}
		}
	}
	for len(list) > mostInWindow {
		list = list[1 : len(list)-1] // of an entry with many blocks
	}
	return pageOf(list), nil
}

// find calls f for each session until one shows the entry.
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
	var p Part
	var text string
	err := r.find(ctx, args.Entry, func(s *session.Session) (err error) {
		for args.Max = recallMost; ; args.Max = args.Max*recallMost/len(text) - 1 { // the indentation takes room
			p, err = Read(ctx, s, args.Entry, args.Slice)
			if text = quote.Lines(p.Text); err != nil || len(text) <= recallMost {
				return err
			}
		}
	})
	if err != nil {
		return "", err
	}
	switch {
	case args.Match != "":
		text += fmt.Sprintf("\n[%d of %d lines match]", p.Matches, p.Lines)
	case p.Next > 0:
		text += fmt.Sprintf("\n[up to byte %d of %d, %d lines in all; go on with offset %d]", p.Next, p.Bytes, p.Lines, p.Next)
	}
	return text, nil
}
