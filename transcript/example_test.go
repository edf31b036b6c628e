package transcript_test

import (
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/convolog/convolog/transcript"
)

// An answer with a call becomes the lines of one append, which are read back
// as one batch.
func Example() {
	newID := ids() // use UUIDs of version 7
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	entries, err := transcript.NewBatch(now, newID, &transcript.Response{
		Message: transcript.Message{Content: []transcript.Block{
			transcript.TextBlock{Text: "Let me look."},
			transcript.ToolCallBlock{ID: "toolu_1", Name: "read_file", Input: json.RawMessage(`{"path":"a.go"}`)},
		}},
		StopReason: transcript.StopToolUse,
	})
	if err != nil {
		log.Fatal(err)
	}
	var file strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&file, "%s\n", e.Line())
	}
	fmt.Print(file.String())

	var batches transcript.Batcher
	for rec, err := range transcript.Scan(strings.NewReader(file.String()), int64(file.Len()), nil) {
		if err != nil {
			log.Fatal(err)
		}
		for _, b := range batches.Add(rec.Entry) {
			fmt.Println(len(b.Entries), b.Complete)
		}
	}
	// Output:
	// {"type":"assistant","id":"e1","ts":"2026-11-20T08:00:00Z","batch":2,"stop_reason":"tool_use","content":[{"type":"text","text":"Let me look."}]}
	// {"type":"tool_use","id":"e2","ts":"2026-11-20T08:00:00Z","mid":"e1","part":2,"tool_use_id":"toolu_1","name":"read_file","input":{"path":"a.go"}}
	// 2 true
}

// A torn record, here left by a process that died, does not hide the next one.
func ExampleScan() {
	file := `{"type":"user","id":"e1","ts":"2026-11-20T08:00:00Z","content":"hel` +
		`{"type":"user","id":"e2","ts":"2026-11-20T08:00:09Z","content":"hello"}` + "\n"
	for rec, err := range transcript.Scan(strings.NewReader(file), int64(len(file)), nil) {
		switch {
		case err != nil:
			log.Fatal(err)
		case rec.Damage != nil:
			fmt.Println(rec.Damage)
		default:
			fmt.Println(rec.Entry.ID, rec.Entry.Body.(transcript.MessageLine).Message().Text())
		}
	}
	// Output:
	// torn: 67 bytes at offset 0
	// e2 hello
}

func ExampleMessage() {
	text, err := json.Marshal([]transcript.Message{
		transcript.UserText("hello"),
		transcript.ToolError("toolu_1", "no such file"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output:
	// [{"role":"user","content":"hello"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"no such file","is_error":true}]}]
}
