package soak_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A dialect is a way to call an API.
type dialect struct {
	model  string
	path   string
	format storetest.Format
}

var thinking = json.RawMessage(`{"type":"adaptive"}`)

var dialects = map[string]dialect{
	"anthropic": {"claude-opus-5-5", "/v1/messages", anthropic.Format{Thinking: thinking}},
	"bedrock":   {"us.anthropic.claude-opus-5-5-v1:0", bedrock.Format{}.Path("us.anthropic.claude-opus-5-5-v1:0"), bedrock.Format{Thinking: thinking}},
	"chat":      {"kimi-k2", "/v1/chat/completions", openaichat.Format{Reasoning: true}},
	"gateway":   {"claude-on-kimi", "/v1/messages", anthropic.Format{}}, // a service that imitates Claude
	"gemini":    {"gemini-3-pro", "/v1beta/" + gemini.Format{}.Path("gemini-3-pro"), gemini.Format{Model: "gemini-3-pro"}},
	"responses": {"gpt-6", "/v1/responses", openairesponses.Format{Reasoning: json.RawMessage(`{"effort":"low"}`)}},
}

// A service is a model behind an API at a host, which names the endpoint.
type service struct {
	api, host string
	model     *guardtest.Model
	calls     int
	blind     bool // its guard does not know its limits
}

func (s *service) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	s.calls++
	d := dialects[s.api]
	_, answer, err := storetest.Ask(ctx, s.model, d.format, "http://"+s.host+d.path, req)
	return answer, err
}

func (s *service) guard() *guard.Guard {
	var takes transcript.Takes
	if !s.blind {
		takes = wire.TakesOf(dialects[s.api].model, "")
	}
	return &guard.Guard{Model: dialects[s.api].model, Format: dialects[s.api].format, Takes: takes, System: "You are an agent.", Endpoint: s.host, Tools: []transcript.Tool{{Name: "look", InputSchema: []byte(`{"type":"object"}`)}}}
}

// turn appends a text and the answer to it, and returns how many calls that took.
func (s *service) turn(t *testing.T, on *session.Session, items ...transcript.Item) int {
	t.Helper()
	storetest.Add(t, on, items...)
	s.calls = 0
	resp, err := guard.Complete(t.Context(), s.guard(), on, s)
	require.NoError(t, err, "after %d calls", s.calls)
	storetest.Add(t, on, resp)
	return s.calls
}

// body is the body of the last request.
func (s *service) body() string {
	all := s.model.Requests()
	return string(all[len(all)-1].Body)
}

// pdf is a document by its head.
func pdf(n int) transcript.Block {
	return transcript.DocumentBlock{Title: fmt.Sprint("report ", n), Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0xLjc" + strings.Repeat("A", 4*n+1)}}
}

// pictured are messages with media of a user and of a tool, and reasoning of answers.
func pictured(t *testing.T, s *service, on *session.Session) {
	t.Helper()
	s.turn(t, on, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "Words of the first text."}, storetest.Screenshot(300, 1), pdf(1)}})
	s.turn(t, on, transcript.UserText("Words of the second text."))
	storetest.Add(t, on, transcript.UserText("Words of the third text."))
	resp, err := guard.Complete(t.Context(), s.guard(), on, s)
	require.NoError(t, err)
	storetest.Add(t, on, resp)
	result := transcript.ToolResult(resp.Message.ToolCalls()[0].ID, "")
	b, _ := result.Content[0].(transcript.ToolResultBlock)
	result.Content[0] = b.WithContent(transcript.TextBlock{Text: "Words of the result."}, storetest.Screenshot(300, 2))
	s.turn(t, on, result)
}

// thought is an answer with reasoning, and a call for the third text.
func thought(r guardtest.Request) guardtest.Answer {
	content := []transcript.Block{transcript.ThinkingBlock{Thinking: fmt.Sprint("Hm ", r.N)}, transcript.TextBlock{Text: fmt.Sprint("Answer ", r.N)}}
	if strings.Contains(r.UserText(), "third text") {
		content = append(content, transcript.ToolCallBlock{ID: "call_1", Name: "look", Input: []byte(`{}`)})
	}
	return guardtest.Answer{Blocks: content}
}

type partRow struct {
	Source, Type, Code, Text, Refused string
	Status                            int
}

func partRows(t *testing.T) (rows []partRow) {
	t.Helper()
	data, err := os.ReadFile("../../guard/testdata/parts.jsonl")
	require.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var r partRow
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		rows = append(rows, r)
	}
	return rows
}

// refusal is the answer of a service in the words of a row.
func (r partRow) refusal() guardtest.Answer {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"type": r.Type, "code": r.Code, "message": r.Text}})
	return guardtest.Page(r.Status, string(body))
}

// at returns the row with a path of a request in place of the one in its text.
func (r partRow) at(path string) partRow {
	if path != "" {
		r.Text = pathInText.ReplaceAllLiteralString(r.Text, path)
	}
	return r
}

var pathInText = regexp.MustCompile(`\bmessages\.\d+\.content\.\d+(?:\.tool_result\.content\.\d+)?`)

// apis are those in which a part occurs.
func (r partRow) apis() []string {
	switch r.Refused {
	case "image", "document", "media", "images":
		return []string{"anthropic", "bedrock", "chat", "gemini", "responses"}
	case "reasoning":
		return []string{"anthropic", "bedrock", "gemini", "responses"}
	case "parts":
		return []string{"chat"}
	case "signatures":
		return []string{"gateway"}
	case "call-ids":
		return []string{"gemini"}
	}
	return nil
}

