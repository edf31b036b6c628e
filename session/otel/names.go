package otel

import (
	"context"
	"errors"
	"io/fs"

	"go.opentelemetry.io/otel/attribute"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
)

// Conventions is the version of open-telemetry/semantic-conventions-genai that the gen_ai
// names of this package follow. All of them have the status Development: if a later
// version renames them, a later version of this package does.
const Conventions = "v0.1.0"

// Names of operations and spans.
const (
	spanAppend  = "convolog.append"
	spanCompact = "convolog.compact"
	syncs       = "sync" // not a span
	waits       = "lock wait"
	invokeAgent = "invoke_agent"
	executeTool = "execute_tool"
	memory      = "memory" // spans are named by operation
	chat        = "chat"
)

// durations are the histograms of the operations, in seconds.
var durations = map[string]string{
	spanAppend:  "convolog.append.duration",
	spanCompact: "convolog.compact.duration",
	syncs:       "convolog.sync.duration",
	waits:       "convolog.lock_wait.duration",
	invokeAgent: "gen_ai.invoke_agent.duration",
	executeTool: "gen_ai.execute_tool.duration",
	memory:      "gen_ai.client.operation.duration",
}

// Attributes of the conventions, and names for facts that they lack.
const (
	agentName     = attribute.Key("gen_ai.agent.name")
	conversation  = attribute.Key("gen_ai.conversation.id")
	compacted     = attribute.Key("gen_ai.conversation.compacted")
	operationName = attribute.Key("gen_ai.operation.name")
	responseModel = attribute.Key("gen_ai.response.model")
	finishReasons = attribute.Key("gen_ai.response.finish_reasons")
	inputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	outputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	cacheTokens   = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	toolName      = attribute.Key("gen_ai.tool.name")
	toolCallID    = attribute.Key("gen_ai.tool.call.id")
	recordCount   = attribute.Key("gen_ai.memory.record.count")
	errorType     = attribute.Key("error.type")

	entries      = attribute.Key("convolog.entries")
	size         = attribute.Key("convolog.bytes")
	synced       = attribute.Key("convolog.sync.seconds")
	lock         = attribute.Key("convolog.lock")
	tokensBefore = attribute.Key("convolog.tokens.before")
	tokensAfter  = attribute.Key("convolog.tokens.after")
	standIn      = attribute.Key("convolog.stand_in")
	eventKind    = attribute.Key("convolog.event")
	replayed     = attribute.Key("convolog.replayed")
)

var (
	errPanic = errors.New("panic")
	errTool  = errors.New("the tool has failed")
)

// errorTypes are the values of error.type. Texts of errors are not recorded, as they may
// quote a conversation.
var errorTypes = []struct {
	err  error
	name string
}{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{session.ErrConflict, "conflict"},
	{session.ErrBusy, "busy"},
	{session.ErrIdemMismatch, "idem_mismatch"},
	{session.ErrReplaced, "replaced"},
	{session.ErrClosed, "closed"},
	{fs.ErrNotExist, "not_found"},
	{errTool, "tool_error"},
	{errPanic, "panic"},
}

func typeOf(err error) string {
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			return t.name
		}
	}
	if _, ok := errors.AsType[*compact.Error](err); ok {
		return "summarizer"
	}
	if _, ok := errors.AsType[*session.NotDurableError](err); ok {
		return "not_durable"
	}
	return "_OTHER"
}
