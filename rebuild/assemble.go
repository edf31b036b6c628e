package rebuild

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// assembler builds turns from the message lines of the live path. It joins lines into
// answers and user texts, joins these into turns, and assigns results to calls. It
// works line by line. No later line of another turn changes its decisions, except a
// late result, which finds its call in any earlier turn.
type assembler struct {
	full        bool    // compactions and clips are ignored, so no request was made from this history
	prompts     prompts // shown before the messages
	system      string
	prelude     []*item // the summary
	summary     *transcript.Compaction
	turnsBefore int             // the number of summarised turns
	cutFront    bool            // the first lines may be results of calls before the cut
	compacted   int             // the ord of the compaction, 0 for none
	read        map[string]bool // summarised entries, wherever they are
	clips       map[string][]clipping

	items    []*item            // of all turns
	turns    []*turn            // the first one precedes the first user text
	waiting  map[string][]*call // calls of earlier turns without a result
	statused []*call            // calls with a dispatch or a decision
	now      running
	late     []int // indexes of items that changed (see touched) or are no longer shown

	edited    int  // the greatest ord of the hides of lines so far
	displaced bool // lines follow the last answer because its request lacked them
	prompted  bool // the last item is a system prompt, which stays last before the next answer
	lastUser  int  // the greatest ord of the lines since the last answer, -1 for none

	// The parts above are allocated from these slabs.
	turnSlab   slab[turn]
	itemSlab   slab[item]
	partSlab   slab[part]
	callSlab   slab[call]
	listSlab   slab[*call]
	callsSlab  slab[calls]
	openSlab   slab[[]*call]
	resultSlab slab[result]
}

// prompts are the last [transcript.System] and the last [transcript.Tools]; nil for none.
type prompts struct{ system, tools transcript.Body }

// of returns the field for a body, or nil if it is neither of the two.
func (p *prompts) of(b transcript.Body) *transcript.Body {
	switch b.(type) {
	case transcript.System:
		return &p.system
	case transcript.Tools:
		return &p.tools
	}
	return nil
}

func newAssembler() *assembler {
	a := &assembler{read: map[string]bool{}, clips: map[string][]clipping{}, waiting: map[string][]*call{}, now: newRunning(), lastUser: -1}
	a.turns = append(a.turns, a.turnSlab.one())
	return a
}

func (a *assembler) last() *turn { return a.turns[len(a.turns)-1] }

func (a *assembler) started() int { return len(a.turns) - 1 }

// add takes the next line, which is not a compaction or a clip.
func (a *assembler) add(n *node) {
	if n.hidden > 0 {
		a.hide(n)
		return
	}
	a.lastUser = max(a.lastUser, n.ord)
	switch b := n.body.(type) {
	case transcript.System, transcript.Tools:
		a.addPrompt(n)
	case transcript.Dispatch:
		a.addStatus(n, b.CallID, b.Call, status{state: Dispatched})
	case transcript.Decision:
		a.addStatus(n, b.CallID, b.Call, status{decided[b.Verdict], b.By, b.Reason})
	case transcript.Interrupt:
		a.addEnd(n, b)
	case transcript.MessageLine:
		a.prompted = false
		content, since := b.Content, n.ord
		if clips := a.clips[n.id]; len(clips) > 0 {
			content, since = clipped(a.report(), n, &b, clips)
		}
		since = max(since, n.edited)
		if !n.complete {
			a.report().note("incomplete-batch", n.id, "line of type %s", b.Kind)
		}
		if b.Role == transcript.RoleAssistant {
			a.lastUser = -1
			a.addAnswer(n, &b, content, since)
		} else {
			a.addUser(n, &b, content, since)
		}
	}
}