// Each refusal of a part is cured in the turn that meets it; it is recorded, so that
// it does not recur after a restart, in another process or in a fork, and after a
// compaction at most once. Another model and another endpoint get everything, and no
// text is lost.
func TestRefusedParts(t *testing.T) {
	twice := 0
	for n, row := range partRows(t) {
		for i, api := range row.apis() {
			if every := len(row.apis()); (n+i)%storetest.Extent(*storetest.Soak, every, 1, 1) != 0 {
				continue
			}
			t.Run(fmt.Sprint(n, " ", row.Refused, " ", api), func(t *testing.T) {
				on := false
				part := row.Refused
				refuses := guardtest.Holds(part)
				if part == "reasoning" { // of answers so far, as if another account had made them
					refuses = func(r guardtest.Request) bool { return bytes.Contains(r.Body, []byte(`"Hm 1"`)) }
				}
				data := ""
				switch part {
				case "image": // one of two
					data = storetest.Screenshot(300, 2).Source.Data
					refuses = func(r guardtest.Request) bool { return bytes.Contains(r.Body, []byte(data)) }
				case "document":
					data = "JVBERi0xLjc"
				case "signatures":
					refuses = func(r guardtest.Request) bool {
						return bytes.Count(r.Body, []byte(`"role":"assistant"`)) > bytes.Count(r.Body, []byte(`"type":"thinking"`))
					}
				}
				m := &guardtest.Model{Keep: -1, Bind: true}
				m.Answer = func(r guardtest.Request) guardtest.Answer {
					if on && r.Host == "a" && refuses(r) {
						return row.at(storetest.PathIn(r.Body, data, true)).refusal()
					}
					return thought(r)
				}
				if api == "gateway" {
					m.Bind = false
				}
				s := &service{api: api, host: "a", model: m}
				dir, opts := t.TempDir(), &session.Options{Sync: session.SyncNever, Compact: compact.Options{Summarizer: compact.SummarizerFunc(storetest.Says("What was done so far."))}}
				st := storetest.Open(t, dir, opts)
				conv := storetest.Load(t, st, storetest.CLI)
				pictured(t, s, conv)
				require.True(t, refuses(guardtest.Request{Body: []byte(s.body())}), "the request has nothing to refuse: %s", s.body())
				on = true
				calls := s.turn(t, conv, transcript.UserText("Words of the fourth text."))
				require.LessOrEqual(t, calls, 4)
				if calls > 2 {
					twice++
					t.Logf("%d calls: %s", calls, row.Text)
				}
				for _, words := range []string{"first text", "second text", "third text", "fourth text", "the result", "Answer 1"} {
					require.Contains(t, s.body(), words)
				}
				require.Equal(t, 1, s.turn(t, conv, transcript.UserText("More.")))
				h, err := conv.Health(t.Context())
				require.NoError(t, err)
				require.NotEmpty(t, h.Refused)

				storetest.Close(t, st)
				st = storetest.Open(t, dir, opts)
				conv = storetest.Load(t, st, storetest.CLI)
				require.Equal(t, 1, s.turn(t, conv, transcript.UserText("After a restart.")))
				second := storetest.Open(t, dir, opts)
				require.Equal(t, 1, s.turn(t, storetest.Load(t, second, storetest.CLI), transcript.UserText("In another process.")))
				storetest.Close(t, second)
				head, err := storetest.Head(t.Context(), conv)
				require.NoError(t, err)
				fork := storetest.Fork(t, conv, head, nil)
				require.Equal(t, 1, s.turn(t, fork, transcript.UserText("In a fork.")))

				b := &service{api: api, host: "b", model: m}
				b.turn(t, fork, transcript.UserText("At another endpoint."))
				if part == "parts" {
					part = "image"
				}
				switch part {
				case "reasoning", "signatures", "call-ids": // which may be bound to the other requests
				default:
					require.True(t, guardtest.Holds(part)(guardtest.Request{Body: []byte(b.body())}), "%s", b.body())
				}
				_, err = conv.Compact(t.Context(), nil)
				require.NoError(t, err)
				require.LessOrEqual(t, s.turn(t, conv, transcript.UserText("After a compaction.")), 2)
				storetest.Close(t, st)
				for _, r := range m.Invalid() {
					t.Fatalf("request %d was refused: %s\n%.3000s", r.N, r.Refused, r.Body)
				}
			})
		}
	}
	t.Logf("%d took more than two calls", twice)
}

// wide is a screenshot of 2,600 pixels by its head.
func wide(seed uint64) transcript.Block {
	data := storetest.Grain(120, seed)
	copy(data, "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x0a\x28\x00\x00\x06\x40")
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
}

// Many large screenshots that come to Claude from another model cost one refused call,
// or none if the limits of the service are known. Later ones cost none.
func TestManyScreenshots(t *testing.T) {
	for takes, most := range map[bool]int{false: 2, true: 0} {
		m := &guardtest.Model{Keep: -1, Bind: true, Answer: thought}
		st := storetest.Open(t, t.TempDir(), storetest.Unsynced)
		conv := storetest.Load(t, st, storetest.CLI)
		s := &service{api: "chat", host: "a", model: m}
		shot := func(n uint64) transcript.Message {
			return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: fmt.Sprint("screen ", n)}, wide(n)}}
		}
		for n := range uint64(40) {
			s.turn(t, conv, shot(n))
		}
		s = &service{api: "anthropic", host: "a", model: m, blind: !takes}
		for n := range uint64(12) {
			s.turn(t, conv, shot(100+n))
		}
		require.LessOrEqual(t, len(m.Invalid()), most)
		for _, r := range m.Invalid() {
			require.Contains(t, r.Refused, "many-image requests: 2000 pixels")
		}
		storetest.Close(t, st)
	}
}
