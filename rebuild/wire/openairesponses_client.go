package wire

import (
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// clientCalls are the calls of tools that the API defines and the client runs, with
// the names that their calls have in a transcript. What such a call asks for is its
// input, under the member that it came in: {"action":{"commands":["ls"]}}.
var clientCalls = map[string]string{
	"shell_call": "shell", "local_shell_call": "local_shell", "apply_patch_call": "apply_patch", "computer_call": "computer",
}

// askedFor are the members of these calls that say what is to be done.
var askedFor = []string{"action", "actions", "operation"}

// clientCall reads one of these calls.
func clientCall(raw []byte, kind string) transcript.ToolCallBlock {
	input := jsontext.AppendObject(nil)
	for _, name := range askedFor {
		if value, ok := jsontext.Member(raw, name); ok {
			input.Value(name, value)
		}
	}
	extra := withExt("type", kind, "item", without(raw, append([]string{"type", "call_id"}, askedFor...)...))
	return transcript.ToolCallBlock{ID: stringMember(raw, "call_id"), Name: clientCalls[kind], Input: input.End(), Extra: extra}
}

// appendAsked writes what a call asks for.
func appendAsked(o *jsontext.Object, input json.RawMessage) {
	for name, value := range jsontext.Members(input) {
		if slices.Contains(askedFor, name) {
			o.Value(name, value)
		}
	}
}

// isAsked reports whether the input of a call says what is to be done, and nothing
// besides.
func isAsked(input json.RawMessage) bool {
	n := 0
	for name := range jsontext.Members(input) {
		if !slices.Contains(askedFor, name) {
			return false
		}
		n++
	}
	return n > 0
}

// clientOutput writes the output of one of these calls. A shell wants what each
// command has written and how it ended; a text that is no such list is what the one
// command has written. A computer wants a picture of its screen.
func (r *responsesRenderer) clientOutput(kind, id string, b transcript.ToolResultBlock, parts []openAIPart) written {
	said := b.Text()
	members := []any{"type", kind + "_output", "call_id", id}
	switch kind {
	case "local_shell_call":
		return object("type", kind+"_output", "id", id, "output", said)
	case "shell_call":
		output := written(nil)
		if isShellOutput(said) {
			output = value([]byte(said))
		} else {
			output = list([]bool{b.IsError}, func(failed bool) written { return shellOutput(said, failed) })
		}
		members = append(members, "output", output)
	case "apply_patch_call":
		status := map[bool]string{false: "completed", true: "failed"}[b.IsError]
		members = append(members, "status", status, "output", opt(said))
	case "computer_call":
		p := parts[slices.IndexFunc(parts, isImage)]
		members = append(members, "output", object("type", "computer_screenshot", "file_id", opt(p.fileID), "image_url", opt(p.url)))
	}
	return object(members...)
}

func isImage(p openAIPart) bool { return p.kind == openAIImage }

func shellOutput(said string, failed bool) written {
	if failed {
		return object("stdout", "", "stderr", said, "outcome", object("type", "exit", "exit_code", 1))
	}
	return object("stdout", said, "stderr", "", "outcome", object("type", "exit", "exit_code", 0))
}

// isShellOutput reports whether a text is the list that a shell call wants.
func isShellOutput(said string) bool {
	if !jsontext.Valid([]byte(said)) || !jsontext.IsArray([]byte(said)) {
		return false
	}
	n := 0
	for e := range jsontext.Elements([]byte(said)) {
		outcome, _ := jsontext.Member(e, "outcome")
		if !hasOnly(e, "stdout", "stderr", "outcome") || !jsontext.IsObject(outcome) {
			return false
		}
		n++
	}
	return n > 0
}

// unshown returns the calls of a computer in answer i whose results have no picture
// of its screen. The results are in the next message.
func (r *responsesRenderer) unshown(i int) map[string]bool {
	without := map[string]bool{}
	if i+1 < len(r.req.Messages) {
		for _, b := range r.req.Messages[i+1].Content {
			if res, ok := b.(transcript.ToolResultBlock); ok && !slices.ContainsFunc(res.Content, takesAsImage) {
				without[res.CallID] = true
			}
		}
	}
	return without
}

// takesAsImage reports whether a block is an image that the API takes.
func takesAsImage(b transcript.Block) bool {
	image, ok := b.(transcript.ImageBlock)
	_, problem := cleanSource(image.Source, "image")
	return ok && problem == "" && (image.Source.Type != "file" || isOpenAIFile(image.Source.FileID))
}
