package uistream

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// An object holds the members of a chunk, which is one event of a stream.
type object = map[string]any

// stream streams the turn of a queued text from its beginning. If the server stops first,
// the connection is cut, and the client asks again.
func stream(q *serve.Request, s *session.Session, text string) error {
	lost, err := q.Lost(s)
	if err != nil {
		return err
	}
	return streamAfter(q, s, text, "", lost)
}

// streamAfter is like stream, from the frame after seen.
func streamAfter(q *serve.Request, s *session.Session, text, seen string, lost []string) error {
	q.Header.Del("Last-Event-ID") // every stream is a replay
	q.URL.RawQuery = ""
	t, err := q.Turn(s, text)
	if err != nil {
		return err
	}
	q.Writer.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	m := mapper{lost: lost, open: map[string]bool{}, held: map[string]string{}}
	q.Stream(func(ctx context.Context, send func(id, name string, data any) error) error {
		m.sends = func(members object) error { return send("", "", members) }
		m.send("start", object{"messageId": answerID(text)})
		m.seen = seen
		for f := range t.Frames(ctx) {
			m.add(f)
			rests, err := m.rests(q, s)
			if err != nil {
				return err
			}
			if rests {
				m.finish() // the client decides
			}
			if m.step == over || m.err != nil {
				break
			}
		}
		return nil
	})
	if m.step != over {
		return serve.Invalid("the answer continues on another server") // after the first byte it cuts the connection
	}
	_, _ = q.Writer.Write([]byte("data: [DONE]\n\n")) // fails if the client left
	return nil
}

// A mapper makes chunks of the frames of a turn. Each answer of the model is a step, with
// one part for its text. A void draft resets its step, and the client drops the text.
type mapper struct {
	sends func(object) error
	err   error  // of the first chunk that could not be sent
	seen  string // the client received the chunks of all frames up to this one

	step  step
	text  string            // the ID of the open text part
	parts int               // the number of parts with an ID
	open  map[string]bool   // calls without a result or a decision, by their IDs
	lost  []string          // the IDs of calls that no server runs
	held  map[string]string // IDs of calls that wait for a person, by their entries

	total  metadata
	stop   transcript.StopReason
	failed string // the reason for an incomplete answer
}

// A step is the state of the last step.
type step int

const (
	none    step = iota
	running      // the answer is unfinished
	done         // the answer is complete, and tools may run
	over         // the last chunk was sent
)

func (m *mapper) send(kind string, members object) {
	if m.err == nil && m.seen == "" {
		chunk := object{"type": kind}
		maps.Copy(chunk, members)
		m.err = m.sends(chunk)
	}
}

// rests reports whether the turn waits for decisions, and the client received every
// request. A replay may contain requests that are decided.
func (m *mapper) rests(q *serve.Request, s *session.Session) (bool, error) {
	if m.step == over || m.seen != "" || len(m.held) == 0 || slices.Contains(slices.Collect(maps.Values(m.open)), true) {
		return false, nil
	}
	waits, err := q.Waits(s)
	slices.Sort(waits)
	return slices.Equal(waits, slices.Sorted(maps.Keys(m.held))), err
}

