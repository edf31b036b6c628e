package compact

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Options of [Plan] and [Run]. Nil and zero fields are the defaults, and so are
// most numbers below 0.
type Options struct {
	// Window is the context window of the model, from which the sizes below derive;
	// 0 means Trigger's window or its Threshold, if less, or else a third more than
	// Room, or else 64,000. By default a compacted history fills about two fifths
	// of it, or a third of a window of 16,000.
	Window int
	// Keep is how much stays verbatim. The zero value keeps as many of the
	// newest messages as Window allows.
	Keep Keep
	// Trigger decides when a compaction is due. Plan and Run do not check that.
	Trigger Trigger
	// Room is how many tokens the history may have afterwards. Plan aims at two thirds of it,
	// summary included, so that no single turn makes the next compaction due. If Keep is set,
	// it aims at three fifths for the summary and the kept messages, and an eighth for
	// carried items. If necessary it cuts later than Keep asks, or inside a turn that alone
	// is too long. 0 means unlimited, or for a session the room of Trigger, if there is one.
	Room int
	// Summarizer writes the summary; nil means Extractive, which needs no
	// model.
	Summarizer Summarizer
	// Guidance is an instruction to the summarizer for this summary: what to
	// keep, for example. Extractive does not read it.
	Guidance string
	// MaxSummary is how many tokens a summary should have at most; 0 means a
	// thirty-second of Window, from 2,048 to 8,192. It never exceeds half of the
	// summarised part, or a fifth of Room.
	MaxSummary int
	// MaxCarried limits the tokens of the items that Run carries in addition to the
	// summary. 0 means a quarter of Window, or a third of Window less MaxSummary if
	// that is smaller. A negative number carries nothing.
	//
	// More carried items leave fewer messages verbatim. In a chat in which the user
	// writes half of the text, a twelfth of Window keeps more of the newest messages
	// and loses the oldest statements: docs/BENCHMARKS.md measures both.
	//
	// One compaction may carry less: at most a third of Room, and at most the greatest
	// of a quarter of the summarised part, 256 tokens, and twice the size carried last.
	// If the kept part and the summary leave less of Room, the limit is the rest, but
	// at least an eighth of Room.
	MaxCarried int
	// Pins are texts that are carried whole, except texts of entries that stay
	// visible. They come on top of MaxCarried.
	Pins []transcript.Carried
	// Files returns the paths of files that a call reads and modifies, for Run
	// to carry. Nil goes by the usual names of tools and arguments.
	Files func(call transcript.ToolCallBlock) (read, modified []string)
	// Instructions reports whether a path names a file with instructions for the
	// model. Run carries the text that a call last read from the file, until a call
	// modifies it: the whole text if a quarter of MaxCarried is enough. Nil goes by
	// the usual names: AGENTS.md, CLAUDE.md, .cursorrules and the like.
	Instructions func(path string) bool
	// Recall is set if the model is offered the tools of search.RecallTools. The last
	// line of the summary then counts the omissions and names the tools, and the newest
	// long texts of the user keep at least a line, with the ID of their entry. A guard
	// that offers the tools sets Recall for its compactions.
	Recall bool
	// Timeout is how long a summarizer may take: each one of [Either] by itself,
	// but not Extractive. 0 means two minutes; less than 0 means only the limit
	// of the context.
	Timeout time.Duration
	// Counter counts tokens; nil means tokens.Estimator.
	Counter tokens.Counter
	// Observe, if set, is called for each step of the summarizer: the part of
	// the messages it reads, or why [Either] skipped one. The summarizer calls
	// it in its own goroutine and waits for it.
	Observe func(ctx context.Context, s Step)
	// Plan calls Check with its cut, and looks for another one if Check returns
	// false. A caller with the fold can check entries that the history does not
	// show; a session always does. Nil accepts every cut.
	Check func(c Cut) bool

	// yields is set if Keep is the default: carried items take their tokens from
	// Keep.Tokens, down to least.
	yields bool
	least  int
}

