package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// scripted is a model that needs no network: an http.RoundTripper that answers
// like the Messages API. It refuses every request the real one would refuse,
// calls tools when it is asked about files or the time, and streams.
type scripted struct {
	wait func(context.Context) error // before each event
}

// pace waits for as long as lets one watch an answer stream.
func pace(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(8 * time.Millisecond):
		return nil
	}
}

func (m scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var req transcript.Request
	if err := json.Unmarshal(body, &req); err != nil {
		return refuse(r, err.Error()), nil
	}
	if v := rebuild.Validate(rebuild.Anthropic, req); len(v) > 0 {
		return refuse(r, v[0].Text), nil
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(m.stream(r.Context(), pw, reply(req))) }()
	return response(r, http.StatusOK, pr), nil
}

func response(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Request-Id": {"req_scripted"}}, Body: body, Request: r}
}

func refuse(r *http.Request, text string) *http.Response {
	body, err := json.Marshal(map[string]any{
		"type": "error", "error": map[string]string{"type": "invalid_request_error", "message": text},
	})
	if err != nil {
		body = []byte(text)
	}
	return response(r, http.StatusBadRequest, io.NopCloser(bytes.NewReader(body)))
}

// reply is what the model says to a request.
func reply(req transcript.Request) []transcript.Block {
	last := req.Messages[len(req.Messages)-1]
	var results []transcript.ToolResultBlock
	text := ""
	for _, b := range last.Content {
		switch b := b.(type) {
		case transcript.ToolResultBlock:
			results = append(results, b)
		case transcript.TextBlock:
			text = b.Text
		}
	}
	if text == "" && len(results) > 0 {
		var sb strings.Builder
		sb.WriteString("This is what I found:\n")
		for _, r := range results {
			fmt.Fprintf(&sb, "%s\n", cut(r.Text(), 300))
		}
		return []transcript.Block{transcript.TextBlock{Text: strings.TrimSpace(sb.String())}}
	}
	if calls := callsFor(text, len(req.Messages)); len(calls) > 0 {
		return append([]transcript.Block{transcript.TextBlock{Text: "Let me look."}}, calls...)
	}
	return []transcript.Block{transcript.TextBlock{Text: remember(req, text)}}
}

// callsFor returns the tool calls that a text asks for. n makes their IDs
// differ from those of earlier turns.
func callsFor(text string, n int) (calls []transcript.Block) {
	add := func(name string, args map[string]string) {
		input, err := json.Marshal(args)
		if err != nil {
			return
		}
		calls = append(calls, transcript.ToolCallBlock{ID: fmt.Sprintf("toolu_%d_%d", n, len(calls)), Name: name, Input: input})
	}
	words := strings.Fields(strings.ToLower(text))
	for i, w := range words {
		switch strings.Trim(w, ".,;:?!") {
		case "read":
			for _, file := range words[i+1:] {
				if file = strings.Trim(file, ",;:?!"); strings.ContainsAny(file, "./") {
					add("read_file", map[string]string{"path": original(text, file)})
				}
			}
		case "list":
			add("list_directory", map[string]string{"path": "."})
		case "time":
			add("current_time", map[string]string{})
		}
	}
	return calls
}

// original finds a lower-cased word in the text it came from.
func original(text, word string) string {
	if i := strings.Index(strings.ToLower(text), word); i >= 0 && i+len(word) <= len(text) {
		return text[i : i+len(word)]
	}
	return word
}

// remember shows that the model was given the whole conversation.
func remember(req transcript.Request, text string) string {
	var said []string
	for _, m := range req.Messages {
		if m.Role == transcript.RoleUser && m.Text() != "" {
			said = append(said, m.Text())
		}
	}
	answer := fmt.Sprintf("You said %q.", cut(text, 80))
	if n := len(said); n > 1 {
		answer += fmt.Sprintf(" I remember %d earlier messages of yours; the first was %q.", n-1, cut(said[0], 60))
	}
	return answer + " (I am a script. Ask me to list the folder, to read README.md or for the time.)"
}

// stream writes an answer as server-sent events, a word at a time.
func (m scripted) stream(ctx context.Context, w io.Writer, blocks []transcript.Block) error {
	stop := transcript.StopEndTurn
	events := []string{`{"type":"message_start","message":{"role":"assistant","model":"scripted","content":[],"usage":{"input_tokens":0,"output_tokens":0}}}`}
	for i, b := range blocks {
		start, kind, pieces := transcript.MarshalBlock(b), "text", []string{}
		switch b := b.(type) {
		case transcript.TextBlock:
			start = transcript.MarshalBlock(transcript.TextBlock{})
			pieces = strings.SplitAfter(b.Text, " ")
		case transcript.ToolCallBlock:
			stop, kind = transcript.StopToolUse, "partial_json"
			start = transcript.MarshalBlock(transcript.ToolCallBlock{ID: b.ID, Name: b.Name, Input: json.RawMessage("{}")})
			pieces = []string{string(b.Input)}
		}
		events = append(events, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, start))
		for _, p := range pieces {
			piece, err := json.Marshal(p)
			if err != nil {
				return err
			}
			delta := map[string]string{"text": "text_delta", "partial_json": "input_json_delta"}[kind]
			events = append(events, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, i, delta, kind, piece))
		}
		events = append(events, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	events = append(events,
		fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":%d}}`, stop, len(events)),
		`{"type":"message_stop"}`)
	for _, e := range events {
		if err := m.wait(ctx); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", e); err != nil {
			return err
		}
	}
	return nil
}
