package bedrocktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

const model = "anthropic.claude-x-v1:0"

// newClient is the official client, over a port of the loopback interface.
func newClient(t testing.TB, m *guardtest.Model) *bedrockruntime.Client {
	t.Helper()
	server := guardtest.NewServer(m)
	t.Cleanup(server.Close)
	return bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(), RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "dummy", SecretAccessKey: "dummy"}, nil
		}),
	})
}

func render(t testing.TB, format bedrock.Format, req transcript.Request) []byte {
	t.Helper()
	body, _, err := format.Request(req)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// whole asks for an answer that is not streamed.
func whole(t testing.TB, c *bedrockruntime.Client, req transcript.Request) (*transcript.Response, error) {
	t.Helper()
	format := bedrock.Format{Model: req.Model}
	out, err := c.Converse(t.Context(), input(t, req.Model, render(t, format, req)))
	if err != nil {
		return nil, err
	}
	return format.Response(toJSON(t, out))
}

// streamed asks for a stream.
func streamed(t testing.TB, c *bedrockruntime.Client, req transcript.Request) (*transcript.Response, error) {
	t.Helper()
	format := bedrock.Format{Model: req.Model, Stream: true}
	in := input(t, req.Model, render(t, format, req))
	out, err := c.ConverseStream(t.Context(), &bedrockruntime.ConverseStreamInput{
		ModelId: in.ModelId, Messages: in.Messages, System: in.System, ToolConfig: in.ToolConfig,
		InferenceConfig: in.InferenceConfig, AdditionalModelRequestFields: in.AdditionalModelRequestFields,
	})
	if err != nil {
		return nil, err
	}
	events := out.GetStream()
	defer func() { _ = events.Close() }() // only read
	stream := format.NewStream()
	for e := range events.Events() {
		kind, payload := event(t, e)
		if _, err := stream.Add(bedrock.Event(kind, payload)); err != nil {
			return stream.Response(), err
		}
	}
	err = events.Err()
	if errors.Is(err, net.ErrClosed) { // the client closes its connection, in one of 1,000 answers
		err = nil
	}
	return stream.Response(), err
}

// event returns the type and the JSON of an event read by the SDK.
func event(t testing.TB, e types.ConverseStreamOutput) (kind string, payload []byte) {
	t.Helper()
	switch e := e.(type) {
	case *types.ConverseStreamOutputMemberMessageStart:
		return "messageStart", toJSON(t, &e.Value)
	case *types.ConverseStreamOutputMemberContentBlockStart:
		return "contentBlockStart", toJSON(t, &e.Value)
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		return "contentBlockDelta", toJSON(t, &e.Value)
	case *types.ConverseStreamOutputMemberContentBlockStop:
		return "contentBlockStop", toJSON(t, &e.Value)
	case *types.ConverseStreamOutputMemberMessageStop:
		return "messageStop", toJSON(t, &e.Value)
	case *types.ConverseStreamOutputMemberMetadata:
		return "metadata", toJSON(t, &e.Value)
	}
	t.Fatalf("unexpected event %T", e)
	return "", nil
}

var ways = map[string]func(testing.TB, *bedrockruntime.Client, transcript.Request) (*transcript.Response, error){
	"whole": whole, "streamed": streamed,
}

// everything is a request with every kind of block.
func everything(t testing.TB) transcript.Request {
	t.Helper()
	message := func(text string, o transcript.Origin) (m transcript.Message) {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		for range m.Content {
			m.Origins = append(m.Origins, o)
		}
		return m
	}
	return transcript.Request{
		Model: model, System: "<system> & \u2028", MaxOutput: 5000,
		Tools: []transcript.Tool{{Name: "read", Description: "d", InputSchema: json.RawMessage(`{"type":"object","x-order":["a"],"properties":{"a":{"const":1.5}}}`)}},
		Messages: []transcript.Message{
			message(`{"role":"user","content":[{"type":"text","text":"<look> & \u2028"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"document","title":"t.pdf","context":"c","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"}}]}`, transcript.Origin{}),
			message(`{"role":"assistant","content":[{"type":"thinking","thinking":"Hm <","signature":"c2ln"},{"type":"redacted_thinking","data":"ZGF0YQ=="},{"type":"text","text":"so"},{"type":"tool_use","id":"a","name":"read","input":{"b":1.5,"a":[null,"<"]}},{"type":"tool_use","id":"b","name":"read","input":{}}]}`, transcript.Origin{API: "bedrock", Model: model}),
			message(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"one"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"no"},{"type":"text","text":"hurry"}]}`, transcript.Origin{}),
		},
	}
}

// same holds that two JSON texts have one meaning.
func same(t testing.TB, got, want []byte) {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(got, &x), json.Unmarshal(want, &y)); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A rendered request decodes into the SDK's types, and the official client's
// request means the same and is accepted.
func TestRequest(t *testing.T) {
	thinking := bedrock.Format{Thinking: json.RawMessage(`{"type":"enabled","budget_tokens":1024}`)}
	m := &guardtest.Model{}
	c := newClient(t, m)
	for _, format := range []bedrock.Format{{}, thinking} {
		want := render(t, format, everything(t))
		if _, err := c.Converse(t.Context(), input(t, model, want)); err != nil {
			t.Fatal(err)
		}
		requests := m.Requests()
		same(t, requests[len(requests)-1].Body, want)
	}
}

// Requests rendered from any transcript go through the types.
func TestRandomRequests(t *testing.T) {
	var blocks []string
	for _, m := range everything(t).Messages {
		for _, b := range m.Content {
			blocks = append(blocks, string(transcript.MarshalBlock(b)))
		}
	}
	blocks = append(blocks, `{"type":"audio"}`, `{"type":"text","text":" "}`, `{"type":"context","uri":"u"}`, `{"type":"document","title":"日本 a.b","source":{"type":"base64","media_type":"text/csv","data":"AAAA"}}`)
	m := &guardtest.Model{}
	c := newClient(t, m)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		fold := rebuild.New(nil)
		for n := range 8 {
			b := blocks[rnd.IntN(len(blocks))]
			line := []string{
				fmt.Sprintf(`{"type":"user","id":"e%d","content":[%s]}`, n, b),
				fmt.Sprintf(`{"type":"assistant","id":"e%d","api":"bedrock","model":%q,"content":[%s]}`, n, model, b),
			}[rnd.IntN(2)]
			if n == 7 {
				line = `{"type":"user","id":"last","content":"and?"}`
			}
			e, err := transcript.ParseEntry([]byte(line))
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if err := fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}); err != nil {
				t.Fatal(err)
			}
		}
		want := render(t, bedrock.Format{}, transcript.Request{Model: model, Messages: fold.History().Messages})
		if _, err := c.Converse(t.Context(), input(t, model, want)); err != nil {
			t.Fatalf("%v\n%s", err, want)
		}
		requests := m.Requests()
		same(t, requests[len(requests)-1].Body, want)
	}
}

// An answer comes through the official client unchanged, whole and in events.
func TestAnswer(t *testing.T) {
	call := guardtest.Tool("read", `{"a":[1.5,"<"],"b":"one two three four five six"}`)
	call.ID = "tooluse_1"
	said := []transcript.Block{
		transcript.ThinkingBlock{Thinking: "Let me <see> what there is.", Signature: "c2lnbmF0dXJl"},
		transcript.RedactedThinkingBlock{Data: "ZGF0YQ=="},
		transcript.TextBlock{Text: "A call & \u2028 of a tool with a name."},
		call,
	}
	m := &guardtest.Model{Answer: guardtest.Always(guardtest.Answer{Blocks: said, Usage: &transcript.Usage{Input: 5, Output: 7, CacheRead: 11, CacheWrite: 13}})}
	c := newClient(t, m)
	want, err := json.Marshal(transcript.Message{Role: transcript.RoleAssistant, Content: said})
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range ways {
		resp, err := ask(t, c, everything(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := json.Marshal(resp.Message)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
		if u := resp.Usage; u.Input != 5 || u.Output != 7 || u.CacheRead != 11 || u.CacheWrite != 13 || resp.StopReason != transcript.StopToolUse || resp.Model != model {
			t.Errorf("%s: %+v", name, resp)
		}
		// It goes back, reasoning first, and is accepted.
		next := everything(t)
		resp.Message.Origins = make([]transcript.Origin, len(resp.Message.Content))
		for i := range resp.Message.Origins {
			resp.Message.Origins[i] = transcript.Origin{API: resp.API, Model: resp.Model}
		}
		next.Messages = append(next.Messages[:1:1], resp.Message, transcript.ToolResult(call.ID, "r"))
		if _, err := ask(t, c, next); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		requests := m.Requests()
		if last := string(requests[len(requests)-1].Body); !strings.Contains(last, `"signature":"c2lnbmF0dXJl"`) || !strings.Contains(last, `"redactedContent":"ZGF0YQ=="`) {
			t.Errorf("%s: the reasoning did not go back: %s", name, last)
		}
	}
}

// The guard distinguishes the errors of the SDK.
func TestErrors(t *testing.T) {
	tests := []struct {
		name   string
		answer guardtest.Answer
		kind   guard.Kind
		code   string
	}{
		{"too long", guardtest.Fail(400, "", "The model returned the following errors: prompt is too long: 215000 tokens > 200000 maximum"), guard.Tokens, "ValidationException"},
		{"throttled", guardtest.Fail(429, "", "Too many tokens, please wait before trying again."), guard.NotOverflow, "ThrottlingException"},
		{"overloaded", guardtest.Overloaded(), guard.NotOverflow, "ServiceUnavailableException"},
		{"broken", guardtest.Broken(), guard.NotOverflow, "InternalServerException"},
		{"key", guardtest.Unauthorized(), guard.NotOverflow, "AccessDeniedException"},
		{"in a stream", guardtest.FailAfter(2, "overloaded_error", "Overloaded", guardtest.Say("never")), guard.NotOverflow, "ServiceUnavailableException"},
	}
	for _, tt := range tests {
		for name, ask := range ways {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
				_, err := ask(t, newClient(t, m), transcript.Request{Model: model, Messages: []transcript.Message{transcript.UserText("hi")}})
				refusal, ok := errors.AsType[smithy.APIError](err)
				if !ok || refusal.ErrorCode() != tt.code {
					t.Fatalf("error %v", err)
				}
				if o := guard.Classify(err); o.Kind != tt.kind || tt.kind == guard.Tokens && (o.Prompt != 215_000 || o.Limit != 200_000) {
					t.Errorf("%q is %+v", err, o)
				}
			})
		}
	}
}

// The received part of a stream cut by the connection is kept. The SDK may take
// the cut for the end, so only the stop reason shows it.
func TestCut(t *testing.T) {
	m := &guardtest.Model{Answer: guardtest.Always(guardtest.CutAfter(4, guardtest.Say(strings.Repeat("one two three four ", 20))))}
	resp, _ := streamed(t, newClient(t, m), transcript.Request{Model: model, Messages: []transcript.Message{transcript.UserText("hi")}})
	if resp == nil || resp.StopReason != transcript.StopAborted || resp.Message.Text() == "" {
		t.Errorf("answer %+v", resp)
	}
}
