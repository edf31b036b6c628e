package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// model is the client of the application: any type with this one method. With
// an SDK of its provider it would be shorter.
type model struct {
	url, name, key string
	http           http.Client
}

// Complete sends a request and returns the answer. A refusal is an
// *wire.APIError, in which the guard recognises an overflow.
func (m *model) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	req.Model = m.name
	body, _, err := wire.Anthropic{}.Request(req)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("content-type", "application/json")
	post.Header.Set("anthropic-version", "2023-06-01")
	post.Header.Set("x-api-key", m.key)
	resp, err := m.http.Do(post)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, wire.NewAPIError(resp.StatusCode, answer)
	}
	return wire.Anthropic{}.Response(answer)
}

// tools is what the model is told about the tools.
var tools = []transcript.Tool{{
	Name: "read_file", Description: "Read a text file in the current folder.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
}}

// runTools runs the calls of an answer and returns a result for each.
func runTools(calls []transcript.ToolCallBlock) (results []transcript.Item) {
	for _, call := range calls {
		results = append(results, runTool(call))
	}
	return results
}

func runTool(call transcript.ToolCallBlock) transcript.Message {
	var args struct{ Path string }
	if err := json.Unmarshal(call.Input, &args); err != nil {
		return transcript.ToolError(call.ID, err.Error())
	}
	f, err := os.OpenInRoot(".", args.Path) // nothing outside the folder
	if err != nil {
		return transcript.ToolError(call.ID, err.Error())
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return transcript.ToolError(call.ID, err.Error())
	}
	return transcript.ToolResult(call.ID, string(text))
}

// config is what the flags say.
type config struct {
	dir    string // of the store
	window int    // tokens
	model  guard.Client
}

func flags() config {
	var c config
	m := &model{key: os.Getenv("ANTHROPIC_API_KEY")}
	flag.StringVar(&c.dir, "dir", ".convolog", "`folder` that the conversation is kept in")
	flag.IntVar(&c.window, "window", 180_000, "context window in `tokens`")
	flag.StringVar(&m.url, "url", "", "base `URL` of an Anthropic-compatible service; empty for an offline model")
	flag.StringVar(&m.name, "model", "offline", "`name` of the model")
	flag.Parse()
	if m.url == "" {
		m.url, m.http.Transport = "http://offline.invalid", offline(c.window)
	}
	c.model = m
	return c
}
