package guardtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// pathBedrock is where Converse takes requests.
var pathBedrock = regexp.MustCompile(`^/model/(.+)/converse(-stream)?$`)

// bedrock is Converse, for one request: the path says what others have in the
// body.
type bedrock struct {
	model  string
	stream bool
}

func (b bedrock) decode(_ *Model, _ http.Header, body []byte, _ bool) (req transcript.Request, stream bool, no *refusal) {
	if no = violated(wire.Bedrock{PureResults: strings.Contains(b.model, "llama")}.Validate(body)); no == nil {
		var err error
		if req, err = decodeBedrock(body); err != nil {
			no = invalid("Invalid JSON payload received. %v", err)
		}
	}
	req.Model = b.model
	return req, b.stream, no
}

func (bedrock) maxBody() int64 { return 20 << 20 }

func (bedrock) types() (whole, stream string) { return typeJSON, "application/vnd.amazon.eventstream" }

const exception = "Exception" // at the end of the types of errors

// frame: the stream says the types of errors with a small first letter.
func (bedrock) frame(e event) []byte {
	if strings.HasSuffix(e.name, exception) {
		return eventFrame("exception", strings.ToLower(e.name[:1])+e.name[1:], e.data)
	}
	return eventFrame("event", e.name, e.data)
}

func (bedrock) isInput(e event) bool {
	return e.name == "contentBlockDelta" && bytes.Contains(e.data, []byte(`"toolUse":{"input":`))
}

func (bedrock) word(no refusal, limit int64) refusal {
	switch text := bedrockTexts[no.kind]; {
	case no.usual && no.kind == kindTooLarge:
		no.text = fmt.Sprintf(textPayload, limit)
	case no.usual && text != "":
		no.text = text
	}
	no.status, no.kind = bedrockStatus(no.status)
	return no
}

// bedrockTexts are the words for usual errors, by the kind of the Messages API.
var bedrockTexts = map[string]string{
	kindOverloaded:   "Bedrock is unable to process your request.",
	kindRate:         "Too many requests, please wait before trying again.",
	kindAPI:          "The system encountered an unexpected error during processing. Try your request again.",
	kindUnauthorized: "The security token included in the request is invalid.",
}

func (bedrock) refuse(no *refusal, _ string) []byte {
	return encode(map[string]string{"message": no.text})
}

func (b bedrock) fail(no *refusal, _ message, requestID string) event {
	return event{no.kind, b.refuse(no, requestID)}
}

func (bedrock) head(h http.Header, no *refusal, requestID string) {
	h.Set("X-Amzn-Requestid", requestID)
	if no != nil {
		h.Set("X-Amzn-Errortype", no.kind)
	}
}

// bedrockStatus returns the status of HTTP that stands for one of the Messages
// API, and the exception.
func bedrockStatus(status int) (int, string) {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusMethodNotAllowed:
		return http.StatusBadRequest, "ValidationException"
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return http.StatusForbidden, "AccessDeniedException"
	case http.StatusNotFound:
		return status, "ResourceNotFoundException"
	case http.StatusTooManyRequests:
		return status, "ThrottlingException"
	case http.StatusServiceUnavailable, statusOverloaded:
		return http.StatusServiceUnavailable, "ServiceUnavailableException"
	case http.StatusGatewayTimeout:
		return http.StatusRequestTimeout, "ModelTimeoutException"
	}
	return http.StatusInternalServerError, "InternalServerException"
}

func (bedrock) judgeSize(m *Model, req Request) *refusal {
	const from = "The model returned the following errors: "
	switch {
	case m.MaxOutput > 0 && req.MaxOutput > m.MaxOutput:
		return invalid("The maximum tokens you requested exceeds the model limit of %d. Try again with a maximum tokens value that is lower than %d.", m.MaxOutput, m.MaxOutput)
	case m.Window > 0 && req.Tokens > m.Window:
		return overflow(from+"prompt is too long: %d tokens > %d maximum", req.Tokens, m.Window)
	case m.Window > 0 && m.ReserveOutput && req.MaxOutput > m.Window-req.Tokens:
		return overflow(from+"input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again",
			req.Tokens, req.MaxOutput, m.Window)
	}
	return nil
}

type bedrockMedia struct {
	Format string `json:"format"`
	Name   string `json:"name"`
	Source struct {
		Bytes string `json:"bytes"`
	} `json:"source"`
}

