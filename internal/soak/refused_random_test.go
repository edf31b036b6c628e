package soak_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A fussy session talks to services that refuse parts of requests, each in its own way,
// and that bind reasoning to its request.
type fussy struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	opts  *session.Options
	store *session.Store
	s     *session.Session
	model *guardtest.Model

	api, host string
	refuses   map[string][]partRow // by API and host
	bad       map[string][]string  // data that no service reads, by the kind of block
	n         int

	cured, failed, most int
}

func newFussy(t *testing.T, seed uint64) *fussy {
	f := &fussy{t: t, rng: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), refuses: map[string][]partRow{}, bad: map[string][]string{}}
	f.opts = &session.Options{Sync: session.SyncNever, Compact: compact.Options{Summarizer: compact.SummarizerFunc(storetest.Says(strings.Repeat("What was done so far, and what is to be done. ", 12)))}}
	f.model = &guardtest.Model{Keep: -1, Bind: true, Answer: f.answer}
	f.store = storetest.Open(t, f.dir, f.opts)
	f.s = storetest.Load(t, f.store, storetest.CLI)
	rows := partRows(t)
	for _, api := range slices.Sorted(maps.Keys(dialects)) {
		for _, host := range []string{"a", "b"} {
			for range f.rng.IntN(3) {
				if row := rows[f.rng.IntN(len(rows))]; slices.Contains(row.apis(), api) {
					f.refuses[api+host] = append(f.refuses[api+host], row)
				}
			}
		}
	}
	apis := []string{"anthropic", "bedrock", "chat", "gemini", "responses"}
	f.api, f.host = apis[seed%5], "a"
	return f
}

// answer refuses, or thinks and calls a tool.
func (f *fussy) answer(r guardtest.Request) guardtest.Answer {
	for _, row := range f.refuses[f.api+f.host] {
		holds := guardtest.Holds(row.Refused)(r)
		switch row.Refused {
		case "reasoning": // of another host
			other := map[string]string{"a": "Hm b", "b": "Hm a"}[f.host]
			holds = bytes.Contains(r.Body, []byte(other)) && f.api != "chat"
		case "image", "document", "media":
			bad := f.bad[row.Refused]
			if row.Refused == "media" {
				bad = slices.Concat(f.bad["image"], f.bad["document"])
			}
			at := slices.IndexFunc(bad, func(data string) bool { return bytes.Contains(r.Body, []byte(data)) })
			if holds = at >= 0; holds {
				path := storetest.PathIn(r.Body, bad[at], f.rng.IntN(2) == 0)
				if row = row.at(path); f.rng.IntN(4) == 0 {
					row = partRow{Status: http.StatusBadRequest, Text: path + ": not as it should be"}
				}
			}
		}
		if holds {
			return row.refusal()
		}
	}
	if f.rng.IntN(25) == 0 {
		return []guardtest.Answer{guardtest.Overloaded(), guardtest.RateLimited(0), guardtest.Broken()}[f.rng.IntN(3)]
	}
	f.n++
	content := []transcript.Block{transcript.ThinkingBlock{Thinking: fmt.Sprintf("Hm %s %d.", f.host, f.n)}}
	if f.rng.IntN(2) == 0 {
		content = append(content, transcript.TextBlock{Text: fmt.Sprintf("Answer %d.", f.n)})
	}
	if f.rng.IntN(2) == 0 || len(content) == 1 {
		content = append(content, transcript.ToolCallBlock{ID: fmt.Sprintf("call_%d", f.n), Name: "look", Input: fmt.Appendf(nil, `{"n":%d}`, f.n)})
	}
	return guardtest.Answer{Blocks: content}
}

