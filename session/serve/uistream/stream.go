package uistream

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

// A chunk is one event of a stream.
type chunk struct {
	Type         string          `json:"type"`
	ID           string          `json:"id,omitempty"`
	MessageID    string          `json:"messageId,omitempty"`
	Delta        string          `json:"delta,omitempty"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Output       any             `json:"output,omitempty"`
	ErrorText    string          `json:"errorText,omitempty"`
	ApprovalID   string          `json:"approvalId,omitempty"`
	Approved     *bool           `json:"approved,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	URL          string          `json:"url,omitempty"`
	MediaType    string          `json:"mediaType,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
	Metadata     *metadata       `json:"messageMetadata,omitempty"`
}

// stream streams the turn of a queued text from its beginning, or from the frame after
// seen. If the server stops first, the connection is cut, and the client asks again.
func stream(q *serve.Request, s *session.Session, text, seen string) error {
	q.Header.Del("Last-Event-ID") // every stream is a replay
	q.URL.RawQuery = ""
	t, err := q.Turn(s, text)
	if err != nil {
		return err
	}
	q.Writer.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	m := mapper{open: map[string]bool{}, held: map[string]bool{}}
	q.Stream(func(ctx context.Context, send func(id, name string, data any) error) error {
		m.sends = func(c chunk) error { return send("", "", c) }
		m.send(chunk{Type: "start", MessageID: answerID(text)})
		m.seen = seen
		for f := range t.Frames(ctx) {
			if m.add(f); m.step == over || m.err != nil {
				break
			}
		}
		return nil
	})
	if m.step != over {
		return errCut
	}
	_, _ = q.Writer.Write([]byte("data: [DONE]\n\n")) // fails if the client left
	return nil
}

// A mapper makes chunks of the frames of a turn. Each answer of the model is a step, with
// one part for its text. A void draft resets its step, and the client drops the text.
type mapper struct {
	sends func(chunk) error
	err   error  // of the first chunk that could not be sent
	seen  string // the client has the chunks of all frames up to this one

	step  step
	text  string          // the ID of the open text part
	parts int             // the number of parts with an ID
	open  map[string]bool // calls without a result or a decision, by their IDs
	held  map[string]bool // calls that wait for a person, by their entries

	total  metadata
	stop   transcript.StopReason
	failed string // the reason why the turn has no complete answer
}

// A step is the state of the last step.
type step int

const (
	none    step = iota
	running      // the answer is unfinished
	done         // the answer is complete, and tools may run
	over         // the last chunk was sent
)

func (m *mapper) send(c chunk) {
	if m.err == nil && m.seen == "" {
		m.err = m.sends(c)
	}
}

// add sends the chunks of a frame.
func (m *mapper) add(f serve.Frame) {
	switch f.Kind {
	case "text":
		m.begin()
		if m.text == "" {
			m.text = m.part("text-")
			m.send(chunk{Type: "text-start", ID: m.text})
		}
		m.send(chunk{Type: "text-delta", ID: m.text, Delta: f.Text})
	case "thinking":
		m.begin()
		id := m.part("reasoning-")
		m.send(chunk{Type: "reasoning-start", ID: id})
		m.send(chunk{Type: "reasoning-delta", ID: id, Delta: f.Text})
		m.send(chunk{Type: "reasoning-end", ID: id})
	case "media":
		if file, ok := fileOf(f.Block); ok {
			m.begin()
			m.send(chunk{Type: "file", URL: file.URL, MediaType: file.MediaType})
		}
	case "call":
		m.begin()
		c, _ := f.Block.(transcript.ToolCallBlock)
		m.open[c.ID] = true
		m.send(chunk{Type: "tool-input-available", ToolCallID: c.ID, ToolName: c.Name, Input: inputOf(c)})
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
			m.send(chunk{Type: "reset-step"})
		}
	case "failed":
		m.failed = f.Text
	case "end":
		m.finish()
	}
	switch {
	case m.seen != "" && m.seen == f.ID:
		m.seen = ""
	case m.seen == "" && m.step != over && len(m.held) > 0 && len(m.open) == 0:
		m.finish() // the client decides
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
	m.send(chunk{Type: "start-step"})
}

func (m *mapper) end() {
	m.endText()
	if m.step != none {
		m.send(chunk{Type: "finish-step"})
	}
}

func (m *mapper) endText() {
	if m.text != "" {
		m.send(chunk{Type: "text-end", ID: m.text})
		m.text = ""
	}
}

func (m *mapper) result(r transcript.ToolResultBlock) {
	delete(m.open, r.CallID)
	if r.IsError {
		m.send(chunk{Type: "tool-output-error", ToolCallID: r.CallID, ErrorText: said.Result(r)})
		return
	}
	m.send(chunk{Type: "tool-output-available", ToolCallID: r.CallID, Output: outputOf(r)})
}

// decide sends a decision. An approval that the client did not ask for has no chunk.
func (m *mapper) decide(d transcript.Decision) {
	delete(m.open, d.CallID)
	asked := m.held[d.Call]
	switch d.Verdict {
	case transcript.Hold:
		m.held[d.Call] = true
		m.send(chunk{Type: "tool-approval-request", ApprovalID: d.Call, ToolCallID: d.CallID})
		return
	case transcript.Approve:
		m.open[d.CallID] = true
	}
	delete(m.held, d.Call)
	if asked {
		m.send(chunk{Type: "tool-approval-response", ApprovalID: d.Call, Approved: new(d.Verdict == transcript.Approve), Reason: d.Reason})
	}
	if d.Verdict == transcript.Reject {
		m.send(chunk{Type: "tool-output-denied", ToolCallID: d.CallID})
	}
}

// finishReasons maps reasons of models to reasons of the protocol.
var finishReasons = map[transcript.StopReason]string{
	"": "stop", transcript.StopEndTurn: "stop", transcript.StopSequence: "stop", transcript.StopToolUse: "tool-calls",
	transcript.StopMaxTokens: "length", transcript.StopContextWindow: "length", transcript.StopRefusal: "content-filter",
}

// finish sends the last chunks. An answer that was cut or stopped is interrupted; any
// other failure is an error.
func (m *mapper) finish() {
	m.end()
	last := chunk{Type: "finish", FinishReason: cmp.Or(finishReasons[m.stop], "other"), Metadata: &m.total}
	switch m.failed {
	case "":
	case "stopped", "aborted", "closed", "lost":
		m.send(chunk{Type: "abort", Reason: m.failed})
		last.FinishReason = "interrupted"
	default:
		m.send(chunk{Type: "error", ErrorText: "no complete answer: " + m.failed})
		last.FinishReason = "error"
	}
	m.send(last)
	m.step = over
}
