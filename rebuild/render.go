package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// history puts the messages of all turns together: neighbours of one role
// become one message, and the first one is the user's.
func (a *assembler) history() History {
	h := History{System: a.system, Messages: []transcript.Message{}}
	a.merge(&h.Messages, nil)
	return h
}

func (a *assembler) allRepairs() Report {
	var msgs []transcript.Message
	rep := slices.Clone(a.repairs)
	a.merge(&msgs, &rep)
	return rep
}

func (a *assembler) merge(msgs *[]transcript.Message, rep *Report) {
	*msgs = append(*msgs, a.prelude...)
	own := false // whether the last message's slices are ours to append to
	for _, t := range a.turns {
		t.render()
		if rep != nil {
			*rep = append(*rep, t.repairs...)
			*rep = append(*rep, t.rendRep...)
		}
		for i, m := range t.rendered {
			if len(*msgs) == 0 && m.Role == transcript.RoleAssistant {
				if rep != nil {
					*rep = append(*rep, repairf(AssistantFirst, m.Origins[0].Entry, ""))
				}
				opening := transcript.UserText(Opening)
				opening.Origins = []transcript.Origin{{}}
				*msgs = append(*msgs, opening)
			}
			last := len(*msgs) - 1
			if last < 0 || (*msgs)[last].Role != m.Role {
				*msgs = append(*msgs, m)
				own = false
				continue
			}
			if rep != nil && i == 0 {
				*rep = append(*rep, repairf(MergedMessages, m.Origins[0].Entry, "%s", m.Role))
			}
			before := (*msgs)[last]
			if !own {
				before.Content, before.Origins = slices.Clone(before.Content), slices.Clone(before.Origins)
			}
			(*msgs)[last] = joined(before, m)
			own = true
		}
	}
}

// joined appends the blocks of y to those of x; the result is no longer plain
// text.
func joined(x, y transcript.Message) transcript.Message {
	return transcript.Message{
		Role:    x.Role,
		Content: append(x.Content, y.Content...),
		Origins: append(x.Origins, y.Origins...),
	}
}

// render makes the messages of a turn: each answer, and after an answer with
// calls one user message that starts with their results.
func (t *turn) render() {
	if t.rendered != nil {
		return
	}
	t.rendered, t.rendRep = []transcript.Message{}, nil
	for _, it := range t.items {
		if it.answer != nil {
			t.renderAnswer(it.answer)
			continue
		}
		m := transcript.Message{Role: transcript.RoleUser, Content: slices.Clone(it.said.blocks)}
		if text, ok := it.said.blocks[0].(transcript.TextBlock); ok && it.said.plain {
			m = transcript.UserText(text.Text)
		}
		m.Origins = append(m.Origins, it.said.origins...)
		t.push(m)
	}
	for _, r := range t.spares {
		if r.used {
			continue
		}
		t.rendRep = append(t.rendRep, repairf(OrphanResult, r.from.Entry, "call %s", r.block.CallID))
	}
}

// push appends a message, or its blocks to the message before it if that has
// the same role. A user text after results is steering, not a repair.
func (t *turn) push(m transcript.Message) {
	last := len(t.rendered) - 1
	if last < 0 || t.rendered[last].Role != m.Role {
		t.rendered = append(t.rendered, m)
		return
	}
	if _, results := t.rendered[last].Content[0].(transcript.ToolResultBlock); !results {
		t.rendRep = append(t.rendRep, repairf(MergedMessages, m.Origins[0].Entry, "%s", m.Role))
	}
	t.rendered[last] = joined(t.rendered[last], m)
}

func (t *turn) renderAnswer(ans *answer) {
	m := transcript.Message{Role: transcript.RoleAssistant}
	results := transcript.Message{Role: transcript.RoleUser}
	for _, p := range ans.parts {
		origin := p.from
		origin.API, origin.Model = ans.api, ans.model
		if p.call == nil {
			m.Content = append(m.Content, p.block)
			m.Origins = append(m.Origins, origin)
			continue
		}
		if !p.call.kept() {
			t.rendRep = append(t.rendRep, repairf(UnfinishedCall, p.from.Entry, "call %s", p.call.block.ID))
			continue
		}
		m.Content = append(m.Content, normaliseCall(p.call.block, p.from.Entry, &t.rendRep))
		m.Origins = append(m.Origins, origin)
		r := p.call.result
		if r == nil {
			t.rendRep = append(t.rendRep, repairf(MissingResult, p.from.Entry, "call %s", p.call.block.ID))
			r = &result{block: interrupted(p.call.block.ID)}
		} else if r.moved {
			t.rendRep = append(t.rendRep, repairf(MovedResult, r.from.Entry, "call %s", p.call.block.ID))
		}
		results.Content = append(results.Content, r.block)
		results.Origins = append(results.Origins, r.from)
	}
	if len(m.Content) == 0 {
		if !ans.cut {
			t.rendRep = append(t.rendRep, repairf(EmptyMessage, ans.id, "assistant"))
		}
		return
	}
	if text, ok := m.Content[0].(transcript.TextBlock); ok && ans.plain && len(m.Content) == 1 && len(text.Extra) == 0 {
		origins := m.Origins
		m = transcript.AssistantText(text.Text)
		m.Origins = origins
	}
	t.push(m)
	if len(results.Content) > 0 {
		t.rendered = append(t.rendered, results)
	}
}

func interrupted(callID string) transcript.ToolResultBlock {
	b, _ := transcript.ToolError(callID, Interrupted).Content[0].(transcript.ToolResultBlock)
	return b
}
