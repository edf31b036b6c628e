package dialect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// The status and the output of a tool part decide whether it has a result.
func TestOpenVikingResults(t *testing.T) {
	for _, tt := range []struct{ part, want string }{
		{`"tool_status":"pending"`, "none"},
		{`"tool_status":"pending","tool_output":""`, "none"},
		{`"tool_status":"running","tool_output":null`, "none running"},
		{`"tool_status":"pending","tool_output":"half"`, "half pending"},
		{`"tool_output":""`, "none"},
		{`"tool_status":"running","tool_output":"half"`, "half running"},
		{`"tool_status":"completed"`, ""},
		{`"tool_status":"completed","tool_output":"preview","tool_output_truncated":true,"tool_output_ref":"tr_f_0"`, "preview"},
		{`"tool_status":"error","tool_output":"no"`, "error no"},
	} {
		recs := scan(t, dialect.OpenViking, `{"id":"m","role":"assistant","parts":[{"type":"tool","tool_id":"c","tool_name":"f",`+tt.part+`}]}`+"\n")
		got := "none"
		for _, rec := range recs[1:] {
			if told, ok := rec.Entry.Body.(transcript.ToolStatus); ok {
				got += " " + told.Status
				continue
			}
			f, ok := rec.Entry.Body.(transcript.MessageLine)
			if !ok {
				t.Fatalf("%s: %s", tt.part, rec.Entry.Type())
			}
			for _, b := range f.Content {
				if r, ok := b.(transcript.ToolResultBlock); ok {
					if got = r.Text(); r.IsError {
						got = "error " + got
					}
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: result %q, want %q", tt.part, got, tt.want)
		}
	}
}

// A part without a type is a text, as the program reads it.
func TestOpenVikingUntypedPart(t *testing.T) {
	require.Equal(t, "hi", texts(scan(t, dialect.OpenViking, `{"id":"m","role":"user","parts":[{"text":"hi"}]}`)))
}
