package serve

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// A Frame is one piece of a stream. Each surface makes its own event from a frame. The
// same entries give the same frames on every server. The kinds of frames are:
//
//	user       a block of a user's message, in Block
//	text       a part of the text of an answer
//	thinking   reasoning
//	call       a call of a tool, in Block
//	result     the result of a call, in Block
//	media      an image or a document of an answer, in Block
//	decision   a decision on a call, in Body
//	answer     an answer of the model is complete; Body is its first line
//	reset      the text of the answer so far is void, and the text follows anew
//	compacted  a compaction
//	failed     the turn has no complete answer; Text is the reason
//	end        the turn is over
type Frame struct {
	ID    string // for clients that resume: the entry, and the number of the frame in the entry
	Kind  string
	Text  string // of text, thinking and failed
	Block transcript.Block
	Body  transcript.Body // of decision and answer; an answer has no ID
}

const (
	frameUser      = "user"
	frameText      = "text"
	frameThinking  = "thinking"
	frameCall      = "call"
	frameResult    = "result"
	frameMedia     = "media"
	frameDecision  = "decision"
	frameAnswer    = "answer"
	frameReset     = "reset"
	frameCompacted = "compacted"
	frameFailed    = "failed"
	frameEnd       = "end"
)

// A tail makes frames of the entries of a session, in their order.
type tail struct {
	turn string // if not empty, only the turn of this queued text is shown
	in   bool   // the turn to show has begun
	over bool   // the turn to show has ended

	draft, shown string // the key of the open draft, and the shown part of its text
	batch        []transcript.Entry
}

// newTail returns a tail of a whole session, or of the turn that answers a queued text. The
// first entry to add must not be inside an answer.
func newTail(turn string) *tail {
	return &tail{turn: turn, in: turn == ""}
}

// add takes the next entry and returns the new frames. The entries of one append give
// their frames together: with the last of them, or with the next append if it is missing.
func (t *tail) add(e transcript.Entry) (frames []Frame) {
	if e.Part <= 1 && len(t.batch) > 0 {
		frames = t.flush()
	}
	switch {
	case e.Batch > 1:
		t.batch = []transcript.Entry{e}
		return frames
	case e.Part > 1 && len(t.batch) > 0:
		t.batch = append(t.batch, e)
		if e.Part < t.batch[0].Batch {
			return frames
		}
		return t.flush()
	}
	return append(frames, t.take([]transcript.Entry{e})...)
}

func (t *tail) flush() []Frame {
	batch := t.batch
	t.batch = nil
	return t.take(batch)
}

func (t *tail) take(batch []transcript.Entry) (frames []Frame) {
	m := maker{}
	for _, e := range batch {
		switch b := e.Body.(type) {
		case transcript.Draft:
			t.stream(&m, e, b)
		case transcript.MessageLine:
			switch b.Kind {
			case transcript.TypeUser:
				t.in = t.in || b.Queued == t.turn
				m.blocks(e, frameUser, b.Content)
			case transcript.TypeToolResult:
				m.blocks(e, frameResult, b.Content)
			}
		case transcript.Compaction:
			m.add(e, Frame{Kind: frameCompacted})
		case transcript.Decision:
			m.add(e, Frame{Kind: frameDecision, Body: b})
		case transcript.Interrupt:
			if b.Ended != "" {
				m.add(e, Frame{Kind: frameFailed, Text: b.Ended}, Frame{Kind: frameEnd})
			}
		case transcript.Rewind:
			t.draft, t.shown = "", ""
			m.add(e, Frame{Kind: frameReset}, Frame{Kind: frameEnd})
		}
	}
	t.answer(&m, batch)
	if !t.in || t.over {
		return nil
	}
	for i, f := range m.frames {
		if f.Kind == frameEnd && t.turn != "" {
			t.over = true
			return m.frames[:i+1]
		}
	}
	return m.frames
}

// stream shows the new text of a draft.
func (t *tail) stream(m *maker, e transcript.Entry, d transcript.Draft) {
	if d.At > 0 && d.Key != t.draft {
		return // the draft is over
	}
	text := t.shown[:min(d.At, len(t.shown))] + d.Text
	if d.Off {
		d.Key, text = "", ""
	}
	if t.shown != "" && (d.Key != t.draft || !strings.HasPrefix(text, t.shown)) {
		m.add(e, Frame{Kind: frameReset})
		t.shown = ""
	}
	if rest := text[len(t.shown):]; rest != "" {
		m.add(e, Frame{Kind: frameText, Text: rest})
	}
	t.draft, t.shown = d.Key, text
}

