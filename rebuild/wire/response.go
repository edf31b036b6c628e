package wire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// whole reads the body of an answer that was not streamed.
func (s *streamer) whole(body []byte) (*transcript.Response, error) {
	body = jsontext.Trim(body)
	if !jsontext.Valid(body) || !jsontext.IsObject(body) {
		return nil, fmt.Errorf("wire: the answer is not a JSON object: %q", excerpt(body))
	}
	if e := s.events.refusal(body); e != nil {
		return nil, e
	}
	if err := s.events.whole(body); err != nil {
		return nil, err
	}
	return s.response(), nil
}

// response returns the answer so far with the stop reason that the API gave.
func (s *streamer) response() *transcript.Response {
	a, content := s.events.base(), s.events.content()
	return &transcript.Response{
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: content},
		API:     a.api, Model: a.model, RequestID: a.id,
		StopReason: stopReason(a.reason, content),
		Usage:      s.events.readUsage(a.usage.object()),
	}
}

// stops are the reasons of the APIs that have another name here.
var stops = map[string]transcript.StopReason{
	"stop": transcript.StopEndTurn, "tool_calls": transcript.StopEndTurn, "function_call": transcript.StopEndTurn,
	"completed": transcript.StopEndTurn, "STOP": transcript.StopEndTurn,
	"length": transcript.StopMaxTokens, "max_output_tokens": transcript.StopMaxTokens, "MAX_TOKENS": transcript.StopMaxTokens,
	"content_filter": transcript.StopRefusal, "content_filtered": transcript.StopRefusal, "guardrail_intervened": transcript.StopRefusal,
	"SAFETY": transcript.StopRefusal, "RECITATION": transcript.StopRefusal, "LANGUAGE": transcript.StopRefusal,
	"BLOCKLIST": transcript.StopRefusal, "PROHIBITED_CONTENT": transcript.StopRefusal, "SPII": transcript.StopRefusal,
	"IMAGE_SAFETY": transcript.StopRefusal, "IMAGE_PROHIBITED_CONTENT": transcript.StopRefusal, "IMAGE_RECITATION": transcript.StopRefusal,
}

// stopReason returns why the model stopped. Where an API has one word for the end of
// an answer, the content says what is to be done next.
func stopReason(reason string, content []transcript.Block) transcript.StopReason {
	switch stop, known := stops[reason]; {
	case !known:
		return transcript.StopReason(reason)
	case stop == transcript.StopEndTurn && hasCalls(content):
		return transcript.StopToolUse
	case stop == transcript.StopEndTurn && slices.ContainsFunc(content, isRefusal):
		return transcript.StopRefusal
	default:
		return stop
	}
}

func isRefusal(b transcript.Block) bool {
	t, ok := b.(transcript.TextBlock)
	_, refusal := jsontext.Member(t.Extra["ext"], "refusal")
	return ok && refusal
}

// checkAnswer returns an error if a message says that it is not the model's.
func checkAnswer(message []byte) error {
	if role := stringMember(message, "role"); role != "" && role != string(transcript.RoleAssistant) && role != "model" {
		return fmt.Errorf("wire: the answer has role %q", role)
	}
	return nil
}

// readCounts sets the counts of a usage by their names, and returns its other
// members.
func readCounts(usage json.RawMessage, counts map[string]*int) (others transcript.Extra) {
	for name, value := range jsontext.Members(usage) {
		if n, ok := jsontext.Int(value); ok && counts[name] != nil {
			*counts[name] = int(n)
		} else {
			others = withMember(others, name, value)
		}
	}
	return others
}

// excerpt returns the beginning of data for an error message, in valid UTF-8.
func excerpt(data []byte) string {
	const most = 300
	if len(data) <= most {
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	return strings.ToValidUTF8(string(data[:most]), "\uFFFD") + "..."
}
