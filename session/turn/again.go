package turn

import (
	"context"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

const errNotCut = conflict("the history does not end with an answer that was cut, or its tools may have run: nothing was written")

const errOneAppend = conflict("the answer was appended together with its question: nothing was written; use Continue")

// Retry takes back an answer that was cut or has failed, so that the model can be asked
// again. Its text stays in the transcript. If the history ends with anything else, a stop
// by the user included, if a tool of the answer may have run, if a result, a dispatch or a
// decision follows the answer, or if one append has stored the answer and the question,
// the error matches [session.ErrConflict].
func Retry(ctx context.Context, s *session.Session) error {
	_, err := s.Update(ctx, "retry", func(v *session.View) ([]transcript.Item, error) {
		answer, err := cutAnswer(v)
		if err != nil {
			return nil, err
		}
		lines := v.Fold().InForce()
		i := slices.Index(lines, answer)
		if i < 1 {
			return nil, errNotCut
		}
		batches := map[string]int{}
		for _, m := range v.Fold().History().Messages {
			for _, o := range m.Origins {
				batches[o.Entry] = o.Batch
			}
		}
		if b := batches[lines[i-1]]; b > 0 && b == batches[answer] { // a rewind would leave both
			return nil, errOneAppend
		}
		items, err := editsAfter(ctx, s, v, lines[i:])
		return append([]transcript.Item{transcript.Rewind{To: lines[i-1]}}, items...), err
	})
	return err
}

// editsAfter returns the hides, system prompts and tools among the last lines, all of
// which a rewind takes back. Lines about a call must not be taken back.
func editsAfter(ctx context.Context, s *session.Session, v *session.View, lines []string) (edits []transcript.Item, err error) {
	for rec, err := range s.Scan(ctx, session.ScanOptions{To: v.End(), Backward: true}) {
		if err != nil {
			return nil, err
		}
		if rec.Entry.ID == lines[0] {
			break
		}
		if !slices.Contains(lines, rec.Entry.ID) {
			continue
		}
		switch b := rec.Entry.Body.(type) {
		case transcript.Hide, transcript.System, transcript.Tools:
			if item, ok := b.(transcript.Item); ok {
				edits = append(edits, item)
			}
		case transcript.Dispatch, transcript.Decision: // without it the call would run again
			return nil, errNotCut
		case transcript.MessageLine:
			if b.Kind == transcript.TypeToolResult || slices.ContainsFunc(b.Content, isResult) {
				return nil, errNotCut
			}
		}
	}
	slices.Reverse(edits)
	return edits, nil
}

func isResult(b transcript.Block) bool {
	_, ok := b.(transcript.ToolResultBlock)
	return ok
}

// Continue keeps an answer that was cut and appends a text of the user that asks the
// model to continue. The error matches [session.ErrConflict] if the history does not end
// with a cut answer, or a tool of the answer may have run.
func Continue(ctx context.Context, s *session.Session) error {
	_, err := s.Update(ctx, "continue", func(v *session.View) ([]transcript.Item, error) {
		if _, err := cutAnswer(v); err != nil {
			return nil, err
		}
		return []transcript.Item{transcript.UserText(goOn)}, nil
	})
	return err
}

const goOn = "Your answer was cut off. Go on exactly where it ends, and repeat nothing."

// cutAnswer returns the first line of the cut answer that the history ends with.
func cutAnswer(v *session.View) (entry string, err error) {
	pending := v.Fold().Pending()
	if !pending.Cut || pending.Owed {
		return "", errNotCut
	}
	for _, m := range slices.Backward(v.Fold().History().Messages) {
		for _, o := range m.Origins {
			if m.Role != transcript.RoleAssistant || o.Entry == "" { // a note that the turn has ended
				continue
			}
			lines := v.Fold().InForce()
			own := lines[max(slices.Index(lines, o.Entry), 0):]
			if slices.ContainsFunc(pending.Calls, func(c rebuild.PendingCall) bool { return slices.Contains(own, c.Entry) }) {
				return "", errNotCut
			}
			return o.Entry, nil
		}
	}
	return "", errNotCut
}
