package rebuild

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/transcript"
)

// For returns messages of a [History] in the form that the model and the endpoint of c
// take. Notes replace media that they refused or do not take. Refused reasoning goes if
// its API signs it. All blocks of refused answers count as blocks of another model, so
// renderers leave out any data for the maker alone. The same applies to blocks that
// another endpoint of Gemini or of the Responses API made, if both endpoints are known.
// Texts and calls stay.
//
// The mark is a hash of the omissions of c, or empty without omissions. It follows the
// [PromptHash] in [transcript.Made], so signed reasoning never crosses between requests
// with different omissions. In the result, answers with the same mark lose it, so that
// [Reasoned] takes them with the hash alone.
//
// For does not modify the given messages, which may be a result of For.
func For(messages []transcript.Message, c transcript.Calibration) (out []transcript.Message, mark string) {
	unread := answersUpTo(messages, c.Unread)
	if len(c.Without)+len(c.Left) > 0 {
		mark = markOf(c)
	}
	answers := map[*transcript.Answer]*transcript.Answer{}
	out = slices.Clone(messages)
	for i, m := range messages {
		own := false // whether the message has slices of its own
		for j, o := range m.Origins[:min(len(m.Origins), len(m.Content))] {
			b, from := shownAs(m.Content[j], o, c), o
			if unread[o.Entry] || isForeign(o, c.Endpoint) {
				from.Model = otherModel
			}
			switch {
			case mark == "" || o.Answer == nil:
			case !c.Takes().Has(transcript.Signatures):
				from.Answer = nil // nothing is bound there
			default:
				from.Answer = marked(answers, o.Answer, mark)
			}
			if b == nil && from == o {
				continue
			}
			if !own {
				out[i].Content, out[i].Origins = slices.Clone(m.Content), slices.Clone(m.Origins)
				own = true
			}
			if out[i].Origins[j] = from; b != nil {
				out[i].Content[j] = b
			}
		}
	}
	if len(unread) > 0 {
		out = Without(out, func(b transcript.Block, o transcript.Origin) bool {
			return transcript.IsReasoning(b) && unread[o.Entry] && (o.API == "" || signs(o.API))
		})
	}
	return out, mark
}

// otherModel is a name that no model has.
const otherModel = "\x00other"

// isForeign reports whether another endpoint made a block that only that endpoint can
// read.
func isForeign(o transcript.Origin, endpoint string) bool {
	if o.Answer == nil || endpoint == "" || o.API != "gemini" && o.API != "openai-responses" {
		return false
	}
	made := o.Answer.Made.Endpoint
	return made != "" && made != endpoint
}

// answersUpTo returns the entries of the answers up to the last block of an entry.
func answersUpTo(messages []transcript.Message, entry string) map[string]bool {
	all, found := map[string]bool{}, false
	for _, m := range slices.Backward(messages) {
		for _, o := range slices.Backward(m.Origins) {
			found = found || entry != "" && o.Entry == entry
			if found && m.Role == transcript.RoleAssistant && o.Entry != "" {
				all[o.Entry] = true
			}
		}
	}
	return all
}

func markOf(c transcript.Calibration) string {
	var all []string
	for _, f := range c.Without {
		all = append(all, string(f))
	}
	for _, b := range c.Left {
		all = append(all, fmt.Sprint(b.Entry, " ", b.Block))
	}
	slices.Sort(all)
	text, _ := json.Marshal(all) // never fails
	sum := sha256.Sum256(text)
	return "." + base64.RawURLEncoding.EncodeToString(sum[:6])
}

// marked returns a copy of a. If its request had this mark, it gets the hash of a
// request without a mark, else a hash of no such request.
func marked(done map[*transcript.Answer]*transcript.Answer, a *transcript.Answer, mark string) *transcript.Answer {
	if done[a] == nil {
		is := *a
		hash, same := strings.CutSuffix(a.Made.PromptHash, mark)
		if !same {
			hash += mark
		}
		is.Made.PromptHash = hash
		done[a] = &is
	}
	return done[a]
}

// shownAs returns what replaces a block, or nil.
func shownAs(b transcript.Block, o transcript.Origin, c transcript.Calibration) transcript.Block {
	why := ""
	if slices.Contains(c.Left, transcript.BlockRef{Entry: o.Entry, Block: o.Block}) {
		why = "the service refused it"
	}
	switch b := b.(type) {
	case transcript.ImageBlock, transcript.DocumentBlock:
		if !c.Takes().Has(transcript.Form(transcript.BlockType(b) + "s")) {
			why = "the model takes none"
		}
		if why != "" {
			return transcript.TextBlock{Text: neutral.MediaNote(b, o.Entry, why)}
		}
	case transcript.ToolResultBlock:
		var content []transcript.Block
		for k, inner := range b.Content {
			if transcript.IsMedia(inner) {
				if shown := shownAs(inner, o, c); shown != nil {
					if content == nil {
						content = slices.Clone(b.Content)
					}
					content[k] = shown
				}
			}
		}
		if content != nil {
			return b.WithContent(content...)
		}
	}
	return nil
}