// hide leaves a line out. The answer of the line then differs from the model's words,
// so its reasoning goes as well.
func (a *assembler) hide(n *node) {
	a.edited = max(a.edited, n.hidden)
	a.report().note("hidden-entry", n.id, "")
	f, _ := n.body.(transcript.MessageLine)
	if ans := a.answerOf(&f); ans != nil {
		ans.bare, ans.since = true, max(ans.since, n.hidden)
		ans.parts = slices.DeleteFunc(ans.parts, func(p part) bool { return transcript.IsReasoning(p.block) })
	}
}

// addPrompt shows a system prompt or a list of tools as a user text.
func (a *assembler) addPrompt(n *node) {
	it := a.newItem(n, 1)
	it.aside, it.since = true, n.ord
	it.parts = append(it.parts, part{transcript.TextBlock{Text: promptText(n.body)}, source{n, transcript.PromptEntry}})
	a.items = append(a.items, it)
	a.prompted = true
}

// addEnd shows as a user text that a turn ended without an answer. Otherwise the user
// texts before and after the end would be one message. A stop ends the calls of the last
// answer. If the user has written since, a held call of it belongs to an earlier turn, and
// still waits.
func (a *assembler) addEnd(n *node, end transcript.Interrupt) {
	if endText(end) == stopped {
		wrote := false
		for _, it := range slices.Backward(a.items) {
			for _, c := range it.calls {
				c.over = c.over || !wrote || c.status.state != Held
			}
			if it.answer {
				break
			}
			wrote = wrote || !it.aside
		}
	}
	last := len(a.items) - 1
	for last >= 0 && a.items[last].ofPrompt() {
		last--
	}
	if last < 0 || a.items[last].concludes() && !a.items[last].cut {
		return
	}
	if before := a.items[last].end(); before == stopped || before == endText(end) {
		return
	}
	it := a.newItem(n, 1)
	it.aside, it.since = true, n.ord
	it.parts = append(it.parts, part{transcript.TextBlock{Text: endText(end)}, source{n, transcript.WholeEntry}})
	a.items = append(a.items, it)
}

// report returns the report of the last turn.
func (a *assembler) report() *Report { return &a.last().repairs }

func (a *assembler) newItem(n *node, parts int) *item {
	it := a.itemSlab.one()
	it.ord = n.ord
	it.entry, it.parts, it.before, it.after = n.id, a.partSlab.take(parts)[:0], max(n.edited, a.edited), noAfter
	return it
}

// addUser takes the tool results of a user line, and then its other blocks as one text.
func (a *assembler) addUser(n *node, f *transcript.MessageLine, content []transcript.Block, since int) {
	var it *item
	results := 0
	for i, b := range content {
		if r, ok := b.(transcript.ToolResultBlock); ok {
			a.addResult(n.source(f, i), b, r, since)
			results++
		} else if b := normaliseBlock(a.report(), n.id, inUser, b); b != nil {
			if it == nil {
				it = a.newItem(n, len(content)-i)
				it.since = since
			}
			it.parts = append(it.parts, part{b, n.source(f, i)})
		}
	}
	if it == nil {
		if results == 0 || results < len(content) {
			a.report().note("empty-message", n.id, "user")
		}
		return
	}
	it.plain = f.Message().Plain() && len(it.parts) == len(content)
	if a.answered() {
		a.startTurn()
	}
	a.items = append(a.items, it)
}

// answered reports whether a user text now starts a turn: if the last assistant message
// has no calls that are kept.
func (a *assembler) answered() bool {
	for _, ans := range slices.Backward(a.now.answers) {
		if ans.shows() {
			return !slices.ContainsFunc(ans.calls, (*call).kept)
		}
	}
	return true
}

