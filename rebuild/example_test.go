package rebuild_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// The process died while the second tool was running.
func Example() {
	file := `{"type":"user","id":"1","ts":"2026-11-20T08:00:00Z","content":"compare a.go and b.go"}
{"type":"assistant","id":"2","ts":"2026-11-20T08:00:01Z","batch":3,"content":[]}
{"type":"tool_use","id":"3","ts":"2026-11-20T08:00:01Z","mid":"2","part":2,"tool_use_id":"a","name":"read","input":{"path":"a.go"}}
{"type":"tool_use","id":"4","ts":"2026-11-20T08:00:01Z","mid":"2","part":3,"tool_use_id":"b","name":"read","input":{"path":"b.go"}}
{"type":"tool_result","id":"5","ts":"2026-11-20T08:00:02Z","tool_use_id":"a","content":"package a","is_error":false}
{"type":"tool_result","id":"6","ts":"2026-11-20T08:0`

	fold := rebuild.New(nil)
	var batcher transcript.Batcher
	for rec, err := range transcript.Scan(strings.NewReader(file), int64(len(file)), nil) {
		if err != nil {
			log.Fatal(err)
		}
		for _, batch := range batcher.Add(rec.Entry) {
			if err := fold.Add(batch); err != nil {
				log.Fatal(err)
			}
		}
	}
	for _, m := range fold.History().Messages {
		fmt.Println(m.Role, len(m.Content), "blocks")
	}
	for _, repair := range fold.Report() {
		fmt.Println(repair)
	}
	fmt.Println("pending calls:", len(fold.Pending().Calls))
	// Output:
	// user 1 blocks
	// assistant 2 blocks
	// user 2 blocks
	// missing-result at entry 4: call b
	// pending calls: 1
}