// add sends the chunks of a frame.
func (m *mapper) add(f serve.Frame) {
	switch f.Kind {
	case "text":
		m.begin()
		if m.text == "" {
			m.text = m.part("text-")
			m.send("text-start", object{"id": m.text})
		}
		m.send("text-delta", object{"id": m.text, "delta": f.Text})
	case "thinking":
		m.begin()
		id := m.part("reasoning-")
		m.send("reasoning-start", object{"id": id})
		m.send("reasoning-delta", object{"id": id, "delta": f.Text})
		m.send("reasoning-end", object{"id": id})
	case "media":
		if file, ok := fileOf(f.Block); ok {
			m.begin()
			m.send("file", object{"url": file.URL, "mediaType": file.MediaType})
		}
	case "call":
		m.begin()
		c, _ := f.Block.(transcript.ToolCallBlock)
		m.open[c.ID] = !slices.Contains(m.lost, c.ID)
		m.send("tool-input-available", object{"toolCallId": c.ID, "toolName": c.Name, "input": inputOf(c)})
	case "result":
		if r, ok := f.Block.(transcript.ToolResultBlock); ok {
			m.result(r)
		}
	case "decision":
		d, _ := f.Body.(transcript.Decision)
		m.decide(d)
	case "answer":
		line, _ := f.Body.(transcript.MessageLine)
		m.endText()
		m.step, m.stop = done, line.StopReason
		m.total.Usage.add(line.Usage)
	case "reset":
		if m.step == running {
			m.text = ""
			m.send("reset-step", nil)
		}
	case "failed":
		m.failed = f.Text
	case "end":
		m.finish()
	}
	if m.seen == f.ID {
		m.seen = ""
	}
}

func (m *mapper) part(kind string) string {
	m.parts++
	return kind + strconv.Itoa(m.parts)
}

// begin begins a step unless the answer of the last step is unfinished.
func (m *mapper) begin() {
	if m.step == running {
		return
	}
	m.end()
	m.step = running
	m.send("start-step", nil)
}

func (m *mapper) end() {
	m.endText()
	if m.step != none {
		m.send("finish-step", nil)
	}
}

func (m *mapper) endText() {
	if m.text != "" {
		m.send("text-end", object{"id": m.text})
		m.text = ""
	}
}

func (m *mapper) result(r transcript.ToolResultBlock) {
	if r.IsError {
		m.sendOf(r.CallID, "tool-output-error", object{"errorText": said.Result(r)})
		return
	}
	m.sendOf(r.CallID, "tool-output-available", object{"output": outputOf(r)})
}

// sendOf sends a chunk about a call, which is not open any more. The client refuses chunks
// about calls of earlier answers, such as a late result.
func (m *mapper) sendOf(call, kind string, members object) {
	if _, ok := m.open[call]; ok {
		m.open[call] = false
		members["toolCallId"] = call
		m.send(kind, members)
	}
}

// decide sends a decision. An approval that the client did not ask for has no chunk.
func (m *mapper) decide(d transcript.Decision) {
	_, asked := m.held[d.Call]
	if d.Verdict == transcript.Hold {
		m.held[d.Call] = d.CallID
		m.sendOf(d.CallID, "tool-approval-request", object{"approvalId": d.Call})
		return
	}
	delete(m.held, d.Call)
	if _, ok := m.open[d.CallID]; ok && asked {
		m.send("tool-approval-response", object{"approvalId": d.Call, "approved": d.Verdict == transcript.Approve, "reason": d.Reason})
	}
	if d.Verdict == transcript.Reject {
		m.sendOf(d.CallID, "tool-output-denied", object{})
	}
}

// finishReasons maps reasons of models to reasons of the protocol.
var finishReasons = map[transcript.StopReason]string{
	"": "stop", transcript.StopEndTurn: "stop", transcript.StopSequence: "stop", transcript.StopToolUse: "tool-calls",
	transcript.StopMaxTokens: "length", transcript.StopContextWindow: "length", transcript.StopRefusal: "content-filter",
}

// finish sends the last chunks. An answer that was cut or stopped is interrupted, and its
// held calls are denied; any other failure is an error.
func (m *mapper) finish() {
	if m.failed != "" {
		for _, call := range slices.Sorted(maps.Values(m.held)) {
			m.sendOf(call, "tool-output-denied", object{})
		}
	}
	m.end()
	reason := cmp.Or(finishReasons[m.stop], "other")
	switch m.failed {
	case "":
	case "stopped", "aborted", "closed", "lost":
		m.send("abort", object{"reason": m.failed})
		reason = "interrupted"
	default:
		m.send("error", object{"errorText": "no complete answer: " + m.failed})
		reason = "error"
	}
	m.send("finish", object{"finishReason": reason, "messageMetadata": m.total})
	m.step = over
}
