package wire_test

import (
	"encoding/json"
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// go test ./rebuild/wire runs a sample of random histories. -soak=gate runs as
// many as .ci/run; -soak=long is for a night.
var soak = flag.String("soak", "short", "how many histories the random tests try: short, gate or long")

// amount is the extent of a test.
func amount[T any](short, gate, long T) T {
	switch *soak {
	case "long":
		return long
	case "gate":
		return gate
	}
	return short
}

// few returns n, or a quarter of it with -short.
func few(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// A speaker is a format with a model and the service that answers it.
type speaker struct {
	name, model string
	request     func(transcript.Request) ([]byte, rebuild.Report, error)
	response    func([]byte) (*transcript.Response, error)
	service     wiretest.API
}

var speakers = []speaker{
	{"anthropic", "claude-opus-5-5", anthropic.Format{Cache: wire.Cache5m}.Request, anthropic.Format{}.Response, wiretest.Anthropic{}},
	{"openai-chat", "deepseek-v4", openaichat.Format{Reasoning: true}.Request, openaichat.Format{}.Response, wiretest.OpenAIChat{Reasoning: true}},
	{"openai-responses", "gpt-6", openairesponses.Format{}.Request, openairesponses.Format{}.Response, wiretest.OpenAIResponses{}},
	{"gemini", "gemini-4", gemini.Format{}.Request, gemini.Format{}.Response, wiretest.Gemini{Model: "gemini-4"}},
	{
		"bedrock", "anthropic.claude-opus-5-5-v1:0", bedrock.Format{Cache: wire.Cache1h}.Request,
		bedrock.Format{Model: "anthropic.claude-opus-5-5-v1:0"}.Response,
		wiretest.Bedrock{},
	},
}

var nextTools = []transcript.Tool{{Name: "f", InputSchema: json.RawMessage(`{"type":"object"}`)}}

// Whatever entries are written while requests are on their way, the next request
// to a model contains the last one that it answered, block for block, or an entry
// or event explains why not. The provider accepts every request. A conversation
// that is read again from its last compaction shows the same, and a copy of its
// lines up to some entry continues in the same way.
func TestNextRequest(t *testing.T) {
	histories := amount(12, 300, 100_000)
	const chunk = 2_000 // a long run reports its progress
	for home, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			counts := map[string]int{}
			for seed := range histories {
				newTalk(t, home, uint64(seed), counts).run(60)
				if done := seed + 1; done%chunk == 0 || done == histories {
					t.Logf("%d histories, %d forks, %d resumed from a compaction; %d of %d requests go on from the one before",
						done, counts["fork"], counts["tail"], counts[s.name+" continued"], counts[s.name])
				}
			}
			require.Greater(t, counts[s.name+" continued"], histories)
			require.Greater(t, counts["fork"], histories/4)
			require.Greater(t, counts["tail"], histories/10)
			for _, name := range slices.Sorted(maps.Keys(counts)) {
				if strings.HasPrefix(name, "because of ") {
					t.Logf("%d not, %s", counts[name], name)
				}
			}
		})
	}
}
