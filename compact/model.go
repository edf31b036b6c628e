package compact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Model is a [Summarizer] that asks a model. The model sees the messages as one
// text, see [Document], not as messages: it finds nothing to continue, no call to
// pair and no tool. It is safe for several goroutines if Complete is.
//
// Every request fits the window of the model: tokens by Counter times Safety plus MaxOutput are
// never more than Window. A conversation too long for one request is shown piece by piece, each
// time with the summary so far, for the model to update. If that would take more than MaxCalls
// calls, results of tools are shortened, then all texts, and then messages in the middle are left
// out; the text marks each omission.
//
// Bad summaries are refused, see [ErrRefused]. The conversation is shown as data
// between marks that it cannot close, followed by the instructions.
//
// A summary that is longer than allowed is cut, with a note of how much is
// missing; but the model is first asked, once, to shorten the last one. A
// failed call is not repeated: Complete is expected to try again itself.
type Model struct {
	// Complete sends a request: the method of a guard.Client. It is required.
	Complete func(ctx context.Context, req transcript.Request) (*transcript.Response, error)
	// Name is the requested model; empty leaves it to Complete.
	Name string
	// Window is the context window of the model in tokens. 0 means 32,768,
	// which is less than most models have.
	Window int
	// MaxOutput is how many tokens the model may write. 0 means 2,048, or the
	// limit of the summary if that is more, but at most a quarter of the
	// window. A model that reasons needs more.
	MaxOutput int
	// MaxCalls is the most calls of Complete for one summary, apart from a last
	// one to make it shorter. 0 means 64.
	MaxCalls int
	// Counter counts tokens; nil means [tokens.Estimator].
	Counter tokens.Counter
	// Safety multiplies the sizes that Counter returns, because an estimate is
	// not a bound. 0 means 1.25, which allows for a counter that is a fifth too
	// low; less than 1 means 1.
	Safety float64
}

const (
	defaultWindow = 32_768
	defaultCalls  = 64
	defaultSafety = 1.25
)

var errNoRoom = errors.New("the window is too small for a summary")