// startTurn closes the running turn. Results after its last answer that have no call
// may belong to calls of the next turn: mini-claw wrote such results before the user's
// text.
func (a *assembler) startTurn() {
	old := a.last()
	lastAnswer := old.first
	for i, it := range a.items[old.first:] {
		if !it.answer {
			continue
		}
		lastAnswer = old.first + i + 1
		for _, c := range it.calls {
			if c.result == nil && !c.late && c.kept() {
				a.waiting[c.id] = append(a.waiting[c.id], c)
			}
		}
	}
	var stay, carried []*result
	for _, r := range old.spares {
		if r.used || r.carried || r.after < lastAnswer || a.cutFront && len(a.turns) == 1 {
			stay = append(stay, r)
			continue
		}
		r.carried = true
		carried = append(carried, r)
	}
	old.spares = stay
	a.now.reset()
	t := a.turnSlab.one()
	t.first = len(a.items)
	a.turns = append(a.turns, t)
	for _, r := range carried {
		a.spare(r)
	}
}

func (a *assembler) addAnswer(n *node, f *transcript.MessageLine, content []transcript.Block, since int) {
	ans := a.answerFor(n, f, len(content))
	ans.since = max(ans.since, since)
	a.touched(ans)
	first := f.Kind == transcript.TypeAssistant && f.Of == ""
	ans.plain, ans.cut = first && f.Message().Plain(), ans.cut || !n.complete
	if first {
		ans.api, ans.model, ans.after = f.API, f.Model, n.after
		if n.after != noAfter && !a.full {
			ans.made = &transcript.Answer{Entry: n.id, Made: f.Made}
		}
		if f.StopReason == transcript.StopAborted || f.StopReason == transcript.StopError {
			ans.cut = true
			a.report().note("cut-answer", n.id, "stop reason %s", f.StopReason)
		}
	}
	for i, b := range content {
		from := n.source(f, i)
		switch c := b.(type) {
		case transcript.ToolCallBlock:
			a.addCall(from, ans, b, c, f.Of != "" || f.Kind == transcript.TypeAssistant)
		case transcript.ToolResultBlock:
			a.report().note("misplaced-block", n.id, "a tool result in an assistant message")
			a.addResult(from, b, c, since)
		default:
			if b := normaliseBlock(a.report(), n.id, inAnswer, b); b != nil && (!ans.bare || !transcript.IsReasoning(b)) {
				ans.parts = append(ans.parts, part{b, from})
			}
		}
	}
}

// answerFor returns the answer that a line belongs to: the answer that its mid names,
// or for a tool_use line without mid the answer right before it. Otherwise it returns a
// new answer, with room for the parts of the line.
func (a *assembler) answerFor(n *node, f *transcript.MessageLine, parts int) *item {
	if ans := a.answerOf(f); ans != nil {
		return ans
	}
	id := cmp.Or(f.Of, n.id)
	ans := a.newItem(n, parts)
	ans.entry, ans.answer = id, true
	ans.flat = f.Of == "" && f.Kind == transcript.TypeToolUse
	if f.Of != "" {
		ans.cut = true // its first line is missing
		a.report().note("cut-answer", n.id, "its first line %s is missing", f.Of)
	}
	a.now.answers, a.now.byID[id] = append(a.now.answers, ans), ans
	a.items = append(a.items, ans)
	return ans
}

// answerOf returns the earlier answer that a line continues, or nil.
func (a *assembler) answerOf(f *transcript.MessageLine) *item {
	if f.Of != "" {
		return a.now.byID[f.Of]
	}
	if i := len(a.items); f.Kind == transcript.TypeToolUse && i > a.last().first && a.items[i-1].answer && !a.items[i-1].closed {
		return a.items[i-1]
	}
	return nil
}

