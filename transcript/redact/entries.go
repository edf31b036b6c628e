package redact

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Entries returns the entries of one append, or of several whole ones, with their texts
// as hook returns them. Texts are messages, reasoning, results, summaries, titles, labels,
// drafts and other strings of a line. In the input of a call and in data of an application
// every string is a text, and so is the name of a member; in the lines of other programs
// that an import keeps, every string. Hook gets these strings again with the name of their
// member, as in password="x"; in a pair such as {"name":"password","value":"x"} that is
// the name of the pair. It also gets all strings of a short array, as words of a command.
// It is not called with IDs, names, types, signatures, numbers and the bytes of media.
//
// An answer that hook changes loses its reasoning, which was signed for other words. A
// changed line with a checksum gets a new one. Entries does not modify entries. It
// fails if an entry cannot be written as a line.
func Entries(entries []transcript.Entry, hook func(text string) string) ([]transcript.Entry, error) {
	out := make([]transcript.Entry, len(entries))
	answers := map[string]bool{} // IDs of the first lines of changed answers
	for i, e := range entries {
		got, changed, err := redactEntry(e, hook)
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
		out[i] = got
		if id, ok := answerOf(e); ok && changed {
			answers[id] = true
		}
	}
	for i, e := range out {
		if id, ok := answerOf(e); !ok || !answers[id] {
			continue
		}
		bare, err := unreasoned(e)
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
		out[i] = bare
	}
	return out, nil
}

// answerOf returns the ID of the first line of the answer that an entry is part of.
func answerOf(e transcript.Entry) (id string, ok bool) {
	f, ok := e.Body.(transcript.MessageLine)
	return cmp.Or(f.Of, e.ID), ok && f.Role == transcript.RoleAssistant
}

func redactEntry(e transcript.Entry, hook func(string) string) (_ transcript.Entry, changed bool, err error) {
	r := redaction{hook: func(text string) string { return strings.ToValidUTF8(hook(text), "\uFFFD") }}
	switch e.Body.(type) {
	case transcript.Commit, transcript.Extracted:
		r.refers = true
	}
	line := r.redact(e.Line(), ofLine)
	if !r.changed {
		return e, false, nil
	}
	e, err = transcript.ParseEntry(checksum.Renew(line))
	return e, true, err
}

func unreasoned(e transcript.Entry) (transcript.Entry, error) {
	gone := false
	line := jsontext.MapMembers(e.Line(), func(name string, v []byte) []byte {
		if name != "content" {
			return v
		}
		return jsontext.MapElements(v, func(block []byte) []byte {
			kind, _ := jsontext.Member(block, "type")
			if name, _ := jsontext.String(kind); name != "thinking" && name != "redacted_thinking" {
				return block
			}
			gone = true
			return nil
		})
	})
	if !gone {
		return e, nil
	}
	return transcript.ParseEntry(checksum.Renew(line))
}
