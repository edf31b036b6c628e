package session

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

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

// Retitle asks titler, which must not be nil, for a title if the session has reached
// 4, 12, 30 or 80 messages since its title was set, and reports whether the title
// changed. A title that was set by hand is never replaced, not even one that is set
// while the Titler works. A title by a Titler has TitleBy in its [transcript.Meta].
//
// The title is the first line of the answer that has a letter or a digit, without
// control characters and surrounding quotes, cut to 60 runes. If there is no such line,
// nothing changes. The Titler gets at most 30 seconds. An error is that of the Titler
// or of the append; nothing was written then, and the next call asks again.
func (s *Session) Retitle(ctx context.Context, titler Titler) (changed bool, err error) {
	return s.retitle(ctx, titler, func(at int) bool { return at > 0 })
}

// maxAsked is for how many sessions Titles keeps when it has asked.
const maxAsked = 1024

// Titles returns a function for the [Options].AfterTurn of one store, which calls
// [Session.Retitle]. After an error it asks again at the next of the numbers.
func Titles(titler Titler) func(ctx context.Context, s *Session) error {
	var mu sync.Mutex      // guards asked
	asked := map[Ref]int{} // the milestone of the last try
	return func(ctx context.Context, s *Session) error {
		_, err := s.retitle(ctx, titler, func(at int) bool {
			mu.Lock()
			defer mu.Unlock()
			if at <= asked[s.ref] {
				return false
			}
			if len(asked) >= maxAsked {
				clear(asked)
			}
			asked[s.ref] = at
			return true
		})
		return err
	}
}

// retitle is Retitle if claim accepts the milestone, which is 0 if there is none.
func (s *Session) retitle(ctx context.Context, titler Titler, claim func(at int) bool) (changed bool, err error) {
	const op = "retitle"
	if s.store.opts.ReadOnly {
		return false, s.store.wrap(op, s.ref, ErrReadOnly)
	}
	var in []transcript.Message
	due, current := false, ""
	rev := 0
	err = s.view(ctx, op, func(v *View) error {
		info, err := v.Info()
		if err != nil {
			return err
		}
		if due, current, rev = claim(v.t.milestone()), info.Title, v.Rev(); due {
			in = titled(v.Fold().History().Messages)
		}
		return nil
	})
	if err != nil || !due {
		return false, err
	}
	asking, cancel := context.WithTimeout(ctx, titleTime)
	defer cancel()
	text, err := titler.Title(asking, in, current)
	if err != nil {
		return false, s.store.wrap(op, s.ref, err)
	}
	title := cleanTitle(text)
	if title == "" {
		return false, nil
	}
	ids, err := s.update(ctx, op, rev, func(v *View) ([]transcript.Item, error) {
		info, err := v.Info()
		if err != nil || info.TitleByHand {
			return nil, err
		}
		changed = title != info.Title
		return []transcript.Item{transcript.Meta{Title: &title, TitleBy: transcript.ByModel}}, nil
	})
	return changed && len(ids) > 0, err
}

// milestone is the last one that was reached since the title was set; 0 if there
// is none, or the title was set by hand. The row is filled.
func (r *reader) milestone() (at int) {
	if r.row.TitleByHand {
		return 0
	}
	for _, m := range milestones {
		if r.row.Messages >= m && r.row.TitledAt < m {
			at = m
		}
	}
	return at
}

// cleanTitle returns the title in the answer of a model.
func cleanTitle(text string) string {
	const longest = 4 << 10 // bytes that are looked at
	text = strings.ToValidUTF8(text[:min(len(text), longest)], "")
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, text)
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(line, "#*-> \t")
		if name, rest, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "title") {
			line = rest
		}
		line = strings.Trim(line, "\"'`*_“”„«» \t\n")
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			return titleOf(line)
		}
	}
	return ""
}

// How much of a conversation a Titler is given.
const (
	firstTitled = 4
	lastTitled  = 8
	runesTitled = 1_000
)

// titled returns the texts of the first and the last messages.
func titled(messages []transcript.Message) (texts []transcript.Message) {
	for _, m := range messages {
		text := strings.TrimSpace(m.Text())
		if text == "" {
			continue
		}
		one := transcript.UserText(cutRunes(text, runesTitled))
		if one.Role = m.Role; len(texts) == firstTitled+lastTitled {
			texts = append(texts[:firstTitled], texts[firstTitled+1:]...)
		}
		texts = append(texts, one)
	}
	return texts
}