type bedrockBlock struct {
	Text     *string       `json:"text"`
	Image    *bedrockMedia `json:"image"`
	Document *bedrockMedia `json:"document"`
	ToolUse  *struct {
		ToolUseID string          `json:"toolUseId"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"toolUse"`
	ToolResult *struct {
		ToolUseID string         `json:"toolUseId"`
		Content   []bedrockBlock `json:"content"`
		Status    string         `json:"status"`
	} `json:"toolResult"`
	ReasoningContent *struct {
		ReasoningText *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		RedactedContent string `json:"redactedContent"`
	} `json:"reasoningContent"`
}

// decodeBedrock reads a valid body into a request.
func decodeBedrock(body []byte) (req transcript.Request, err error) {
	var in struct {
		Messages []struct {
			Role    transcript.Role `json:"role"`
			Content []bedrockBlock  `json:"content"`
		} `json:"messages"`
		System []struct {
			Text string `json:"text"`
		} `json:"system"`
		InferenceConfig struct {
			MaxTokens int `json:"maxTokens"`
		} `json:"inferenceConfig"`
		ToolConfig struct {
			Tools []struct {
				ToolSpec struct {
					Name        string `json:"name"`
					Description string `json:"description"`
					InputSchema struct {
						JSON json.RawMessage `json:"json"`
					} `json:"inputSchema"`
				} `json:"toolSpec"`
			} `json:"tools"`
		} `json:"toolConfig"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return req, err
	}
	req.MaxOutput = in.InferenceConfig.MaxTokens
	for _, s := range in.System {
		req.System += s.Text
	}
	for _, t := range in.ToolConfig.Tools {
		req.Tools = append(req.Tools, transcript.Tool{Name: t.ToolSpec.Name, Description: t.ToolSpec.Description, InputSchema: t.ToolSpec.InputSchema.JSON})
	}
	for _, m := range in.Messages {
		message := transcript.Message{Role: m.Role}
		for _, b := range m.Content {
			message.Content = append(message.Content, b.block())
		}
		req.Messages = append(req.Messages, message)
	}
	return req, nil
}

// block returns a block as one of ours.
func (b bedrockBlock) block() transcript.Block {
	source := func(m *bedrockMedia, kind string) transcript.Source {
		return transcript.Source{Type: "base64", MediaType: kind + "/" + m.Format, Data: m.Source.Bytes}
	}
	switch {
	case b.Text != nil:
		return transcript.TextBlock{Text: *b.Text}
	case b.Image != nil:
		return transcript.ImageBlock{Source: source(b.Image, "image")}
	case b.Document != nil:
		return transcript.DocumentBlock{Title: b.Document.Name, Source: source(b.Document, "application")}
	case b.ToolUse != nil:
		return transcript.ToolCallBlock{ID: b.ToolUse.ToolUseID, Name: b.ToolUse.Name, Input: b.ToolUse.Input}
	case b.ToolResult != nil:
		result := transcript.ToolResultBlock{CallID: b.ToolResult.ToolUseID, IsError: b.ToolResult.Status == "error"}
		for _, c := range b.ToolResult.Content {
			result.Content = append(result.Content, c.block())
		}
		return result
	case b.ReasoningContent != nil && b.ReasoningContent.ReasoningText != nil:
		return transcript.ThinkingBlock{Thinking: b.ReasoningContent.ReasoningText.Text, Signature: b.ReasoningContent.ReasoningText.Signature}
	case b.ReasoningContent != nil:
		return transcript.RedactedThinkingBlock{Data: b.ReasoningContent.RedactedContent}
	}
	return transcript.RawBlock{JSON: json.RawMessage(`{"type":"bedrock_block"}`)}
}

// bedrockContent returns a block of an answer as it goes out, nil if there is
// no such thing.
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

func (bedrock) whole(a message) []byte {
	content := []any{}
	for _, b := range a.content {
		if c := bedrockContent(b); c != nil {
			content = append(content, c)
		}
	}
	return encode(map[string]any{
		"output":     map[string]any{"message": map[string]any{"role": "assistant", "content": content}},
		"stopReason": bedrockStop(a.stop),
		"usage":      bedrockUsage(a.usage),
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

// events gives a start to calls alone.
func (bedrock) events(a message) (events []event) {
	add := func(kind string, payload any) { events = append(events, event{kind, encode(payload)}) }
	type object map[string]any
	add("messageStart", object{"role": "assistant"})
	for i, b := range a.content {
		deltas := func(text string, delta func(string) object) {
			for _, piece := range split(text) {
				add("contentBlockDelta", object{"contentBlockIndex": i, "delta": delta(piece)})
			}
		}
		switch b := b.(type) {
		case transcript.TextBlock:
			deltas(b.Text, func(s string) object { return object{"text": s} })
		case transcript.ThinkingBlock:
			deltas(b.Thinking, func(s string) object { return object{"reasoningContent": object{"text": s}} })
			deltas(b.Signature, func(s string) object { return object{"reasoningContent": object{"signature": s}} })
		case transcript.RedactedThinkingBlock:
			add("contentBlockDelta", object{"contentBlockIndex": i, "delta": bedrockContent(b)})
		case transcript.ToolCallBlock:
			add("contentBlockStart", object{"contentBlockIndex": i, "start": object{"toolUse": object{"toolUseId": b.ID, "name": b.Name}}})
			deltas(string(b.Input), func(s string) object { return object{"toolUse": object{"input": s}} })
		default:
			continue
		}
		add("contentBlockStop", object{"contentBlockIndex": i})
	}
	add("messageStop", object{"stopReason": bedrockStop(a.stop)})
	add("metadata", object{"usage": bedrockUsage(a.usage), "metrics": object{"latencyMs": 1}})
	return events
}

// eventFrame puts a payload into the binary frame of an AWS event stream: the
// lengths of all and of the headers, their checksum, the headers, the payload,
// and the checksum of all that.
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
