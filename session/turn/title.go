package turn

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/convolog/convolog/internal/title"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Titler makes the title of a conversation, with a model for example.
type Titler interface {
	// Title returns a title for a conversation. Messages are its first four and its
	// last eight messages with a text, in order, each cut to 1,000 runes. Current is
	// the present title, which may be empty. Title must return when ctx is done, and
	// must not modify messages.
	Title(ctx context.Context, messages []transcript.Message, current string) (string, error)
}

// milestones are the numbers of messages at which a title is made.
var milestones = []int{4, 12, 30, 80}

// titleTime is how long a Titler may take.
const titleTime = 30 * time.Second

// Titles returns a function for the AfterTurn of [session.Options]. It asks the Titler,
// which must not be nil, for a title if the session has reached 4, 12, 30 or 80 messages
// since its title was set. After an error of the Titler it asks again at the next of
// these numbers. A title that was set by hand is never replaced, not even one that is set
// while the Titler works. TitleBy in the [transcript.Meta] marks a title by a Titler.
//
// The title is the first line of the answer that has a letter or a digit, without
// control characters and surrounding quotes, cut to 60 runes. If there is no such line,
// nothing changes. The Titler gets at most 30 seconds. After an error, of the Titler or of
// the append, nothing was written.
func Titles(t Titler) func(ctx context.Context, s *session.Session) error {
	const most = 4_096 // sessions that are remembered
	var mu sync.Mutex
	asked := map[session.Ref]int{}
	return func(ctx context.Context, s *session.Session) error {
		_, err := retitle(ctx, s, t, func(milestone int) bool {
			mu.Lock()
			defer mu.Unlock()
			if asked[s.Ref()] >= milestone {
				return false
			}
			if len(asked) == most {
				clear(asked)
			}
			asked[s.Ref()] = milestone
			return true
		})
		return err
	}
}

// retitle asks for a title if want accepts the milestone that the session has reached.
func retitle(ctx context.Context, s *session.Session, t Titler, want func(milestone int) bool) (changed bool, err error) {
	const op = "retitle"
	var in []transcript.Message
	var info session.Info
	rev, due := 0, false
	// An Update, because it fails if nothing can be appended to the session.
	_, err = s.Update(ctx, op, func(v *session.View) (_ []transcript.Item, err error) {
		info, err = v.Info()
		if at := milestone(info); err == nil && at > 0 && want(at) {
			in, rev, due = texts(v.Fold().History().Messages), info.Rev, true
		}
		return nil, err
	})
	if err != nil || !due {
		return false, err
	}
	asking, cancel := context.WithTimeout(ctx, titleTime)
	defer cancel()
	text, err := t.Title(asking, in, info.Title)
	if err != nil {
		return false, failed(op, s, err)
	}
	clean := cleanTitle(text)
	if clean == "" {
		return false, nil
	}
	ids, err := s.Update(ctx, op, func(v *session.View) ([]transcript.Item, error) {
		info, err := v.Info()
		if err == nil && info.Rev != rev {
			err = fmt.Errorf("%w: something was erased from it, and nothing was written", session.ErrReplaced)
		}
		if err != nil || info.TitleByHand {
			return nil, err
		}
		changed = clean != info.Title
		return []transcript.Item{transcript.Meta{Title: &clean, TitleBy: transcript.ByModel}}, nil
	})
	return changed && len(ids) > 0, err
}

// milestone returns the last milestone that was reached since the title was set; 0
// before the first, or if the title was set by hand.
func milestone(info session.Info) (at int) {
	for _, m := range milestones {
		if info.Messages >= m && info.TitledAt < m && !info.TitleByHand {
			at = m
		}
	}
	return at
}

// cleanTitle returns the title in the answer of a model.
func cleanTitle(text string) string {
	const longest = 4 << 10 // bytes that are read
	text = strings.ToValidUTF8(text[:min(len(text), longest)], "")
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(title.Clean(line), "#*-> ")
		if name, rest, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "title") {
			line = rest
		}
		line = strings.Trim(line, "\"'`*_“”„«» ")
		line = strings.Join(strings.Fields(line), " ")
		if !strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			continue
		}
		if strings.HasPrefix(line, "<") || strings.HasPrefix(line, "[") {
			return "" // a tag
		}
		return title.Cut(line)
	}
	return ""
}

func cut(text string, most int) string {
	for i := range text {
		if most--; most < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// The part of a conversation that a Titler gets.
const (
	firstTexts = 4
	lastTexts  = 8
	textRunes  = 1_000
)

func texts(messages []transcript.Message) (all []transcript.Message) {
	for _, m := range messages {
		text := strings.TrimSpace(m.Text())
		if text == "" {
			continue
		}
		one := transcript.UserText(cut(text, textRunes))
		if one.Role = m.Role; len(all) == firstTexts+lastTexts {
			all = append(all[:firstTexts], all[firstTexts+1:]...)
		}
		all = append(all, one)
	}
	return all
}
