package memory

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/internal/lazy"
)

// The bounds of the memories from one commit.
const (
	maxCandidates = 200
	maxText       = 32 << 10 // bytes of a memory
	maxMemory     = 1 << 20  // bytes of its file after a person's edits
	maxAbstract   = 400      // bytes
	maxTopic      = 200      // bytes
	maxName       = 90       // bytes of the encoded topic in the name of a file
)

// unknown replaces all invalid categories.
const unknown Category = "unknown"

// An offer is a candidate to store, or the reason to refuse it.
type offer struct {
	Candidate
	code, reason string
	count        int // merged candidates, if more than one
}

// accept returns the candidates as offers. Candidates beyond the bound become one
// offer for each category.
func accept(found []Candidate) (offers []offer) {
	for _, c := range found[:min(len(found), maxCandidates)] {
		offers = append(offers, acceptOne(c))
	}
	surplus := map[Category]int{}
	for _, c := range found[len(offers):] {
		if !c.Category.valid() {
			c.Category = unknown
		}
		surplus[c.Category]++
	}
	for _, c := range append(slices.Clone(categories), unknown) {
		if n := surplus[c]; n > 0 {
			reason := fmt.Sprintf("one commit teaches %d things at most", maxCandidates)
			offers = append(offers, offer{Candidate{Category: c}, "too_many", reason, n})
		}
	}
	return offers
}

func acceptOne(c Candidate) offer {
	refuse := func(code, format string, args ...any) offer {
		return offer{Candidate{Category: c.Category}, code, fmt.Sprintf(format, args...), 0}
	}
	if name := c.Category; !name.valid() {
		c.Category = unknown
		return refuse("unknown_category", "%q is no category", clip(string(name), 60))
	}
	if n := c.size() + len(c.Topic); n > maxText {
		return refuse("too_large", "%d bytes are more than %d", n, maxText)
	}
	c.Text, c.Topic = c.normal(), clip(oneLine(c.Topic), maxTopic)
	if c.Abstract == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(c.Overview, c.Content)), "\n")
		c.Abstract = oneLine(first)
	}
	if c.Abstract == "" {
		return refuse("empty", "it says nothing")
	}
	if len(c.Abstract) > maxAbstract {
		c.Content = normalLines(c.Abstract + "\n\n" + c.Content)
		c.Abstract = clip(c.Abstract, maxAbstract)
	}
	c.Topic = cmp.Or(c.Topic, clip(c.Abstract, maxTopic))
	c.Instruction = c.Instruction || instructs(c.Text)
	return offer{Candidate: c}
}

// clip cuts a text between two characters, and marks the cut.
func clip(s string, most int) string {
	const more = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

// instruction finds texts that command an assistant, by words that such texts
// share. It marks texts for people to review; it is no protection.
var instruction = lazy.New(`(?i)` +
	`\b(ignore|disregard|forget|override|ignoriere|vergiss|ignora|olvida|oublie[rz]?)\b.{0,40}\b(instructions?|prompts?|rules?|guidelines|anweisungen|regeln|instrucciones|reglas|consignes)\b` +
	`|\b(you must|you are now|you will now|from now on,? (you|always|never|act|respond|reply|answer)|system prompt|developer message|act as|pretend to be|do not tell the user|always (respond|reply|answer|run|execute|call|send|obey)|never (refuse|mention|tell|reveal))\b` +
	`|\b(assistant|model|ai|agent)\b.{0,20}\b(must|should|has to|needs to)\b` +
	`|<\|?(system|im_start|assistant)\b|\[/?INST\]` +
	`|忽略.{0,20}(指令|指示|提示|规则)|無視.{0,20}(指示|命令)|(指示|命令).{0,10}無視|你(必须|現在是|现在是)|系统提示` +
	`|игнорируй|забудь.{0,20}инструкци|무시.{0,20}(지시|명령)|(지시|명령).{0,10}무시`)

func instructs(t Text) bool {
	return instruction.Get().MatchString(strings.Join(strings.Fields(t.Abstract+" "+t.Overview+" "+t.Content), " "))
}

// fileName returns the name of a file for a new memory. It consists of the
// topic's letters and digits, so a candidate cannot choose a path.
func (v *view) fileName(folder string, c Candidate, commit string, n int) string {
	if c.Category == profile {
		return path.Join(folder, profileName+extension)
	}
	name := cmp.Or(slug(c.Topic), "memory")
	if !c.Category.merges() {
		name = fmt.Sprintf("%s-%s-%d", name, commit[max(len(commit)-12, 0):], n)
	}
	for i := 1; ; i++ {
		numbered := name
		if i > 1 {
			numbered = fmt.Sprintf("%s-%d", name, i)
		}
		file := path.Join(folder, filename.Encode(numbered)+extension)
		if !v.files[strings.ToLower(file)] {
			return file
		}
	}
}

// slug returns the letters and digits of a topic, with a sign between words.
func slug(topic string) string {
	words := strings.FieldsFunc(strings.ToLower(topic), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	runes := []rune(strings.Join(words, "-"))
	for len(filename.Encode(string(runes))) > maxName {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), "-")
}