// answer shows an answer without the text that its draft already showed.
func (t *tail) answer(m *maker, batch []transcript.Entry) {
	var text strings.Builder
	calls, first := false, -1
	for i, e := range batch {
		f, ok := e.Body.(transcript.MessageLine)
		if !ok || f.Role != transcript.RoleAssistant {
			continue
		}
		if first < 0 {
			first = i
		}
		calls = calls || f.Kind == transcript.TypeToolUse
		for _, b := range f.Content {
			if b, ok := b.(transcript.TextBlock); ok {
				text.WriteString(b.Text)
			}
		}
	}
	if first < 0 {
		return
	}
	skip := len(t.shown)
	if !strings.HasPrefix(text.String(), t.shown) {
		m.add(batch[first], Frame{Kind: frameReset})
		skip = 0
	}
	t.draft, t.shown = "", ""
	for _, e := range batch[first:] {
		f, ok := e.Body.(transcript.MessageLine)
		if !ok || f.Role != transcript.RoleAssistant {
			continue
		}
		for _, b := range f.Content {
			skip = m.block(e, b, skip)
		}
	}
	m.frames = append(m.frames, Frame{Kind: frameAnswer, Body: batch[first].Body})
	stop := batch[first].Body.(transcript.MessageLine).StopReason //nolint:forcetypeassert // see above
	if cut := stop == transcript.StopAborted || stop == transcript.StopError; cut || !calls {
		last := batch[len(batch)-1]
		if cut {
			m.add(last, Frame{Kind: frameFailed, Text: string(stop)})
		}
		m.add(last, Frame{Kind: frameEnd})
	}
}

// A maker numbers frames.
type maker struct {
	frames []Frame
	entry  string // the entry of the last frame
	n      int    // the number of frames of that entry
}

func (m *maker) add(e transcript.Entry, frames ...Frame) {
	for _, f := range frames {
		if m.entry != e.ID {
			m.entry, m.n = e.ID, 0
		}
		f.ID = e.ID + "/" + strconv.Itoa(m.n)
		m.n++
		m.frames = append(m.frames, f)
	}
}

// blocks adds a frame of a kind for each block.
func (m *maker) blocks(e transcript.Entry, kind string, content []transcript.Block) {
	for _, b := range content {
		m.add(e, Frame{Kind: kind, Block: b})
	}
}

// block adds a block of an answer. The first skip bytes of the remaining text were already
// shown. It returns skip less the skipped bytes of this block.
func (m *maker) block(e transcript.Entry, b transcript.Block, skip int) int {
	switch b := b.(type) {
	case transcript.TextBlock:
		n := min(skip, len(b.Text))
		if rest := b.Text[n:]; rest != "" {
			m.add(e, Frame{Kind: frameText, Text: rest, Block: b})
		}
		return skip - n
	case transcript.ThinkingBlock:
		if b.Thinking != "" {
			m.add(e, Frame{Kind: frameThinking, Text: b.Thinking, Block: b})
		}
	case transcript.ToolCallBlock:
		m.add(e, Frame{Kind: frameCall, Block: b})
	case transcript.ImageBlock, transcript.DocumentBlock:
		m.add(e, Frame{Kind: frameMedia, Block: b})
	}
	return skip
}

// place splits the ID of an event into its entry and the number of its frame.
func place(id string) (entry string, n int, ok bool) {
	entry, number, found := strings.Cut(id, "/")
	n, err := strconv.Atoi(number)
	return entry, n, found && err == nil && n >= 0 && entry != ""
}

// lookBack limits the entries of a turn that are searched for its beginning.
const lookBack = 2_000

// turnOf returns the entry before the turn of an entry: the end of the previous answer,
// or the beginning of the session. It looks back over at most about lookBack entries.
func turnOf(ctx context.Context, s *session.Session, entry string) (string, error) {
	for seen := 0; seen < lookBack; {
		page, err := search.Page(ctx, s, entry, -64)
		if err != nil || len(page) == 0 {
			return s.Ref().ID, err
		}
		calls := false
		for _, e := range slices.Backward(page) {
			f, ok := e.Body.(transcript.MessageLine)
			switch {
			case !ok || f.Role != transcript.RoleAssistant:
				calls = false
			case f.Kind == transcript.TypeToolUse:
				calls = true
			case !calls && endsAppend(ctx, s, e.ID):
				return e.ID, nil
			}
		}
		seen += len(page)
		entry = page[0].ID
	}
	return entry, nil
}

// endsAppend reports whether an entry is the last one of its append.
func endsAppend(ctx context.Context, s *session.Session, id string) bool {
	for e, err := range s.Entries(ctx, id) {
		return err == nil && e.Part <= 1
	}
	return true
}
