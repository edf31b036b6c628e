package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// maxFile is the largest part of a file that a model gets, in bytes.
const maxFile = 20_000

// A tool is a function that the model can call.
type tool struct {
	transcript.Tool
	run func(ctx context.Context, input json.RawMessage) (string, error)
}

// recallTools returns tools with which the model reads entries that are missing from its
// history. The definitions of the tools do not depend on the session.
func recallTools(s *session.Session) (list []tool) {
	for _, t := range search.RecallTools(s) {
		list = append(list, tool{t.Tool, t.Call})
	}
	return list
}

// runTool runs one call and returns its result. An error becomes an error result.
func (a *agent) runTool(ctx context.Context, s *session.Session, call transcript.ToolCallBlock) transcript.Message {
	for _, t := range slices.Concat(a.tools, recallTools(s)) {
		if t.Name != call.Name {
			continue
		}
		text, err := t.run(ctx, call.Input)
		if err != nil {
			return transcript.ToolError(call.ID, err.Error())
		}
		return transcript.ToolResult(call.ID, text)
	}
	return transcript.ToolError(call.ID, fmt.Sprintf("there is no tool called %q", call.Name))
}

// fileTools returns tools that read files in one folder.
func fileTools(root *os.Root) []tool {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	path := func(input json.RawMessage) (string, error) {
		var args struct{ Path string }
		err := json.Unmarshal(input, &args)
		return args.Path, err
	}
	return []tool{
		{transcript.Tool{Name: "list_files", Description: "List a folder in the working folder.", InputSchema: schema}, func(_ context.Context, input json.RawMessage) (string, error) {
			name, err := path(input)
			if err != nil {
				return "", err
			}
			entries, err := fs.ReadDir(root.FS(), name)
			var sb strings.Builder
			for _, e := range entries {
				fmt.Fprintln(&sb, fs.FormatDirEntry(e))
			}
			return sb.String(), err
		}},
		{transcript.Tool{Name: "read_file", Description: "Read a text file in the working folder.", InputSchema: schema}, func(_ context.Context, input json.RawMessage) (string, error) {
			name, err := path(input)
			if err != nil {
				return "", err
			}
			f, err := root.Open(name)
			if err != nil {
				return "", err
			}
			defer func() { _ = f.Close() }() // only read
			data, err := io.ReadAll(io.LimitReader(f, maxFile))
			return strings.ToValidUTF8(string(data), "\uFFFD"), err
		}},
	}
}
