package rebuild

import (
	"slices"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/transcript"
)

func (a *assembler) history() History {
	h := a.front()
	h.Messages = a.render(nil)
	return h
}

func (a *assembler) front() History {
	own, _ := a.prompts.system.(transcript.System)
	prompt := History{Prompt: promptText(a.prompts.tools)}.SystemPrompt(own.Text)
	return History{System: a.system, Prompt: prompt, Compaction: a.summary}
}

// rendering makes the messages of a history. Neighbours of one role become one message,
// and the first message is the user's. All blocks lie in one array in order, so a
// message grows by including the next blocks.
type rendering struct {
	msgs    []transcript.Message
	blocks  []transcript.Block
	origins []transcript.Origin
	start   int     // the index of the first block of the last message
	results bool    // the last message begins with results
	inTurn  bool    // a message of the turn exists
	judge   bool    // the items start at the beginning, so answers can be judged
	changed int     // the ord of the last line that changed the messages so far
	rep     *Report // nil if not needed
	front   Report  // repairs that join the turn to earlier ones
}

// render returns new messages; the blocks in them are shared.
func (a *assembler) render(rep *Report) []transcript.Message {
	msgs, blocks := len(a.prelude)+1, 2*len(a.prelude)
	for _, it := range a.items {
		msgs++
		blocks += len(it.parts) + len(it.calls)
		if len(it.calls) > 0 {
			msgs++
		}
	}
	r := rendering{
		msgs:   make([]transcript.Message, 0, msgs),
		blocks: make([]transcript.Block, 0, blocks), origins: make([]transcript.Origin, 0, blocks),
		judge: true, changed: a.compacted, rep: rep,
	}
	for _, it := range a.prelude {
		r.item(it)
	}
	for i, t := range a.turns {
		end := len(a.items)
		if i+1 < len(a.turns) {
			end = a.turns[i+1].first
		}
		r.turn(t, a.items[t.first:end])
	}
	return r.msgs
}

// turn makes the messages of a turn: its texts and answers, and after each answer with
// calls a user message that starts with the results.
func (r *rendering) turn(t *turn, items []*item) {
	r.inTurn = false
	if r.rep != nil {
		*r.rep = append(*r.rep, t.repairs...)
	}
	for _, it := range items {
		r.item(it)
	}
	for _, s := range t.spares {
		switch {
		case s.used:
		case s.text != nil:
			r.rep.note("late-result", s.from.node.id, "call %s", s.callID)
		default:
			r.rep.note("orphan-result", s.from.node.id, "call %s", s.callID)
		}
	}
	if r.rep != nil {
		*r.rep = append(*r.rep, r.front...)
		r.front = nil
	}
}

func (r *rendering) item(it *item) {
	r.follow(it)
	at, calls, plain, role := len(r.blocks), it.calls, it.plain, transcript.RoleUser
	if it.answer {
		role = transcript.RoleAssistant
	}
	for _, p := range it.parts {
		b := p.block
		switch b.(type) {
		case transcript.TextBlock:
		case transcript.ToolCallBlock:
			b = r.call(calls[0], p.from.node.id)
			calls = calls[1:]
			if b == nil {
				continue
			}
		default:
			plain = false
		}
		from := p.from.origin()
		if from.Answer = it.made; !it.bare { // otherwise services would miss its reasoning
			from.API, from.Model = it.api, it.model
		}
		r.put(b, from)
	}
	if at == len(r.blocks) {
		if it.answer && !it.cut {
			r.rep.note("empty-message", it.entry, "assistant")
		}
		return
	}
	r.message(role, at, plain)
	at = len(r.blocks)
	for _, c := range it.calls {
		switch {
		case !c.kept():
		case c.result == nil:
			r.put(transcript.ToolError(c.id, c.told.text()).Content[0], transcript.Origin{Block: c.since})
		default:
			r.put(c.result.block, c.result.from.origin())
		}
	}
	if at < len(r.blocks) {
		r.message(transcript.RoleUser, at, false)
		r.results = true
	}
}

// follow decides whether an answer still follows the content of its request. Then it
// adds the changes by the item.
func (r *rendering) follow(it *item) {
	r.changed = max(r.changed, it.before)
	if intact := r.changed <= it.after; r.judge && it.made != nil && it.made.Intact != intact {
		made := *it.made // a caller's history may contain the old one
		made.Intact = intact
		it.made = &made
	}
	if !it.answer || it.shows() {
		r.changed = max(r.changed, it.since)
	}
	for _, c := range it.calls {
		if c.told.state != "" {
			r.changed = max(r.changed, c.since)
		}
		if c.result != nil {
			r.changed = max(r.changed, c.result.since)
		}
	}
}

// call returns the visible form of a call, or nil. It notes repairs of the call and of
// its result.
func (r *rendering) call(c *call, entry string) transcript.Block {
	if !c.kept() {
		r.rep.note("unfinished-call", entry, "call %s", c.id)
		return nil
	}
	if c.shown == nil || r.rep != nil {
		c.shown = c.block
		if shown, changed := normaliseCall(r.rep, c.recorded(), entry); changed {
			c.shown = shown
		}
	}
	if c.result == nil {
		r.rep.note("missing-result", entry, "call %s", c.id)
	} else if c.result.moved {
		r.rep.note("moved-result", c.result.from.node.id, "call %s", c.id)
	}
	return c.shown
}

func (r *rendering) put(b transcript.Block, from transcript.Origin) {
	r.blocks, r.origins = append(r.blocks, b), append(r.origins, from)
}

// plainMessage is a message whose content is a string.
var plainMessage = transcript.UserText("")

// message makes a message from the blocks from index at on, or adds them to the last
// message if that has the same role. plain is set for a single text that was recorded
// as a string. A user text after results steers the model and is not a repair.
func (r *rendering) message(role transcript.Role, at int, plain bool) {
	entry, last := r.origins[at].Entry, len(r.msgs)-1
	m := transcript.Message{Role: role}
	if last >= 0 && r.msgs[last].Role == role {
		switch {
		case r.rep == nil:
		case !r.inTurn:
			r.front.note("merged-messages", entry, "%s", role)
		case !r.results:
			r.rep.note("merged-messages", entry, "%s", role)
		}
		r.msgs = r.msgs[:last]
	} else {
		if last < 0 && role == transcript.RoleAssistant {
			if r.rep != nil {
				r.front.note("assistant-first", entry, "")
			}
			opening := transcript.UserText(neutral.Opening)
			opening.Origins = []transcript.Origin{{}}
			r.msgs = append(r.msgs, opening)
		}
		if plain {
			m = plainMessage
			m.Role = role
		}
		r.start, r.results = at, false
	}
	m.Content, m.Origins = slices.Clip(r.blocks[r.start:]), slices.Clip(r.origins[r.start:])
	r.msgs = append(r.msgs, m)
	r.inTurn = true
}
