// Package remember is a model's part in making memories, as a script: it finds a few
// sentences about the user.
package remember

import (
	"cmp"
	"encoding/json"
	"strings"
)

// Candidates returns the memories from a conversation, as JSON.
func Candidates(conversation string) string {
	type candidate struct {
		Category string `json:"category"`
		Topic    string `json:"topic"`
		Abstract string `json:"abstract"`
	}
	found := []candidate{}
	for line := range strings.Lines(conversation) {
		_, line, ok := strings.Cut(line, "[user]: ")
		for sentence := range strings.SplitAfterSeq(line, ". ") {
			sentence = strings.TrimSpace(sentence)
			switch {
			case !ok || strings.HasSuffix(sentence, "?"):
			case strings.Contains(sentence, "I live"):
				_, about, _ := strings.Cut(sentence, "! ")
				found = append(found, candidate{"profile", "about the user", cmp.Or(about, sentence)})
			case strings.Contains(sentence, "I prefer"):
				found = append(found, candidate{"preferences", "answers", sentence})
			}
		}
	}
	text, _ := json.Marshal(found) // of strings
	return string(text)
}
