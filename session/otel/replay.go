package otel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Replay makes the spans of a stored session: one for each turn, with the answers, calls
// and compactions of the turn as its parts. The times come from the transcript. Each span
// gets a new ID and the attribute convolog.replayed. A turn begins with a user message
// after an answer, and links to the turn before. The span of an answer begins at the entry
// before it, because a transcript does not hold the time of a request.
//
// Replay reads every entry once, also hidden and rewound ones, but not the lines that a
// fork has copied. It makes no metrics. After an error the spans so far have ended.
//
// Content is nil, or returns attributes with words of an entry for its span: of the first
// line of an answer, or of the line that begins a turn or ends a call. It receives entries
// as the filters of the store let them leave.
func (r *Recorder) Replay(ctx context.Context, s *session.Session, content func(transcript.Entry) []attribute.KeyValue) error {
	p := &replay{r: r, ref: s.Ref(), content: content, calls: map[string]call{}}
	defer func() { p.endTurn() }()
	for b, err := range transcript.Batches(s.Scan(ctx, session.ScanOptions{Own: true})) {
		if err != nil {
			return err
		}
		if !b.Complete {
			continue
		}
		shown, err := s.FilterExport(ctx, b.Entries)
		if err != nil {
			return err
		}
		for _, e := range shown {
			p.add(ctx, e)
			p.last = e.Time
		}
	}
	return nil
}

// A replay makes spans of the entries of a session.
type replay struct {
	r       *Recorder
	ref     session.Ref
	content func(transcript.Entry) []kv // may be nil

	turn     trace.Span      // nil before the first turn
	answered bool            // the next user message begins a turn
	calls    map[string]call // without their results, by ID
	last     time.Time       // of the entry before
}

type call struct {
	name string
	at   time.Time
}

// add makes the spans that an entry begins or ends.
func (p *replay) add(ctx context.Context, e transcript.Entry) {
	if c, ok := e.Body.(transcript.Compaction); ok {
		p.span(ctx, e, spanCompact, "", e.Time, compacted.Bool(true), tokensBefore.Int(c.TokensBefore), tokensAfter.Int(c.TokensAfter)).
			End(trace.WithTimestamp(e.Time))
	}
	m, _ := e.Body.(transcript.MessageLine)
	switch {
	case m.Kind == transcript.TypeUser && (p.turn == nil || p.answered):
		p.beginTurn(ctx, e)
	case (m.Kind == transcript.TypeAssistant || m.Kind == transcript.TypeToolUse) && m.Of == "":
		p.answered = true
		p.answer(ctx, e, m)
	}
	for _, b := range m.Content {
		switch b := b.(type) {
		case transcript.ToolCallBlock:
			p.calls[b.ID] = call{b.Name, e.Time}
		case transcript.ToolResultBlock:
			p.tool(ctx, e, b)
		}
	}
}

// span begins a span for an entry, in the turn if one has begun.
func (p *replay) span(ctx context.Context, e transcript.Entry, name, object string, at time.Time, attrs ...kv) trace.Span {
	if p.turn != nil {
		ctx = trace.ContextWithSpan(ctx, p.turn)
	}
	if attrs = append(attrs, conversation.String(p.ref.ID), agentName.String(p.ref.Agent), replayed.Bool(true)); p.content != nil {
		attrs = append(attrs, p.content(e)...)
	}
	if object != "" {
		name += " " + object
	}
	_, span := p.r.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithAttributes(attrs...))
	return span
}

func (p *replay) beginTurn(ctx context.Context, e transcript.Entry) {
	before := p.turn
	p.endTurn()
	p.turn, p.answered = nil, false
	p.turn = p.span(ctx, e, invokeAgent, p.ref.Agent, e.Time, operationName.String(invokeAgent))
	if before != nil {
		p.turn.AddLink(trace.Link{SpanContext: before.SpanContext()})
	}
}

func (p *replay) endTurn() {
	if p.turn != nil {
		p.turn.End(trace.WithTimestamp(p.last))
	}
}

// answer makes the span of an answer from its first line.
func (p *replay) answer(ctx context.Context, e transcript.Entry, m transcript.MessageLine) {
	attrs := []kv{operationName.String(chat)}
	if m.Model != "" {
		attrs = append(attrs, responseModel.String(m.Model))
	}
	if m.StopReason != "" {
		attrs = append(attrs, finishReasons.StringSlice([]string{string(m.StopReason)}))
	}
	if u := m.Usage; u.Prompt()+u.Output > 0 {
		attrs = append(attrs, inputTokens.Int(u.Prompt()), outputTokens.Int(u.Output), cacheTokens.Int(u.CacheRead))
	}
	begin := p.last
	if begin.IsZero() { // the first line of a fork
		begin = e.Time
	}
	p.span(ctx, e, chat, m.Model, begin, attrs...).End(trace.WithTimestamp(e.Time))
}

// tool makes the span of a call from its result.
func (p *replay) tool(ctx context.Context, e transcript.Entry, result transcript.ToolResultBlock) {
	c, ok := p.calls[result.CallID]
	if !ok {
		return // a fork has copied the call
	}
	delete(p.calls, result.CallID)
	span := p.span(ctx, e, executeTool, c.name, c.at, operationName.String(executeTool), toolName.String(c.name), toolCallID.String(result.CallID))
	if result.IsError {
		failed(span, errTool)
	}
	span.End(trace.WithTimestamp(e.Time))
}
