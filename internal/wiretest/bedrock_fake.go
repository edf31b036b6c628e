package wiretest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// Form returns the common form of all answers.
func (Bedrock) Form() Form {
	return Form{
		MaxBody: 20 << 20, Whole: typeJSON, Stream: "application/vnd.amazon.eventstream", Signs: true, Says: modelSays,
		requestID: "X-Amzn-Requestid", errorType: "X-Amzn-Errortype",
		kinds: map[int]string{
			http.StatusBadRequest: "ValidationException", http.StatusForbidden: "AccessDeniedException", http.StatusNotFound: "ResourceNotFoundException",
			http.StatusTooManyRequests: "ThrottlingException", http.StatusServiceUnavailable: "ServiceUnavailableException",
			http.StatusRequestTimeout: "ModelTimeoutException", http.StatusInternalServerError: "InternalServerException",
		},
		usual: map[string]Refusal{
			KindOverloaded:   {Text: "Bedrock is unable to process your request."},
			KindRate:         {Text: "Too many requests, please wait before trying again."},
			KindAPI:          {Text: "The system encountered an unexpected error during processing. Try your request again."},
			KindUnauthorized: {Text: "The security token included in the request is invalid."},
		},
		tooMuch: Refusal{Text: "The maximum tokens you requested exceeds the model limit of {max}. Try again with a maximum tokens value that is lower than {max}."},
		tooLong: Refusal{Text: modelSays + promptTooLong},
		noRoom:  Refusal{Text: modelSays + promptAndOutput},
	}
}

// Refuse returns the body of an error.
func (Bedrock) Refuse(no *Refusal, _ string) []byte {
	return encode(map[string]string{"message": no.Text})
}

// Fail returns the event that ends a stream with an error. In a stream its type
// begins with a small letter.
func (b Bedrock) Fail(no *Refusal, _ Message, requestID string) Event {
	return Event{Data: eventFrame("exception", strings.ToLower(no.Kind[:1])+no.Kind[1:], b.Refuse(no, requestID))}
}

// bedrockContent returns a block of an answer as Converse sends it, nil if it
// cannot.
func bedrockContent(b transcript.Block) any {
	type object map[string]any
	switch b := b.(type) {
	case transcript.TextBlock:
		return object{"text": b.Text}
	case transcript.ThinkingBlock:
		return object{"reasoningContent": object{"reasoningText": object{"text": b.Thinking, "signature": b.Signature}}}
	case transcript.RedactedThinkingBlock:
		return object{"reasoningContent": object{"redactedContent": b.Data}}
	case transcript.ToolCallBlock:
		return object{"toolUse": object{"toolUseId": b.ID, "name": b.Name, "input": inputOf(b)}}
	}
	return nil
}

// Whole returns an answer that is not streamed.
func (Bedrock) Whole(a Message) []byte {
	content := []any{}
	for _, b := range a.Content {
		if c := bedrockContent(b); c != nil {
			content = append(content, c)
		}
	}
	return encode(map[string]any{
		"output":     map[string]any{"message": map[string]any{"role": "assistant", "content": content}},
		"stopReason": bedrockStop(a.Stop),
		"usage":      bedrockUsage(a.Usage),
		"metrics":    map[string]int{"latencyMs": 1},
	})
}

func bedrockStop(stop transcript.StopReason) string {
	if stop == transcript.StopRefusal {
		return "content_filtered"
	}
	return string(stop)
}

func bedrockUsage(u transcript.Usage) map[string]int {
	return map[string]int{
		"inputTokens": u.Input, "outputTokens": u.Output, "totalTokens": u.Prompt() + u.Output,
		"cacheReadInputTokens": u.CacheRead, "cacheWriteInputTokens": u.CacheWrite,
	}
}

// Events returns an answer as a stream. Only calls have a start.
func (Bedrock) Events(a Message) (events []Event) {
	add := func(kind string, payload any) {
		events = append(events, Event{Data: eventFrame("event", kind, encode(payload))})
	}
	type object map[string]any
	add("messageStart", object{"role": "assistant"})
	for i, b := range a.Content {
		deltas := func(text string, input bool, delta func(string) object) {
			for _, piece := range split(text) {
				add("contentBlockDelta", object{"contentBlockIndex": i, "delta": delta(piece)})
				events[len(events)-1].Input = input
			}
		}
		switch b := b.(type) {
		case transcript.TextBlock:
			deltas(b.Text, false, func(s string) object { return object{"text": s} })
		case transcript.ThinkingBlock:
			deltas(b.Thinking, false, func(s string) object { return object{"reasoningContent": object{"text": s}} })
			deltas(b.Signature, false, func(s string) object { return object{"reasoningContent": object{"signature": s}} })
		case transcript.RedactedThinkingBlock:
			add("contentBlockDelta", object{"contentBlockIndex": i, "delta": bedrockContent(b)})
		case transcript.ToolCallBlock:
			add("contentBlockStart", object{"contentBlockIndex": i, "start": object{"toolUse": object{"toolUseId": b.ID, "name": b.Name}}})
			deltas(string(b.Input), true, func(s string) object { return object{"toolUse": object{"input": s}} })
		default:
			continue
		}
		add("contentBlockStop", object{"contentBlockIndex": i})
	}
	add("messageStop", object{"stopReason": bedrockStop(a.Stop)})
	add("metadata", object{"usage": bedrockUsage(a.Usage), "metrics": object{"latencyMs": 1}})
	return events
}

// eventFrame puts a payload into the binary frame of an AWS event stream: the
// total length and the headers' length, their checksum, the headers, the
// payload, and a checksum of all these.
func eventFrame(messageType, kind string, payload []byte) []byte {
	var headers []byte
	header := func(name, value string) {
		const isString = 7
		headers = append(headers, byte(len(name)))
		headers = append(append(headers, name...), isString)
		headers = binary.BigEndian.AppendUint16(headers, uint16(len(value)))
		headers = append(headers, value...)
	}
	header(fmt.Sprintf(":%s-type", messageType), kind)
	header(":content-type", typeJSON)
	header(":message-type", messageType)
	const around = 16 // bytes: two lengths and two checksums
	frame := binary.BigEndian.AppendUint32(nil, uint32(around+len(headers)+len(payload)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(headers)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
	frame = append(append(frame, headers...), payload...)
	return binary.BigEndian.AppendUint32(frame, crc32.ChecksumIEEE(frame))
}
