package soak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// soakModel asks a model of package guardtest. Reading each request of a long
// conversation anew takes most of the time of a soak. So a request that only adds
// messages to the one before is judged by these messages: rendered and read again
// with the earlier ones, by [wiretest.Validate], the window and the output limit.
// Every doubtful request goes to the model, and so does one in a fixed number.
type soakModel struct {
	*guardtest.Model
	every  int
	answer func() guardtest.Answer // for a valid request
	seen   func(body []byte)       // called with each request, unless it is nil

	asked   int    // requests
	judged  int    // requests that were judged here
	body    []byte // of the last request, up to the end of its messages
	start   int    // where its messages begin
	ends    []int  // where each of them ends
	read    []transcript.Message
	counted int // their tokens, counted one by one
}

var messagesMember = []byte(`"messages":[`)

// Complete implements guard.Client.
func (m *soakModel) Complete(ctx context.Context, req transcript.Request) (resp *transcript.Response, prompt int, err error) {
	body, _, err := anthropic.Format{}.Request(req)
	if err != nil {
		return nil, 0, err
	}
	if m.seen != nil {
		m.seen(body)
	}
	same, err := m.note(body)
	if err != nil {
		return nil, 0, err
	}
	var sent struct {
		MaxOutput int `json:"max_tokens"`
	}
	if err := json.Unmarshal(append(bytes.Clone(body[:m.start]), "]}"...), &sent); err != nil {
		return nil, 0, err
	}
	prompt = m.counted + m.count(req.System, req.Tools)
	req.Messages = m.read
	m.asked++
	if same && m.asked%m.every != 0 && prompt+sent.MaxOutput <= m.Window && sent.MaxOutput <= m.MaxOutput &&
		len(wiretest.Validate(req)) == 0 {
		m.judged++
		return m.say(m.answer(), prompt), prompt, nil
	}
	resp, err = storetest.Client{Model: m.Model}.Complete(ctx, req)
	if resp != nil {
		prompt = resp.Usage.Prompt()
	}
	return resp, prompt, err
}

// say makes a response of an answer.
func (m *soakModel) say(a guardtest.Answer, prompt int) *transcript.Response {
	r := &transcript.Response{Model: "m", StopReason: transcript.StopEndTurn, Usage: transcript.Usage{Input: prompt}}
	r.Message.Role = transcript.RoleAssistant
	if a.Text != "" {
		r.Message.Content = append(r.Message.Content, transcript.TextBlock{Text: a.Text})
	}
	for _, c := range a.Calls {
		r.Message.Content = append(r.Message.Content, c)
		r.StopReason = transcript.StopToolUse
	}
	r.Usage.Output = m.count("", nil, r.Message)
	return r
}

// note reads the messages of a request, and reports whether it still holds all
// messages of the last one.
func (m *soakModel) note(body []byte) (same bool, err error) {
	at := bytes.Index(body, messagesMember)
	if at < 0 || !bytes.HasSuffix(body, []byte("]}")) {
		return false, fmt.Errorf("no messages at the end of %.200s", body)
	}
	start := at + len(messagesMember)
	n := 0
	for n < len(m.ends) {
		size := m.ends[n] - m.start
		if start+size > len(body)-2 || !bytes.Equal(m.body[m.start:m.ends[n]], body[start:start+size]) {
			break
		}
		n++
	}
	same = n > 0 && n == len(m.ends)
	for i := range m.ends {
		m.ends[i] += start - m.start
	}
	m.ends, m.read = m.ends[:n], slices.Clip(m.read[:n])
	from := start
	if n > 0 {
		from = m.ends[n-1] + 1
	} else {
		m.counted = 0
	}
	if n > 0 && !same {
		m.counted = 0
		for _, msg := range m.read {
			m.counted += m.count("", nil, msg)
		}
	}
	m.body, m.start = body, start
	if n > 0 && body[m.ends[n-1]] == ']' {
		return same, nil // it is the same request
	}
	dec := json.NewDecoder(bytes.NewReader(append([]byte("["), body[min(from, len(body)):]...)))
	if _, err := dec.Token(); err != nil {
		return false, err
	}
	for dec.More() {
		var msg transcript.Message
		if err := dec.Decode(&msg); err != nil {
			return false, err
		}
		m.read = append(m.read, msg)
		m.ends = append(m.ends, from-1+int(dec.InputOffset()))
		m.counted += m.count("", nil, msg)
	}
	return same, nil
}

// count is the size of messages, or of the prompt before them.
func (m *soakModel) count(system string, tools []transcript.Tool, msgs ...transcript.Message) int {
	if m.Counter != nil {
		return m.Counter.Count(system, tools, msgs)
	}
	return tokens.Estimator{}.Count(system, tools, msgs)
}
