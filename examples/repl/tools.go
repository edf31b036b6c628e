package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// maxFile is the most bytes of a file that a model gets.
const maxFile = 50_000

// toolDefinitions describes the tools to the model.
var toolDefinitions = append(recallDefinitions(), []transcript.Tool{
	{
		Name: "read_file", Description: "Read a text file in the working folder.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
	},
	{
		Name: "list_directory", Description: "List a folder in the working folder.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`),
	},
	{
		Name: "current_time", Description: "Tell the time, in UTC.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	},
}...)

// recallDefinitions are the tools by which the model reads entries missing from
// its history. They are the same for every session.
func recallDefinitions() (list []transcript.Tool) {
	for _, t := range search.RecallTools(nil) {
		list = append(list, t.Tool)
	}
	return list
}

// toolbox runs the tools, confined to one folder.
type toolbox struct {
	root *os.Root
	now  func() time.Time
}

func openTools(dir string, now func() time.Time) (*toolbox, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the folder for the tools: %w (choose another with -work)", err)
	}
	return &toolbox{root, now}, nil
}

func (t *toolbox) close() error { return t.root.Close() }

func (t *toolbox) run(ctx context.Context, name string, input json.RawMessage) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var args struct{ Path string }
	if err := json.Unmarshal(input, &args); err != nil {
		return "", fmt.Errorf("the input does not fit %s: %w", name, err)
	}
	switch name {
	case "read_file":
		return t.readFile(args.Path)
	case "list_directory":
		return t.listDirectory(path.Clean(args.Path))
	case "current_time":
		return t.now().UTC().Format(time.RFC3339), nil
	}
	return "", fmt.Errorf("there is no tool called %q", name)
}

func (t *toolbox) readFile(name string) (string, error) {
	info, err := t.root.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", name)
	}
	f, err := t.root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", err
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if info.Size() > maxFile {
		text += fmt.Sprintf("\n... [truncated, %d bytes in all]", info.Size())
	}
	return text, nil
}

func (t *toolbox) listDirectory(name string) (string, error) {
	entries, err := fs.ReadDir(t.root.FS(), name)
	if err != nil {
		return "", err
	}
	var sb strings.Builder
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			fmt.Fprintf(&sb, "[dir]  %s\n", e.Name())
		default:
			fmt.Fprintf(&sb, "[file] %s\n", e.Name())
		}
	}
	if sb.Len() == 0 {
		return "(empty)", nil
	}
	return strings.TrimSpace(sb.String()), nil
}
