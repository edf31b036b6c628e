package dialect

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// exchange is an answer, the results of its calls and the user's next texts.
// Each part may be missing.
type exchange struct {
	answer  []transcript.Block
	results []timedResult
	said    []transcript.Block

	answerDetails
	saidID   string
	saidAt   time.Time
	saidText bool // as answerText
	ids      []string

	time   time.Time // the last that is known; a line without one gets it
	losses Losses
}

// answerDetails describe an answer by its first line.
type answerDetails struct {
	answerID   string
	answerAt   time.Time
	answerText bool // the part is one text, written as a string
	line       transcript.MessageLine
}

type timedResult struct {
	transcript.ToolResultBlock
	id string // of its entry; empty if made up for a call without a result
	at time.Time
}

func (x *exchange) all(entries iter.Seq2[transcript.Entry, error], out output) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		at := e.Time
		if at.IsZero() {
			at = x.time
		}
		x.time = at
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			if at.IsZero() {
				x.losses["time"]++
			}
			if b.Role == transcript.RoleAssistant {
				err = x.addAnswer(e.ID, b, at, out)
			} else {
				err = x.addUser(e.ID, b, at, out)
			}
		case transcript.Compaction:
			if err = x.flush(out); err != nil {
				return err
			}
			e.Time = at
			b.Summary, _ = recalltool.Cut(b.Summary) // the other program lacks the tools
			var ok bool
			if ok, err = out.compaction(e, b); !ok {
				x.losses[e.Type()]++
			}
		case transcript.Header:
		case transcript.Rewind, transcript.Clip, transcript.Hide:
			err = fmt.Errorf("entry %s of type %s: fold the session first and write its history", e.ID, e.Type())
		default:
			if _, commit := b.(transcript.Commit); commit { // it concerns the messages before it
				if err = x.flush(out); err != nil {
					return err
				}
			}
			e.Time = at
			var ok bool
			if ok, err = out.entry(x, e); !ok {
				x.losses[e.Type()]++
			}
		}
		if err != nil {
			return err
		}
	}
	if err := x.flush(out); err != nil {
		return err
	}
	return out.end(x.losses)
}

func (x *exchange) flush(out output) error {
	var err error
	if len(x.answer)+len(x.results)+len(x.said) > 0 {
		err = out.exchange(x)
	}
	*x = exchange{time: x.time, losses: x.losses}
	return err
}

func (x *exchange) addAnswer(id string, f transcript.MessageLine, at time.Time, out output) error {
	if calls := f.Message().ToolCalls(); f.Kind == transcript.TypeToolUse && f.Of == "" && len(calls) == 1 {
		// claw0 records a call twice: in the answer and on its own.
		for _, c := range (transcript.Message{Content: x.answer}).ToolCalls() {
			if c.ID == calls[0].ID {
				return nil
			}
		}
	}
	more := x.answerID != "" && len(x.said) == 0 &&
		(f.Of == x.answerID || f.Of == "" && f.Kind == transcript.TypeToolUse && len(x.results) == 0)
	if !more {
		if err := x.flush(out); err != nil {
			return err
		}
		x.answerID, x.answerAt, x.answerText = id, at, f.Message().Plain()
		if x.line = f; f.Of != "" {
			x.answerID = f.Of
		}
	} else {
		x.answerText = false
	}
	x.answer = append(x.answer, f.Content...)
	x.ids = append(x.ids, id)
	return nil
}

func (x *exchange) addUser(id string, f transcript.MessageLine, at time.Time, out output) error {
	var said []transcript.Block
	for _, b := range f.Content {
		if r, ok := b.(transcript.ToolResultBlock); ok {
			if len(x.said) > 0 {
				if err := x.flush(out); err != nil {
					return err
				}
			}
			x.results = append(x.results, timedResult{r, id, at})
		} else {
			said = append(said, b)
		}
	}
	if len(said) > 0 && (len(x.said) > 0 || len(x.results) == 0) {
		if err := x.flush(out); err != nil {
			return err
		}
	}
	x.ids = append(x.ids, id)
	if len(said) > 0 {
		x.said, x.saidID, x.saidAt, x.saidText = said, id, at, f.Message().Plain()
	}
	return nil
}

// text returns the text of a block where only text can be; other content counts
// as lost.
func (x *exchange) text(b transcript.Block) (string, bool) {
	if text, ok := rows.Text(b); ok {
		return text, true
	}
	x.losses[transcript.BlockType(b)]++
	return "", false
}

func (x *exchange) texts(blocks []transcript.Block) []string {
	var texts []string
	for _, b := range blocks {
		if text, ok := x.text(b); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func (x *exchange) resultText(r transcript.ToolResultBlock) string {
	return strings.Join(x.texts(r.Content), "\n")
}