// medium is an image or a document, readable by services or not.
func (f *fussy) medium() transcript.Block {
	f.n++
	b := transcript.Block(storetest.Screenshot(60, uint64(f.n)))
	data := storetest.Screenshot(60, uint64(f.n)).Source.Data
	if f.rng.IntN(3) == 0 {
		b = transcript.DocumentBlock{Title: fmt.Sprint("report ", f.n), Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0xLjcA" + data}}
	}
	if f.rng.IntN(3) == 0 {
		f.bad[transcript.BlockType(b)] = append(f.bad[transcript.BlockType(b)], data[48:])
	}
	return b
}

func (f *fussy) say() transcript.Message {
	f.n++
	m := transcript.UserText(fmt.Sprintf("Words %d.", f.n))
	if f.rng.IntN(3) == 0 {
		m.Content = append(m.Content, f.medium())
	}
	return m
}

// step is a text of the user, and calls of the model until it calls no tool.
func (f *fussy) step() {
	switch f.rng.IntN(15) {
	case 5:
		f.hide()
	case 0:
		storetest.Close(f.t, f.store)
		f.store = storetest.Open(f.t, f.dir, f.opts)
		f.s = storetest.Load(f.t, f.store, storetest.CLI)
	case 1:
		f.host = []string{"a", "b"}[f.rng.IntN(2)]
	case 2, 3:
		f.api = []string{"anthropic", "bedrock", "chat", "gemini", "responses"}[f.rng.IntN(5)]
	case 4:
		_, err := f.s.Compact(f.t.Context(), nil)
		if _, ok := errors.AsType[*compact.Error](err); !ok {
			require.NoError(f.t, err)
		}
	}
	storetest.Add(f.t, f.s, f.say())
	for range 4 {
		resp := f.ask()
		storetest.Add(f.t, f.s, resp)
		calls := resp.Message.ToolCalls()
		for _, call := range calls {
			result := transcript.ToolResult(call.ID, fmt.Sprintf("Result of %s.", call.ID))
			if b, ok := result.Content[0].(transcript.ToolResultBlock); ok && f.rng.IntN(3) == 0 {
				result.Content[0] = b.WithContent(append(b.Content, f.medium())...)
			}
			storetest.Add(f.t, f.s, result)
		}
		if len(calls) == 0 {
			return
		}
	}
}

// hide leaves out a text of the user before the last.
func (f *fussy) hide() {
	h, err := f.s.History(f.t.Context())
	require.NoError(f.t, err)
	var texts []string
	for _, m := range h.Messages {
		for i, o := range m.Origins {
			if b, ok := m.Content[i].(transcript.TextBlock); ok && strings.HasPrefix(b.Text, "Words") {
				texts = append(texts, o.Entry)
			}
		}
	}
	if len(texts) > 1 {
		_, err = turn.Hide(f.t.Context(), f.s, texts[f.rng.IntN(len(texts)-1)])
		require.NoError(f.t, err)
	}
}

// ask calls the model, again after an error that clients wait for, and once more if four
// calls were not enough.
func (f *fussy) ask() *transcript.Response {
	s := &service{api: f.api, host: f.host, model: f.model}
	var err error
	for range 12 {
		s.calls = 0
		g := s.guard()
		g.Observe = func(_ context.Context, e guard.Event) {
			if e.Kind == guard.EventRefused && e.Changed {
				f.cured++
			}
		}
		var resp *transcript.Response
		resp, err = guard.Do(f.t.Context(), g, f.s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
			if f.rng.IntN(12) == 0 {
				storetest.Add(f.t, f.s, f.say())
			}
			return s.Complete(ctx, c.Request)
		})
		f.most = max(f.most, s.calls)
		require.LessOrEqual(f.t, s.calls, 4)
		if err == nil {
			f.whole(s)
			return resp
		}
		if o := guard.Classify(err); o.Kind != guard.NotOverflow {
			f.failed++
		}
	}
	require.NoError(f.t, err, "stuck")
	return nil
}

// whole checks that the last request holds all texts and calls of its history.
func (f *fussy) whole(s *service) {
	body := strings.NewReplacer(`\"`, `"`, `\n`, " ").Replace(s.body())
	h, err := f.s.History(f.t.Context())
	require.NoError(f.t, err)
	last := 0 // a steering text may have come after the request was made
	for i, m := range h.Messages {
		if m.Role == transcript.RoleAssistant {
			last = i
		}
	}
	for _, m := range h.Messages[:last] {
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				if strings.HasPrefix(b.Text, "Words") || strings.HasPrefix(b.Text, "Answer") {
					require.Contains(f.t, body, b.Text)
				}
			case transcript.ToolCallBlock:
				require.Contains(f.t, body, strings.Trim(string(b.Input), "{}"))
			case transcript.ToolResultBlock:
				require.Contains(f.t, body, strings.SplitN(b.Text(), "\n", 2)[0])
			}
		}
	}
}

// Whatever parts services refuse, a conversation with switches of models, APIs and
// accounts is never stuck, no request is refused because of bound reasoning, and no text
// or call is lost.
func TestRefusedRandom(t *testing.T) {
	cured, failed, most := 0, 0, 0
	for seed := range uint64(storetest.Extent(*storetest.Soak, 8, 200, 2000)) {
		f := newFussy(t, seed)
		for range 16 {
			f.step()
		}
		storetest.Close(t, f.store)
		for _, r := range f.model.Invalid() {
			t.Fatalf("seed %d: request %d was refused: %s\n%.3000s", seed, r.N, r.Refused, r.Body)
		}
		cured, failed, most = cured+f.cured, failed+f.failed, max(most, f.most)
	}
	t.Logf("%d cures, %d calls of Do that needed another, at most %d calls", cured, failed, most)
	require.NotZero(t, cured)
	require.LessOrEqual(t, failed*20, cured)
}