// Keep is the part of a history that stays verbatim. One field is set; the zero
// value depends on the window. Cuts never separate a call from its result; the
// nearest such place is taken.
type Keep struct {
	// Tokens keeps the newest messages that fit into this many tokens: whole
	// turns, unless a cut inside a turn keeps more than half as much again.
	Tokens int `json:"tokens,omitempty"`
	// Turns keeps the newest turns. With no more than these there is nothing
	// to do.
	Turns int `json:"turns,omitempty"`
	// Fraction keeps this part of the messages, the newest ones; 0.5 is half, 1
	// or more is all of them. Below 1, at least two messages are summarised; at
	// least four, and a fifth of all, stay. With four messages or fewer there is
	// nothing to do.
	Fraction float64 `json:"fraction,omitempty"`
}

// A Trigger makes a compaction due when the prompt has more tokens than one of
// the limits. The zero value is never.
type Trigger struct {
	// Window is the context window of the model in tokens; 0: not known.
	Window int
	// Windows holds windows by the names of models. For a session, the window of
	// the model of the last answer replaces Window, and during a call the window of
	// the called model. A date or build number at the end of an answer's name does
	// not matter.
	Windows map[string]int
	// Share is how much of the window a prompt may fill; 0.8 is four fifths. 0
	// leaves 16,384 tokens free for the answer, or a quarter of a window under
	// 65,536.
	Share float64
	// Threshold is a limit of its own, whatever the window is.
	Threshold int
	// Overhead is the part of every request outside of the history: system
	// prompt and tools.
	Overhead int
}

// limit is the number of tokens of a prompt above which a compaction is due, for a
// model that Windows does not name; 0 if unlimited.
func (t Trigger) limit() int {
	limit := t.Threshold
	if t.Window > 0 {
		filled := t.Window - min(16_384, t.Window/4)
		if t.Share > 0 {
			filled = int(math.Round(float64(t.Window) * min(t.Share, 1)))
		}
		if limit == 0 || filled < limit {
			limit = max(filled, 1)
		}
	}
	return limit
}

// Room is the number of tokens of a history above which a compaction is due: the
// limit of the whole prompt without Overhead, or 0 if unlimited.
func (t Trigger) Room() int {
	if t.limit() == 0 {
		return 0
	}
	return max(t.limit()-t.Overhead, 1)
}

const (
	usualWindow    = 64_000
	mostWindow     = math.MaxInt / 64 // shares of it are computed
	defaultSummary = 2_048
	mostSummary    = 8_192
	defaultTimeout = 2 * time.Minute
)

func (o *Options) filled() Options {
	var f Options
	if o != nil {
		f = *o
	}
	window := cmp.Or(max(f.Window, 0), max(f.Trigger.Window, 0)) // that sizes go by
	if t := f.Trigger.Threshold; t > 0 && (window == 0 || t < window) {
		window = t
	}
	f.Room = min(f.Room, mostWindow)
	window = min(cmp.Or(window, max(f.Room, 0)*4/3, usualWindow), mostWindow)
	f.MaxSummary = cmp.Or(max(f.MaxSummary, 0), min(max(window/32, defaultSummary), mostSummary))
	filled := window * 42 / 100
	if f.Room > 0 {
		f.MaxSummary = max(1, min(f.MaxSummary, f.Room/5))
		filled = min(filled, f.Room*2/3)
	}
	f.MaxCarried = max(cmp.Or(f.MaxCarried, min(window/4, window/3-f.MaxSummary)), 0)
	if f.Room > 0 {
		f.MaxCarried = min(f.MaxCarried, f.Room/3)
	}
	if f.Keep.Tokens <= 0 && f.Keep.Turns <= 0 && f.Keep.Fraction <= 0 {
		f.Keep = Keep{Tokens: max(filled-f.MaxSummary, 1)}
		f.yields, f.least = true, min(window/8, filled*2/5)
	}
	f.Counter = tokens.Or(f.Counter)
	f.Summarizer = cmp.Or[Summarizer](f.Summarizer, Extractive{Counter: f.Counter})
	if f.Files == nil {
		f.Files = filesOf
	}
	if f.Instructions == nil {
		f.Instructions = isInstructions
	}
	f.Timeout = cmp.Or(f.Timeout, defaultTimeout)
	return f
}
