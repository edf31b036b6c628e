package openairesponses

import (
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/openai"
	"github.com/convolog/convolog/transcript"
)

// clientCalls maps the calls of tools that the API defines and the client runs to
// their names in a transcript. The input of such a call is the member with the
// action: {"action":{"commands":["ls"]}}.
var clientCalls = map[string]string{
	"shell_call": "shell", "local_shell_call": "local_shell", "apply_patch_call": "apply_patch", "computer_call": "computer",
}

// askedFor are the members of these calls that describe the action.
var askedFor = []string{"action", "actions", "operation"}

// clientCall reads one of these calls.
func clientCall(raw []byte, kind string) transcript.ToolCallBlock {
	input := js.Object("action", js.Get(raw, "action"), "actions", js.Get(raw, "actions"), "operation", js.Get(raw, "operation"))
	extra := format.WithExt("type", kind, "item", js.Without(raw, append([]string{"type", "call_id"}, askedFor...)...).Object())
	return transcript.ToolCallBlock{ID: js.String(raw, "call_id"), Name: clientCalls[kind], Input: input.Bytes(), Extra: extra}
}

// clientOutput writes the output of one of these calls. A shell wants a list of
// each command's output and exit; any other text counts as one command's output. A
// computer wants a picture of its screen.
func (r *renderer) clientOutput(kind, id string, b transcript.ToolResultBlock, parts []transcript.Block) js.Written {
	said := b.Text()
	kindOut := kind + "_output"
	switch kind {
	case "local_shell_call":
		return js.Object("type", kindOut, "id", id, "output", said)
	case "shell_call":
		output := js.Value([]byte(said))
		if !isShellOutput(said) {
			output = js.List([]js.Written{shellOutput(said, b.IsError)}, js.As)
		}
		return js.Object("type", kindOut, "call_id", id, "output", output)
	case "apply_patch_call":
		status := map[bool]string{false: "completed", true: "failed"}[b.IsError]
		return js.Object("type", kindOut, "call_id", id, "status", status, "output", js.Opt(said))
	default: // computer_call
		image, _ := parts[slices.IndexFunc(parts, format.IsType[transcript.ImageBlock])].(transcript.ImageBlock)
		screen := js.Object("type", "computer_screenshot", "file_id", js.Opt(image.Source.FileID), "image_url", js.Opt(openai.SourceURL(image.Source)))
		return js.Object("type", kindOut, "call_id", id, "output", screen)
	}
}

func shellOutput(said string, failed bool) js.Written {
	if failed {
		return js.Object("stdout", "", "stderr", said, "outcome", js.Object("type", "exit", "exit_code", 1))
	}
	return js.Object("stdout", said, "stderr", "", "outcome", js.Object("type", "exit", "exit_code", 0))
}

// isShellOutput reports whether a text is the list that a shell call wants.
func isShellOutput(said string) bool {
	outputs := js.Elements([]byte(said))
	return jsontext.Valid([]byte(said)) && len(outputs) > 0 && !slices.ContainsFunc(outputs, func(e json.RawMessage) bool {
		return !js.HasOnly(e, "stdout", "stderr", "outcome") || !jsontext.IsObject(js.Get(e, "outcome"))
	})
}

// unshown returns the calls of a computer in answer i whose results have no picture
// of its screen. The results are in the messages up to the next answer.
func (r *renderer) unshown(i int) map[string]bool {
	without := map[string]bool{}
	isPicture := func(b transcript.Block) bool {
		image, ok := b.(transcript.ImageBlock)
		_, problem := r.Source(image.Source, "image")
		return ok && problem == ""
	}
	for _, m := range r.Req.Messages[i+1:] {
		if m.Role == transcript.RoleAssistant {
			break
		}
		for _, b := range m.Content {
			if res, ok := b.(transcript.ToolResultBlock); ok && !slices.ContainsFunc(res.Content, isPicture) {
				without[res.CallID] = true
			}
		}
	}
	return without
}
