package guardtest_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/transcript"
)

// A script by requests. It keeps no place of its own, so it continues in another process.
func ExampleWhen() {
	summary := guardtest.Always(guardtest.Say("They planned a trip."))
	look := guardtest.Always(guardtest.Call(guardtest.Tool("timetable", `{"to":"Porto"}`)))
	rule := guardtest.When(guardtest.SystemHas("Summarize"), summary,
		guardtest.When(guardtest.AfterTools, guardtest.Always(guardtest.Say("At 9:30.")),
			guardtest.When(guardtest.UserHas("train"), look, nil))) // nil repeats the text

	question, call := transcript.UserText("When is the train?"), transcript.ToolCallBlock{ID: "c", Name: "timetable", Input: []byte(`{}`)}
	for _, messages := range [][]transcript.Message{
		{transcript.UserText("Hello.")},
		{question},
		{question, {Role: transcript.RoleAssistant, Content: []transcript.Block{call}}, transcript.ToolResult("c", "9:30")},
	} {
		m := &guardtest.Model{Answer: rule} // a new process
		c := httpclient.Messages("http://any", "key")
		c.HTTP = &http.Client{Transport: m}
		answer, err := c.Complete(context.Background(), transcript.Request{Model: "model", Messages: messages})
		if err != nil {
			log.Fatal(err)
		}
		for _, call := range answer.Message.ToolCalls() {
			fmt.Println(call.Name)
		}
		if text := answer.Message.Text(); text != "" {
			fmt.Println(text)
		}
	}
	// Output:
	// Hello.
	// timetable
	// At 9:30.
}
