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
	input := object("action", get(raw, "action"), "actions", get(raw, "actions"), "operation", get(raw, "operation"))
	extra := withExt("type", kind, "item", without(raw, append([]string{"type", "call_id"}, askedFor...)...).object())
	return transcript.ToolCallBlock{ID: stringMember(raw, "call_id"), Name: clientCalls[kind], Input: input.bytes(), Extra: extra}
}

// clientOutput writes the output of one of these calls. A shell wants what each
// command has written and how it ended; a text that is no such list is what the one
// command has written. A computer wants a picture of its screen.
func (r *responsesRenderer) clientOutput(kind, id string, b transcript.ToolResultBlock, parts []transcript.Block) written {
	said := b.Text()
	kindOut := kind + "_output"
	switch kind {
	case "local_shell_call":
		return object("type", kindOut, "id", id, "output", said)
	case "shell_call":
		output := value([]byte(said))
		if !isShellOutput(said) {
			output = list([]written{shellOutput(said, b.IsError)}, as)
		}
		return object("type", kindOut, "call_id", id, "output", output)
	case "apply_patch_call":
		status := map[bool]string{false: "completed", true: "failed"}[b.IsError]
		return object("type", kindOut, "call_id", id, "status", status, "output", opt(said))
	default: // computer_call
		image, _ := parts[slices.IndexFunc(parts, isType[transcript.ImageBlock])].(transcript.ImageBlock)
		screen := object("type", "computer_screenshot", "file_id", opt(image.Source.FileID), "image_url", opt(sourceURL(image.Source)))
		return object("type", kindOut, "call_id", id, "output", screen)
	}
}

func shellOutput(said string, failed bool) written {
	if failed {
		return object("stdout", "", "stderr", said, "outcome", object("type", "exit", "exit_code", 1))
	}
	return object("stdout", said, "stderr", "", "outcome", object("type", "exit", "exit_code", 0))
}

// isShellOutput reports whether a text is the list that a shell call wants.
func isShellOutput(said string) bool {
	outputs := elements([]byte(said))
	return jsontext.Valid([]byte(said)) && len(outputs) > 0 && !slices.ContainsFunc(outputs, func(e json.RawMessage) bool {
		return !hasOnly(e, "stdout", "stderr", "outcome") || !jsontext.IsObject(get(e, "outcome"))
	})
}

// unshown returns the calls of a computer in answer i whose results have no picture
// of its screen. The results are in the messages up to the next answer.
func (r *responsesRenderer) unshown(i int) map[string]bool {
	without := map[string]bool{}
	for _, m := range r.req.Messages[i+1:] {
		if m.Role == transcript.RoleAssistant {
			break
		}
		for _, b := range m.Content {
			if res, ok := b.(transcript.ToolResultBlock); ok && !slices.ContainsFunc(res.Content, r.takesAsImage) {
				without[res.CallID] = true
			}
		}
	}
	return without
}

// takesAsImage reports whether a block is an image that the API takes.
func (r *responsesRenderer) takesAsImage(b transcript.Block) bool {
	image, ok := b.(transcript.ImageBlock)
	_, problem := r.source(image.Source, "image")
	return ok && problem == ""
}
