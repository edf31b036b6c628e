package wire_test

import (
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

var update = flag.Bool("update", false, "rewrite the table of blocks and the golden files")

const model = "claude-x"

// native is the origin of blocks that the model of the requests made.
var native = transcript.Origin{Entry: "e", API: "anthropic", Model: model}

func block(t testing.TB, text string) transcript.Block {
	t.Helper()
	b, err := transcript.UnmarshalBlock([]byte(text))
	require.NoError(t, err, text)
	return b
}

// message decodes a message; every block gets the same origin.
func message(t testing.TB, text string, o transcript.Origin) transcript.Message {
	t.Helper()
	var m transcript.Message
	require.NoError(t, json.Unmarshal([]byte(text), &m), text)
	m.Origins = slices.Repeat([]transcript.Origin{o}, len(m.Content))
	return m
}

// A renderer is a format.
type renderer interface {
	Request(transcript.Request) ([]byte, rebuild.Report, error)
}

func render(t testing.TB, a renderer, req transcript.Request) (string, rebuild.Report) {
	t.Helper()
	body, report, err := a.Request(req)
	require.NoError(t, err)
	require.True(t, json.Valid(body))
	again, _, _ := a.Request(req)
	require.Equal(t, again, body)
	return string(body), report
}

func valid(t testing.TB, service wiretest.API, body string) {
	t.Helper()
	if found := wiretest.Check(service, []byte(body)); len(found) > 0 {
		t.Fatalf("violations: %v\nbody: %s", found, body)
	}
}

// decode reads a body.
func decode(t testing.TB, body string) transcript.Request {
	t.Helper()
	var req transcript.Request
	require.NoError(t, json.Unmarshal([]byte(body), &req))
	return req
}

func rules(report rebuild.Report) string {
	var names []string
	for _, r := range report {
		names = append(names, string(r.Rule))
	}
	return strings.Join(names, " ")
}
