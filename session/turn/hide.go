package turn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Hide leaves messages out of the history, for example one that a provider refuses. They
// stay in the transcript, and [Show] or a rewind brings them back. Hide returns the
// newly hidden entries: an answer takes along its calls and their results, a call its
// result and the reasoning of its answer, a result its call. If all were hidden before,
// nothing is written.
//
// A summary keeps the words of hidden entries; later compactions, the tools of a model
// and exports for people omit them. A call without a result in the running turn cannot be
// hidden: the error matches [session.ErrConflict]. An entry that is not there, or not a
// message in force, matches [session.ErrNoEntry].
func Hide(ctx context.Context, s *session.Session, entryIDs ...string) (hidden []string, err error) {
	return setHidden(ctx, s, "hide", func(w *wholeFold, v *session.View) ([]string, error) {
		ids, err := w.paired(entryIDs)
		for _, c := range v.Fold().Pending().Calls {
			if err == nil && slices.Contains(ids, c.Entry) {
				err = conflict(fmt.Sprintf("the call %s of entry %s has no result yet: nothing was written; append one first", c.Call.Name, c.Entry))
			}
		}
		return ids, err
	})
}

// Show takes back each [Hide] that has hidden one of the entries, and returns all the
// entries that are shown again.
func Show(ctx context.Context, s *session.Session, entryIDs ...string) (shown []string, err error) {
	return setHidden(ctx, s, "show", func(w *wholeFold, _ *session.View) (ids []string, _ error) {
		for _, h := range w.hides {
			if slices.ContainsFunc(h, func(id string) bool { return slices.Contains(entryIDs, id) && w.isHidden(id) }) {
				ids = append(ids, slices.DeleteFunc(slices.Clone(h), func(id string) bool { return !w.isHidden(id) || slices.Contains(ids, id) })...)
			}
		}
		return ids, nil
	})
}

// setHidden appends a line with the entries that choose returns.
func setHidden(ctx context.Context, s *session.Session, op string, choose func(*wholeFold, *session.View) ([]string, error)) (ids []string, err error) {
	_, err = s.Update(ctx, op, func(v *session.View) ([]transcript.Item, error) {
		w := &wholeFold{Fold: rebuild.New(&rebuild.Options{Full: true}), lines: map[string]transcript.MessageLine{}}
		for b, err := range transcript.Batches(s.Scan(ctx, session.ScanOptions{To: v.End()})) {
			if err == nil {
				err = w.add(b)
			}
			if err != nil {
				return nil, err
			}
		}
		if ids, err = choose(w, v); err != nil || len(ids) == 0 {
			return nil, err
		}
		return []transcript.Item{transcript.Hide{Entries: ids, Off: op == "show"}}, nil
	})
	return ids, err
}

// wholeFold is the fold of a whole transcript, without compactions.
type wholeFold struct {
	*rebuild.Fold
	lines map[string]transcript.MessageLine
	order []string // of the lines
	hides [][]string
	open  string // the answer that calls without its ID continue, as in imports; or ""
}

func (w *wholeFold) add(b transcript.Batch) error {
	for _, e := range b.Entries {
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			switch {
			case b.Kind == transcript.TypeToolUse:
				b.Of = cmp.Or(b.Of, w.open)
			case b.Role == transcript.RoleAssistant:
				w.open = cmp.Or(b.Of, e.ID)
			default:
				w.open = ""
			}
			w.lines[e.ID], w.order = b, append(w.order, e.ID)
		case transcript.Hide:
			if !b.Off {
				w.hides = append(w.hides, b.Entries)
			}
		}
	}
	return w.Add(b)
}

func (w *wholeFold) isHidden(id string) bool {
	where, _ := w.Where(id)
	return where.Hidden
}

// paired returns the entries that are not hidden yet, with the entries that go with them.
func (w *wholeFold) paired(entryIDs []string) (ids []string, err error) {
	all := map[string]bool{}
	for _, id := range entryIDs {
		f, ok := w.lines[id]
		if where, _ := w.Where(id); !ok || where.Rewound || where.Superseded {
			return nil, fmt.Errorf("%w: %q is not a message in force: nothing was written", session.ErrNoEntry, id)
		}
		if all[id] = true; f.Kind == transcript.TypeAssistant && f.Of != "" {
			all[f.Of] = true
		}
	}
	pairs := w.pairs()
	for n := -1; n < len(all); {
		n = len(all)
		for id, f := range w.lines {
			if f.Of != "" && all[f.Of] {
				all[id] = true
			}
		}
		for _, p := range pairs {
			if all[p.call] || p.result != "" && all[p.result] {
				all[p.call] = true
				all[cmp.Or(p.result, p.call)] = true
			}
		}
	}
	for _, id := range w.order {
		if all[id] && !w.isHidden(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// pair is a call with its result, or with "".
type pair struct{ call, result string }

// pairs returns the calls that the history shows.
func (w *wholeFold) pairs() (list []pair) {
	messages := w.History().Messages
	unanswered := map[string]string{} // call ID -> entry
	for i, m := range messages {
		results := 0 // of the next message, which begins with them
		for j, b := range m.Content {
			switch b := b.(type) {
			case transcript.ToolCallBlock:
				p := pair{m.Origins[j].Entry, messages[i+1].Origins[results].Entry}
				results++
				list = append(list, p)
				if p.result == "" {
					unanswered[b.ID] = p.call
				}
			case transcript.ToolResultBlock:
			default: // of a late result, or of none
				if call := unanswered[w.callOf(m.Origins[j])]; call != "" {
					list = append(list, pair{call, m.Origins[j].Entry})
				}
			}
		}
	}
	return list
}

// callOf returns the ID of the call whose result is at a place, or "".
func (w *wholeFold) callOf(o transcript.Origin) string {
	content := w.lines[o.Entry].Content
	if i := max(o.Block, 0); i < len(content) {
		r, _ := content[i].(transcript.ToolResultBlock)
		return r.CallID
	}
	return ""
}
