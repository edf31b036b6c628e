package guardtest

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// The provider caches no shorter prefix, and it looks for a cached prefix in this many
// blocks up to a mark.
const (
	minCached    = 1024 // tokens
	cacheLookups = 20
)

// A prefix is a prompt up to the end of one of its blocks.
type prefix struct {
	hash   string
	marked bool
	tokens func() int
}

// prefixes returns all prefixes of a prompt, the shortest first: tools, system prompt,
// and each block.
func (m *Model) prefixes(req Request) (all []prefix) {
	b := &binder{}
	add := func(kind string, value any, marked bool, tokens func() int) {
		b.add(kind, value)
		all = append(all, prefix{string(b.hash), marked, tokens})
	}
	var body map[string]json.RawMessage
	_ = json.Unmarshal(req.Body, &body) // it was decoded before
	markedIn := func(name string) bool { return bytes.Contains(body[name], []byte(`"cache_control"`)) }
	add("tools", req.Tools, markedIn("tools"), func() int { return m.tokens("", req.Tools, nil) })
	add("system", req.System, markedIn("system"), func() int { return m.tokens(req.System, req.Tools, nil) })
	for i, msg := range req.Messages {
		for j, block := range msg.Content {
			members, marked := unmarked(block)
			add(string(msg.Role), members, marked, func() int {
				part := transcript.Message{Role: msg.Role, Content: msg.Content[:j+1]}
				return m.tokens(req.System, req.Tools, append(req.Messages[:i:i], part))
			})
		}
	}
	return all
}

// cached returns the tokens of a prompt that the cache holds, and the tokens that the
// request adds to it.
func (m *Model) cached(req Request) (read, write int) {
	if !m.Cache {
		return 0, 0
	}
	all := m.prefixes(req)
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := len(all) + cacheLookups // the first mark at or after the prefix
	for i, p := range slices.Backward(all) {
		if p.marked {
			mark = i
		}
		if m.written[p.hash] && mark-i < cacheLookups {
			read = p.tokens()
			break
		}
	}
	for _, p := range all {
		if !p.marked {
			continue
		}
		if n := p.tokens(); n >= minCached {
			if m.written == nil {
				m.written = map[string]bool{}
			}
			m.written[p.hash], write = true, max(0, n-read)
		}
	}
	return read, write
}