// Summarize implements [Summarizer]. It returns the error of ctx or Complete, an
// error about a bad answer, see [ErrRefused], or errNoRoom.
func (m Model) Summarize(ctx context.Context, in Input) (string, error) {
	if m.Complete == nil {
		return "", errors.New("Model.Complete is not set")
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	c, err := m.conversation(in)
	if err != nil {
		return "", err
	}
	summary := c.previous
	for shown := 1; len(c.left) > 0; shown++ {
		if c.calls == c.MaxCalls {
			return "", fmt.Errorf("%w: more than %d calls", errNoRoom, c.calls)
		}
		piece := c.left.next(func(piece string) bool { return c.fits(c.text(summary, piece)) })
		if piece == "" {
			return "", c.tooSmall()
		}
		in.tell(ctx, Step{Chunk: shown, Chunks: max(shown, c.chunks)})
		if summary, err = c.ask(ctx, summary, piece); err != nil {
			return "", err
		}
		if summary, err = c.bound(ctx, summary); err != nil {
			return "", err
		}
	}
	if blank(summary) {
		return "", errEmpty
	}
	return summary, nil
}

// conversation is the making of one summary.
type conversation struct {
	Model
	calls    int
	chunks   int    // most pieces to show
	guidance string // for this summary
	max      int    // tokens of the summary
	target   int    // the size requested from the model
	previous string // the summary to begin with
	left     pieces
}

func (m Model) conversation(in Input) (*conversation, error) {
	m.Counter = tokens.Or(m.Counter)
	m.Window = cmp.Or(max(m.Window, 0), defaultWindow)
	m.MaxOutput = cmp.Or(max(m.MaxOutput, 0), min(max(defaultSummary, in.MaxTokens), m.Window/4))
	m.MaxCalls = cmp.Or(max(m.MaxCalls, 0), defaultCalls)
	m.Safety = max(cmp.Or(m.Safety, defaultSafety), 1)
	c := &conversation{Model: m, guidance: strings.TrimSpace(in.Guidance), previous: plain(in.Previous)}

	// Half of the free tokens are for the summary so far.
	c.target = 1_000_000 // at least as many digits as the real number
	room := int(float64(m.Window-m.MaxOutput)/m.Safety) - 1 - c.count(c.text(".", "."))
	c.max = min(cmp.Or(in.MaxTokens, defaultSummary), room/2)
	if c.max < 1 {
		return nil, c.tooSmall()
	}
	c.target = max(min(c.max, m.MaxOutput)*4/5, 1)
	earlier := ""
	if !c.small(c.previous) { // too long to show whole with each piece
		c.previous, earlier = "", c.previous
	}
	for parts := range c.shortened(earlier, in.Messages) {
		ok := true
		c.chunks = 0
		for p := parts; ok && len(p) > 0 && c.chunks <= m.MaxCalls; c.chunks++ {
			ok = p.next(func(piece string) bool { return countText(c.Counter, defuse(piece)) <= room-c.max }) != ""
		}
		if !ok {
			return nil, c.tooSmall()
		}
		if c.chunks <= m.MaxCalls {
			c.left = parts
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: %d calls do not suffice", errNoRoom, m.MaxCalls)
}

// shortened yields the parts of the document, shorter each time.
func (c *conversation) shortened(earlier string, msgs []transcript.Message) iter.Seq[pieces] {
	return func(yield func(pieces) bool) {
		var all []string
		for _, d := range []Document{{}, {Results: 500}, {Results: 100, Texts: 4_000}, {Results: 100, Texts: 1_000}, {Results: 40, Texts: 200}} {
			if all = d.parts(earlier, msgs); !yield(all) {
				return
			}
		}
		for keep := len(all) * 3 / 4; keep > 0; keep = keep * 3 / 4 {
			head, tail := all[:keep/3], all[len(all)-(keep-keep/3):]
			gone := all[len(head) : len(all)-len(tail)]
			note := fmt.Sprintf("[left out]: %d parts of the conversation, ~%d tokens", len(gone), countText(c.Counter, joined(gone)))
			if !yield(slices.Concat(head, []string{note}, tail)) {
				return
			}
		}
	}
}

func (c *conversation) tooSmall() error {
	return fmt.Errorf("%w: it has %d tokens, %d of them for the answer", errNoRoom, c.Window, c.MaxOutput)
}

func (c *conversation) count(text string) int {
	return c.Counter.Count(modelSystem, nil, []transcript.Message{transcript.UserText(text)})
}

// fits reports whether a request leaves room for the answer. It adds a token,
// in case the counter rounds down.
func (c *conversation) fits(text string) bool {
	return float64(c.count(text)+1)*c.Safety+float64(c.MaxOutput) <= float64(c.Window)
}

// small reports whether a summary is short enough, alone and in a request.
func (c *conversation) small(summary string) bool {
	return countText(c.Counter, summary) <= c.max && countText(c.Counter, defuse(summary)) <= c.max
}

// ask sends one request, for the summary so far and a piece of the conversation,
// and returns the model's text if that may be a summary of them.
func (c *conversation) ask(ctx context.Context, summary, piece string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	c.calls++
	resp, err := c.Complete(ctx, transcript.Request{
		Model: c.Name, System: modelSystem, MaxOutput: c.MaxOutput,
		Messages: []transcript.Message{transcript.UserText(c.text(summary, piece))},
	})
	text := ""
	if err == nil {
		resp = cmp.Or(resp, &transcript.Response{})
		text = withoutReasoning(plain(resp.Message.Text()))
		if err = noSummary[resp.StopReason]; err == nil && len(resp.Message.ToolCalls()) > 0 {
			err = errToolCall
		}
		if err == nil {
			err = refuse(text, piece, summary, 0) // without the limit: bound shortens it
		}
		if err != nil {
			err = fmt.Errorf("%w (stop reason %q)", err, resp.StopReason)
		}
	}
	if err != nil {
		return "", fmt.Errorf("call %d to the summarizing model: %w", c.calls, err)
	}
	return text, nil
}

// bound returns a summary with at most c.max tokens.
func (c *conversation) bound(ctx context.Context, summary string) (string, error) {
	if c.small(summary) {
		return summary, nil
	}
	// The conversation comes first; a call to shorten it comes last.
	if len(c.left) == 0 && c.fits(c.text(summary, "")) {
		var err error
		if summary, err = c.ask(ctx, summary, ""); err != nil || c.small(summary) {
			return summary, err
		}
	}
	n := largest(len(summary), func(n int) bool { return c.small(clip(summary, n)) })
	if n < minShown {
		return "", fmt.Errorf("%w: not a sentence of a summary fits into %d tokens", errNoRoom, c.max)
	}
	return clip(summary, n), nil
}

// noSummary holds the stop reasons of answers that are not summaries.
var noSummary = map[transcript.StopReason]error{
	transcript.StopMaxTokens:     errCut,
	transcript.StopContextWindow: errCut,
	transcript.StopRefusal:       errRefusal,
	transcript.StopToolUse:       errToolCall,
	transcript.StopAborted:       errIncomplete,
	transcript.StopError:         errIncomplete,
	transcript.StopPauseTurn:     errIncomplete,
}

// text is the message of a request: with a piece of the conversation, or
// without one if the summary is only to be made shorter.
func (c *conversation) text(summary, piece string) string {
	var sb strings.Builder
	task := taskFirst
	if summary != "" {
		task = taskUpdate
		sb.WriteString(openSummary + "\n" + defuse(summary) + "\n" + closeSummary + "\n\n")
	}
	if piece == "" {
		task = taskShorter
	} else {
		sb.WriteString(openDocument + "\n" + defuse(piece) + "\n" + closeDocument + "\n\n")
	}
	sb.WriteString(dataNotice + "\n\n" + task + "\n\n" + whatToKeep + "\n")
	if c.guidance != "" {
		sb.WriteString(c.guidance + "\n")
	}
	fmt.Fprintf(&sb, lengthFormat, c.target, max(c.target*2/3, 1))
	return sb.String()
}
