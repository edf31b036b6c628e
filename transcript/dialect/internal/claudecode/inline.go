package claudecode

import (
	"bytes"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// Inline finds the helpers of a file whose rows are among the rows of their session.
// Versions before 2 wrote them so: a helper begins with a row without a parent, and its
// text is the prompt of the call that started it. The zero value is ready.
type Inline struct {
	helpers []Helper
	of      map[string]int // uuid of a row -> its helper
	tasks   []task
}

// A Helper is the conversation of a helper in the file of its session.
type Helper struct {
	Root       string // uuid of its first row
	Start, End int64  // offsets of its first row and after its last one
	// Parent is the root of the helper that started this one, empty for the session.
	// Call is the call there, empty if none has its prompt.
	Parent, Call string

	prompt string
}

// A task is a call that may have started a helper.
type task struct{ parent, call, prompt string }

// Note learns from a row. Aside is set if the reader of the session has set it aside as
// a row of a helper.
func (in *Inline) Note(line []byte, start, end int64, aside bool) {
	side := aside || bytes.Contains(line, []byte(`"isSidechain":true`))
	calls := bytes.Contains(line, []byte(`"tool_use"`)) && bytes.Contains(line, []byte(`"prompt"`))
	if !side && !calls {
		return
	}
	r := fields.Of(line)
	message := r.Object("message")
	parent := ""
	if side {
		n, known := in.of[r.Str("parentUuid")]
		if !known && aside {
			content, _ := message.Content("content")
			in.helpers = append(in.helpers, Helper{Root: r.Str("uuid"), Start: start, prompt: fields.User(content...).Message().Text()})
			n, known = len(in.helpers)-1, true
		}
		if !known {
			return
		}
		if in.of == nil {
			in.of = map[string]int{}
		}
		in.of[r.Str("uuid")], in.helpers[n].End = n, end
		parent = in.helpers[n].Root
	}
	for block := range jsontext.Elements(message["content"]) {
		b := fields.Of(block)
		if prompt := b.Object("input").Str("prompt"); b.Str("type") == "tool_use" && prompt != "" {
			in.tasks = append(in.tasks, task{parent, b.Str("id"), prompt})
		}
	}
}

// Helpers returns the helpers in the order of the file. Of several calls with the same
// prompt, each has started one.
func (in *Inline) Helpers() []Helper {
	tasks := slices.Clone(in.tasks)
	for i := range in.helpers {
		h := &in.helpers[i]
		n := slices.IndexFunc(tasks, func(t task) bool { return t.prompt == h.prompt && t.parent != h.Root })
		if n >= 0 {
			h.Parent, h.Call = tasks[n].parent, tasks[n].call
			tasks = slices.Delete(tasks, n, n+1)
		}
	}
	return in.helpers
}

// rowsOf are the rows of one helper.
type rowsOf struct {
	uuids   map[string]bool
	offsets map[int64]bool
}

// learn reports whether a row is one of the helper.
func (o *rowsOf) learn(r fields.Record, offset int64) bool {
	uuid := r.Str("uuid")
	if !o.uuids[uuid] && !o.uuids[r.Str("parentUuid")] || uuid == "" || !r.Flag("isSidechain") {
		return false
	}
	o.uuids[uuid], o.offsets[offset] = true, true
	return true
}
