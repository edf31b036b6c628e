package openviking

import (
	"cmp"
	"context"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

type (
	contextQuery struct {
		Budget int `json:"token_budget" default:"128000"`
	}
	sessionContext struct {
		Overview  string         `json:"latest_archive_overview"`
		Abstracts []string       `json:"pre_archive_abstracts"` // always empty, as in OpenViking
		Messages  []message      `json:"messages"`
		Tokens    int            `json:"estimatedTokens"`
		Stats     map[string]int `json:"stats"`
	}
	resultsQuery struct {
		Tool  string `json:"tool_name"`
		Limit int    `json:"limit" default:"50" least:"1"`
	}
	resultQuery struct {
		Offset int `json:"offset"`                           // in characters
		Limit  int `json:"limit" default:"20000" least:"-1"` // -1 means all
	}
	matchQuery struct {
		Query string `json:"q"`
		Limit int    `json:"limit" default:"20" least:"1"` // at most 100
		Chars int    `json:"context_chars" default:"300"`  // on each side, at most 2000
	}
	toolResults struct {
		Results []toolResult `json:"tool_results"`
	}
	toolResult struct {
		ID      string `json:"tool_result_id"` // the ID of the call
		Name    string `json:"tool_name"`
		Chars   int    `json:"original_chars"`
		Created string `json:"created_at"`

		text string
	}
	toolText struct {
		ID       string     `json:"tool_result_id"`
		Content  string     `json:"content"`
		Offset   int        `json:"offset"`
		Limit    int        `json:"limit"`
		Unit     string     `json:"offset_unit"`
		Total    int        `json:"total_chars"`
		More     bool       `json:"has_more"`
		Metadata toolResult `json:"metadata"`
	}
	toolMatches struct {
		ID      string      `json:"tool_result_id"`
		Matches []toolMatch `json:"matches"`
	}
	toolMatch struct {
		Offset  int    `json:"offset"`
		Unit    string `json:"offset_unit"`
		Snippet string `json:"snippet"`
	}
)

const unit = "unicode_code_point"

// The limits of a search in a result. Larger numbers of a client mean these.
const (
	maxMatches  = 100
	maxAround   = 2000    // characters on each side of a match
	maxSnippets = 100_000 // characters of all snippets, before the last one
)

// readContext answers with the newest whole turns outside of archives that fit the
// budget, and with the overview of the last archive if it fits the rest. The newest turn
// is in the answer even if it exceeds the budget: estimatedTokens is then larger.
func readContext(q *serve.Request, s *session.Session, query contextQuery) (out sessionContext, err error) {
	h, err := memory.Uncommitted(q.Context(), s)
	if err != nil {
		return out, err
	}
	chapters, err := memory.Chapters(q.Context(), s)
	if err != nil {
		return out, err
	}
	size := func(m transcript.Message) int { return tokens.Estimator{}.Count("", nil, []transcript.Message{m}) }
	h, _ = rebuild.Fit(h, query.Budget, size)
	c := sessionContext{Abstracts: []string{}, Messages: messagesOf(h.Messages)}
	for _, m := range h.Messages {
		c.Tokens += size(m)
	}
	active := c.Tokens
	if n := len(chapters); n > 0 {
		overview := chapters[n-1].Overview
		if more := size(transcript.UserText(overview)); c.Tokens+more <= query.Budget {
			c.Overview, c.Tokens = overview, c.Tokens+more
		}
	}
	c.Stats = map[string]int{
		"totalArchives": len(chapters), "includedArchives": 0, "droppedArchives": len(chapters), "failedArchives": 0,
		"activeTokens": active, "archiveTokens": c.Tokens - active,
	}
	return c, nil
}

// resultsOf returns the results of tools in the conversation, in order.
func resultsOf(ctx context.Context, s *session.Session) (results []toolResult, err error) {
	names := map[string]string{} // of the tools, by call
	err = said.Each(ctx, s, func(e transcript.Entry) {
		line, _ := e.Body.(transcript.MessageLine)
		for _, b := range line.Content {
			switch b := b.(type) {
			case transcript.ToolCallBlock:
				names[b.ID] = b.Name
			case transcript.ToolResultBlock:
				text := said.Result(b)
				results = append(results, toolResult{b.CallID, names[b.CallID], utf8.RuneCountInString(text), e.Time.UTC().Format(time.RFC3339Nano), text})
			}
		}
	})
	return results, err
}

func listResults(q *serve.Request, s *session.Session, query resultsQuery) (out toolResults, err error) {
	all, err := resultsOf(q.Context(), s)
	found := []toolResult{}
	for _, r := range all {
		if len(found) < query.Limit && r.Name == cmp.Or(query.Tool, r.Name) {
			found = append(found, r)
		}
	}
	return toolResults{found}, err
}

// resultOf returns the result of the call in the path.
func resultOf(q *serve.Request, s *session.Session) (last toolResult, err error) {
	all, err := resultsOf(q.Context(), s)
	for _, r := range all {
		if r.ID == q.PathValue("call") {
			last = r
		}
	}
	if err == nil && last.ID == "" {
		err = fs.ErrNotExist
	}
	return last, err
}

func readResult(q *serve.Request, s *session.Session, query resultQuery) (out toolText, err error) {
	r, err := resultOf(q, s)
	if err != nil {
		return out, err
	}
	end := r.Chars
	if query.Limit >= 0 && query.Limit < r.Chars-query.Offset {
		end = query.Offset + query.Limit
	}
	text := string([]rune(r.text)[min(query.Offset, end):end])
	return toolText{r.ID, text, query.Offset, query.Limit, unit, r.Chars, end < r.Chars, r}, nil
}

func matchResult(q *serve.Request, s *session.Session, query matchQuery) (out toolMatches, err error) {
	if query.Query == "" {
		return out, serve.Invalid("the parameter q is empty")
	}
	r, err := resultOf(q, s)
	if err != nil {
		return out, err
	}
	around := min(query.Chars, maxAround)
	found, runes, at, size := []toolMatch{}, []rune(r.text), 0, 0
	rest := r.text
	for len(found) < min(query.Limit, maxMatches) && size < maxSnippets {
		before, after, ok := strings.Cut(rest, query.Query)
		if !ok {
			break
		}
		at += utf8.RuneCountInString(before)
		end := at + utf8.RuneCountInString(query.Query)
		from, to := max(0, at-around), min(len(runes), end+around)
		found = append(found, toolMatch{at, unit, string(runes[from:to])})
		rest, at, size = after, end, size+to-from
	}
	return toolMatches{r.ID, found}, nil
}
