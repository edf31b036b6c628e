package wire

import (
	"encoding/json"
	"fmt"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Response reads the body of an answer that was not streamed. Blocks of types
// it does not know are kept as they are. What the provider says it has left out
// of the request is the member "input_transformations" of Usage.Extra, the
// container of its code execution the member "container". RequestID is the ID of the message;
// the ID that the provider gives the request is in an HTTP header.
//
// An error body gives an [*APIError], without a status; [NewAPIError] takes
// one.
func (a Anthropic) Response(body []byte) (*transcript.Response, error) {
	body, err := answerObject(body, isErrorBody)
	if err != nil {
		return nil, err
	}
	content, ok := jsontext.Member(body, "content")
	if !ok || !jsontext.IsArray(content) {
		return nil, fmt.Errorf("wire: the answer has no list of content: %q", excerpt(body))
	}
	resp, err := newResponse(body)
	if err != nil {
		return nil, err
	}
	for e := range jsontext.Elements(content) {
		b, err := transcript.UnmarshalBlock(e)
		if err != nil {
			return nil, fmt.Errorf("wire: the answer has content that is no block: %q", excerpt(e))
		}
		resp.Message.Content = append(resp.Message.Content, b)
	}
	return resp, nil
}

// newResponse reads all but the content of a message.
func newResponse(message []byte) (*transcript.Response, error) {
	if role := stringMember(message, "role"); role != "" && role != string(transcript.RoleAssistant) {
		return nil, fmt.Errorf("wire: the answer has role %q", role)
	}
	resp := &transcript.Response{
		Message:    transcript.Message{Role: transcript.RoleAssistant},
		API:        apiAnthropic,
		Model:      stringMember(message, "model"),
		StopReason: transcript.StopReason(stringMember(message, "stop_reason")),
		RequestID:  stringMember(message, "id"),
	}
	usage, err := usageMember(message, "usage")
	if err == nil && usage != nil {
		err = resp.Usage.UnmarshalJSON(usage)
	}
	for _, name := range besideUsage {
		if value, ok := jsontext.Member(message, name); ok && !jsontext.IsNull(value) {
			resp.Usage.Extra = withMember(resp.Usage.Extra, name, value)
		}
	}
	return resp, err
}

// besideUsage are the members of an answer that are kept in Usage.Extra: which
// reasoning of the request the provider has left out, the container that its code
// runs in, whose ID later requests may give in Params, and what its own context
// editing has cleared.
var besideUsage = []string{"input_transformations", "container", "context_management"}

// usageMember returns the member of an answer or of an event that has the counts,
// nil if there is none.
func usageMember(obj []byte, name string) (json.RawMessage, error) {
	usage, _ := jsontext.Member(obj, name)
	if jsontext.IsNull(usage) {
		return nil, nil
	}
	if !jsontext.IsObject(usage) {
		return nil, fmt.Errorf("wire: the answer's usage is not an object: %q", excerpt(usage))
	}
	return usage, nil
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

// answerObject returns an answer that was not streamed without white space around
// it, and an error if it is none.
func answerObject(body []byte, failed func(obj []byte) bool) ([]byte, error) {
	body = jsontext.Trim(body)
	switch {
	case !jsontext.Valid(body) || !jsontext.IsObject(body):
		return nil, fmt.Errorf("wire: the answer is not a JSON object: %q", excerpt(body))
	case failed(body):
		return nil, NewAPIError(0, body)
	}
	return body, nil
}
