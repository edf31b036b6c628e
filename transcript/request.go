package transcript

import (
	"encoding/json"
)

// A Request to a model is independent of providers; package rebuild/wire
// renders it.
type Request struct {
	Model     string    `json:"model,omitempty"`
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools,omitempty"`
	MaxOutput int       `json:"max_tokens,omitempty"` // tokens; 0 leaves it to the client
	// Takes are the known limits of the service.
	Takes Takes `json:"takes,omitzero"`
}

// Tool describes a tool to a model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"` // a JSON Schema of type object

	// Members that few APIs know. Renderers leave them out elsewhere.
	Strict         bool            `json:"strict,omitempty"`          // inputs obey the schema
	DeferLoading   bool            `json:"defer_loading,omitempty"`   // the model has to find the tool first
	AllowedCallers []string        `json:"allowed_callers,omitempty"` // "direct", or code that the provider runs
	InputExamples  json.RawMessage `json:"input_examples,omitempty"`  // a list of inputs
	CacheControl   json.RawMessage `json:"cache_control,omitempty"`   // a cache mark
}

// Response is one answer of a model. Appended to a session it is one batch, so a
// crash never leaves the answer without the calls it made. Its JSON members are
// named as in an assistant line.
type Response struct {
	Message    Message    `json:"message"`
	API        string     `json:"api,omitempty"` // the wire format it came in, "anthropic" for example
	Model      string     `json:"model,omitempty"`
	StopReason StopReason `json:"stop_reason,omitempty"`
	Usage      Usage      `json:"usage,omitzero"`
	RequestID  string     `json:"request_id,omitempty"` // the provider's ID of the request
	Made       Made       `json:"made,omitzero"`        // what the request held
}
