package wire

import (
	"strings"

	"github.com/convolog/convolog/transcript"
)

// A limit holds for a service, beyond the rules of its API.
type limit struct {
	url, model string // parts of a base URL and of a name; empty matches all
	takes      transcript.Takes
}

var (
	noMedia  = []transcript.Form{transcript.Images, transcript.Documents}
	unsigned = transcript.Takes{Without: []transcript.Form{transcript.Signatures}}
	blind    = transcript.Takes{Without: noMedia}
	claude   = transcript.Takes{Images: 600, Side: 8000, Many: 20, ManySide: 2000}
	claude3  = transcript.Takes{Images: 100, Side: 8000, Many: 20, ManySide: 2000} // and others with windows of 200,000 tokens
)

// limits are fixed limits that every session would meet, from the providers'
// pages. The first line that matches counts.
var limits = []limit{
	{"bedrock", "", transcript.Takes{Images: 20, Documents: 5, Side: 8000}},
	{"deepseek.com/anthropic", "", transcript.Takes{Without: append([]transcript.Form{transcript.Signatures}, noMedia...)}},
	{"deepseek.com", "v4.1", transcript.Takes{}},
	{"deepseek.com", "vision", transcript.Takes{}},
	{"deepseek.com", "", transcript.Takes{Without: append([]transcript.Form{transcript.Parts}, noMedia...)}},
	{"kimi.com/coding", "", unsigned},
	{"minimax", "", unsigned},
	{"/api/anthropic", "glm", unsigned},
	{"azure.com", "", transcript.Takes{Images: 50, Messages: 2048}},
	{"mistral.ai", "", transcript.Takes{Images: 8}},
	{"groq.com", "", transcript.Takes{Images: 5}},
	{"githubcopilot.com", "", transcript.Takes{Images: 10}},
	{"", "anthropic.claude", transcript.Takes{Images: 20, Documents: 5, Side: 8000}}, // a name of Bedrock
	{"", "claude-3", claude3},
	{"", "claude-haiku", claude3},
	{"", "claude-opus-4-5", claude3},
	{"", "claude-sonnet-4-5", claude3},
	{"", "claude", claude},
	{"openai.com", "", transcript.Takes{Images: 1500, Messages: 2048}},
	{"", "devstral-2", blind},
	{"", "qwen3-max", blind},
	{"", "qwen3-coder", blind},
	{"", "glm-4.5v", transcript.Takes{}},
	{"", "glm-4.6v", transcript.Takes{}},
	{"", "glm-4", blind},
}

// TakesOf returns the limits of a model beyond the rules of its API, by its name and the
// base URL of its service, as providers document them. An unknown service has no limits
// here; a guard learns them from refusals.
func TakesOf(model, baseURL string) transcript.Takes {
	model, baseURL = strings.ToLower(model), strings.ToLower(baseURL)
	for _, l := range limits {
		if strings.Contains(baseURL, l.url) && strings.Contains(model, l.model) {
			return l.takes
		}
	}
	return transcript.Takes{}
}