// addCall adds a call to an answer, unless the call is already recorded there. grouped
// is set if the line names its answer.
func (a *assembler) addCall(from source, ans *item, block transcript.Block, b transcript.ToolCallBlock, grouped bool) {
	same := a.now.calls[b.ID]
	if same != nil && same.recorded(ans, b, grouped) {
		a.report().note("doubled-call", from.node.id, "call %s", b.ID)
		if n := len(a.items); len(ans.parts) == 0 && !grouped && a.items[n-1] == ans {
			a.items, a.now.answers = a.items[:n-1], a.now.answers[:len(a.now.answers)-1]
			delete(a.now.byID, ans.entry)
		}
		return
	}
	c := a.callSlab.one()
	c.id, c.node, c.block, c.item, c.result = b.ID, from.node, block, ans, a.now.takeSpare(b.ID)
	if r := c.result; r != nil && r.text != nil {
		r.text.parts, r.text.since = nil, c.node.ord // it is no longer shown there
		a.late = append(a.late, slices.Index(a.items, r.text))
	}
	if ans.calls == nil {
		ans.calls = a.listSlab.take(1)[:0]
	}
	ans.parts, ans.calls = append(ans.parts, part{block, from}), append(ans.calls, c)
	if same == nil {
		same = a.callsSlab.one()
		same.first, same.open = c, a.openSlab.take(1)[:0]
		a.now.calls[b.ID] = same
	}
	same.add(c)
}

// spare keeps a result that has no call so far.
func (a *assembler) spare(r *result) {
	t := a.last()
	t.spares = append(t.spares, r)
	a.now.waits[r.callID] = append(a.now.waits[r.callID], r)
}

// addResult finds the call for a result: an unanswered one of the running turn, in the
// latest answer with such a call, else a call of an earlier turn. A result that came
// before its call gives way to one that came after the call. A result that is too late
// for its place becomes a text.
func (a *assembler) addResult(from source, block transcript.Block, b transcript.ToolResultBlock, since int) {
	r := a.resultSlab.one()
	r.callID, r.block, r.from, r.after = b.CallID, normaliseResult(a.report(), from.node.id, block, b), from, len(a.items)
	r.since = max(since, from.node.edited)
	same, waiting := a.now.calls[b.CallID], a.waiting[b.CallID]
	found := same.find()
	if last := len(waiting) - 1; same == nil && last >= 0 {
		found, a.waiting[b.CallID] = waiting[last], waiting[:last]
	}
	switch {
	case found != nil && a.tooLate(found, from.node):
		a.addLate(r, found)
	case found != nil:
		if found.result != nil { // an early one
			a.report().note("doubled-result", found.result.from.node.id, "call %s", b.CallID)
		}
		found.result = r
		found.item.closed = true
		a.touched(found.item)
		r.moved = found.item != a.items[len(a.items)-1]
	case same != nil:
		a.report().note("doubled-result", from.node.id, "call %s", b.CallID)
	default:
		a.spare(r)
		if a.cutFront && !a.read[from.node.id] { // its call may be summarised
			a.addLate(r, nil)
		}
	}
}

// touched notes that an answer has changed. It notes only answers before the last one,
// which a Tally always recounts.
func (a *assembler) touched(it *item) {
	later := false
	for i, other := range slices.Backward(a.items) {
		if other == it {
			if later {
				a.late = append(a.late, i)
			}
			return
		}
		later = later || other.answer
	}
}

func (a *assembler) addStatus(n *node, callID, entry string, said status) {
	c := a.unanswered(callID, entry)
	if c == nil || said.state == "" || !c.status.allows(said.state) {
		return
	}
	if c.status.state == "" {
		a.statused = append(a.statused, c)
	}
	c.status = said
	if !a.tooLate(c, n) {
		c.told, c.since = said, n.ord
		a.touched(c.item)
	} else if said.state == Rejected {
		// The model has already seen the call without a result, so the rejection is
		// shown like a late result.
		r := a.resultSlab.one()
		r.callID, r.block, r.from, r.since = callID, transcript.ToolError(callID, said.text()).Content[0], source{n, transcript.WholeEntry}, n.ord
		a.addLate(r, c)
	}
}

func (a *assembler) unanswered(callID, entry string) *call {
	var open []*call
	if same := a.now.calls[callID]; same != nil {
		open = slices.Concat(same.open...)
	}
	for _, c := range append(open, a.waiting[callID]...) {
		if c.node.id == entry && !c.late {
			return c
		}
	}
	return nil
}
