package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// assembler puts the message lines of the live path together: lines to
// answers and user texts, these to turns, results to calls. It works line by
// line and decides nothing that a later line of another turn could change, but
// for a late result, which finds its call in any earlier turn.
type assembler struct {
	system      string
	prelude     []transcript.Message // the summary
	turnsBefore int                  // turns that the summary stands for
	cutFront    bool                 // the first lines may be results of calls before the cut
	clips       map[string][]transcript.Clipping
	repairs     Report // of what stands before the first turn

	turns   []*turn
	started int                // how many of them a user text has started
	waiting map[string][]*call // calls of earlier turns without a result
}

// turn is a user text and everything up to the next one that starts a turn.
type turn struct {
	started bool // by a user text; false for what stands before the first one
	items   []item
	spares  []*result // results without a call so far
	repairs Report    // of single lines

	// What finds things in the running turn; nil in a closed one, and until
	// there is something to find.
	answers map[string]*answer // by the ID of their first line
	ordered []*answer
	calls   map[string]*calls // by call ID
	waits   map[string]int    // by call ID: how many of spares are not used
	seen    map[callKey]bool

	rendered []transcript.Message // nil when it must be made anew
	rendRep  Report
}

// item is a user text or an answer.
type item struct {
	said   *said
	answer *answer
}

// said is the content of one user line, without tool results.
type said struct {
	entry   string
	plain   bool
	blocks  []transcript.Block
	origins []transcript.Origin // of the blocks
}

// answer is one answer of a model.
type answer struct {
	id         string // entry ID of its first line
	api, model string
	plain      bool
	cut        bool // incomplete, aborted or failed
	flat       bool // its lines do not say that they belong together
	closed     bool // a result came after one of its calls: a flat answer is over
	parts      []part
}

// part is one block of an answer; call is set for a tool call.
type part struct {
	block transcript.Block
	from  transcript.Origin
	call  *call
}

type call struct {
	block  transcript.ToolCallBlock
	turn   *turn
	answer *answer
	result *result
}

// calls are the calls of a turn that have one ID, in order.
type calls struct {
	list  []*call
	open  int // how many have no result
	early int // how many have one that came before them
}

type result struct {
	block transcript.ToolResultBlock
	from  transcript.Origin
	after int  // number of items of its turn when it came
	moved bool // it is not where providers want it
	early bool // it came before its call

	carried bool // from the turn before
	used    bool // of a spare: it has found its call
}

// callKey tells a call that is recorded twice. in is the answer it was found
// in, flatCalls for any answer that is not grouped, or nil for any answer.
type callKey struct {
	in              *answer
	id, name, input string
}

var flatCalls = new(answer)

func newAssembler() *assembler {
	return &assembler{clips: map[string][]transcript.Clipping{}, waiting: map[string][]*call{}}
}

func newTurn(started bool) *turn {
	return &turn{started: started}
}

// last returns the running turn.
func (a *assembler) last() *turn {
	if len(a.turns) == 0 {
		a.turns = append(a.turns, newTurn(false))
	}
	t := a.turns[len(a.turns)-1]
	t.rendered = nil
	return t
}

// add takes the next message line.
func (a *assembler) add(n *node) {
	f, ok := n.entry.Body.(transcript.Fragment)
	if !ok {
		return
	}
	content := a.clipped(n.entry.ID, f)
	if !n.complete {
		a.note(IncompleteBatch, n.entry.ID, "line of type %s", f.Kind)
	}
	if f.Role == transcript.RoleAssistant {
		a.addAnswer(n, f, content)
		return
	}
	a.addUser(n, f, content)
}

// origin is where the i-th block of a message line comes from.
func (n *node) origin(f transcript.Fragment, i int) transcript.Origin {
	if f.Kind == transcript.TypeToolUse || f.Kind == transcript.TypeToolResult {
		i = transcript.WholeEntry
	}
	return transcript.Origin{Entry: n.entry.ID, Batch: n.batch, Block: i}
}

func (a *assembler) note(rule Rule, entry, format string, args ...any) {
	t := a.last()
	t.repairs = append(t.repairs, repairf(rule, entry, format, args...))
}

// addUser takes the tool results of a user line and then the rest as one text.
func (a *assembler) addUser(n *node, f transcript.Fragment, content []transcript.Block) {
	s := &said{entry: n.entry.ID, plain: f.Plain()}
	results := 0
	for i, b := range content {
		if r, ok := b.(transcript.ToolResultBlock); ok {
			a.addResult(n.origin(f, i), r)
			results++
		} else if b := a.normaliseBlock(s.entry, transcript.RoleUser, b); b != nil {
			s.blocks, s.origins = append(s.blocks, b), append(s.origins, n.origin(f, i))
		}
	}
	if len(s.blocks) == 0 {
		if results == 0 || results < len(content) {
			a.note(EmptyMessage, s.entry, "user")
		}
		return
	}
	s.plain = s.plain && len(s.blocks) == len(content)
	t := a.last()
	if t.answered() {
		t = a.startTurn()
	}
	t.items = append(t.items, item{said: s})
}

// answered reports whether a user text now starts a turn: iff the last
// assistant message has no kept calls.
func (t *turn) answered() bool {
	for _, ans := range slices.Backward(t.ordered) {
		kept, shown := 0, 0
		for _, p := range ans.parts {
			switch {
			case p.call == nil:
				shown++
			case p.call.kept():
				kept++
			}
		}
		if kept > 0 {
			return false
		}
		if shown > 0 {
			return true
		}
	}
	return true
}

// startTurn closes the running turn. Results that came after its last answer
// and have no call may belong to the calls of the next turn: mini-claw wrote
// them before the user's text.
func (a *assembler) startTurn() *turn {
	old := a.last()
	next := newTurn(true)
	a.started++
	lastAnswer := 0
	for i, it := range old.items {
		if it.answer != nil {
			lastAnswer = i + 1
		}
		if it.answer == nil || it.answer.cut {
			continue
		}
		for _, p := range it.answer.parts {
			if p.call != nil && p.call.result == nil {
				id := p.call.block.ID
				a.waiting[id] = append(a.waiting[id], p.call)
			}
		}
	}
	var stay []*result
	for _, r := range old.spares {
		switch {
		case r.used:
		case r.after >= lastAnswer && !r.carried && (!a.cutFront || len(a.turns) > 1):
			r.after, r.carried = 0, true
			next.spare(r)
		default:
			stay = append(stay, r)
		}
	}
	old.spares = stay
	old.answers, old.ordered, old.calls, old.waits, old.seen = nil, nil, nil, nil, nil
	a.turns = append(a.turns, next)
	return next
}

// addAnswer adds a line to the answer it belongs to.
func (a *assembler) addAnswer(n *node, f transcript.Fragment, content []transcript.Block) {
	entry := n.entry.ID
	ans := a.answerFor(entry, f)
	if f.Kind == transcript.TypeAssistant && f.Of == "" {
		ans.api, ans.model = f.API, f.Model
		ans.plain = f.Plain()
		if f.StopReason == transcript.StopAborted || f.StopReason == transcript.StopError {
			ans.cut = true
			a.note(CutAnswer, entry, "stop reason %s", f.StopReason)
		}
	} else {
		ans.plain = false
	}
	if !n.complete {
		ans.cut = true
	}
	for i, b := range content {
		from := n.origin(f, i)
		switch b := b.(type) {
		case transcript.ToolCallBlock:
			a.addCall(from, ans, b, f.Of != "" || f.Kind == transcript.TypeAssistant)
			continue
		case transcript.ToolResultBlock:
			a.note(MisplacedBlock, entry, "a tool result in an assistant message")
			a.addResult(from, b)
			continue
		}
		if b := a.normaliseBlock(entry, transcript.RoleAssistant, b); b != nil {
			ans.parts = append(ans.parts, part{block: b, from: from})
		}
	}
}

// answerFor returns the answer that a line belongs to: the one its mid names;
// for a tool_use line without mid the answer it follows directly; else a new
// one.
func (a *assembler) answerFor(entry string, f transcript.Fragment) *answer {
	t := a.last()
	id := entry
	if f.Of != "" {
		if id = f.Of; t.answers[id] != nil {
			return t.answers[id]
		}
	} else if f.Kind == transcript.TypeToolUse {
		if n := len(t.items); n > 0 && t.items[n-1].answer != nil && !t.items[n-1].answer.closed {
			return t.items[n-1].answer
		}
	}
	ans := &answer{id: id, flat: f.Of == "" && f.Kind == transcript.TypeToolUse}
	if f.Of != "" {
		ans.cut = true // its first line is missing
		a.note(CutAnswer, entry, "its first line %s is not there", f.Of)
	}
	if t.answers == nil {
		t.answers = map[string]*answer{}
	}
	t.answers[id] = ans
	t.ordered = append(t.ordered, ans)
	t.items = append(t.items, item{answer: ans})
	return ans
}

// addCall adds a call to an answer, unless it is recorded there for the second
// time. grouped says that the line says which answer it belongs to.
func (a *assembler) addCall(from transcript.Origin, ans *answer, b transcript.ToolCallBlock, grouped bool) {
	t := a.last()
	shown := normaliseCall(b, from.Entry, nil)
	key := callKey{id: b.ID, name: shown.Name, input: string(compact(shown.Input))}
	within := func(in *answer) callKey { key.in = in; return key }
	if !grouped && t.seen[within(nil)] || t.seen[within(ans)] || t.seen[within(flatCalls)] {
		a.note(DoubledCall, from.Entry, "call %s", b.ID)
		if n := len(t.items); len(ans.parts) == 0 && !grouped && t.items[n-1].answer == ans {
			t.items = t.items[:n-1]
			t.ordered = t.ordered[:len(t.ordered)-1]
			delete(t.answers, ans.id)
		}
		return
	}
	if t.calls == nil {
		t.calls, t.seen = map[string]*calls{}, map[callKey]bool{}
	}
	t.seen[within(nil)], t.seen[within(ans)] = true, true
	if ans.flat {
		t.seen[within(flatCalls)] = true
	}
	c := &call{block: b, turn: t, answer: ans}
	ans.parts = append(ans.parts, part{block: b, from: from, call: c})
	same := t.calls[b.ID]
	if same == nil {
		same = new(calls)
		t.calls[b.ID] = same
	}
	same.list = append(same.list, c)
	if c.result = t.takeSpare(b.ID); c.result != nil {
		same.early++
	} else {
		same.open++
	}
}

// spare keeps a result that has no call so far.
func (t *turn) spare(r *result) {
	t.spares = append(t.spares, r)
	if t.waits == nil {
		t.waits = map[string]int{}
	}
	t.waits[r.block.CallID]++
}

// takeSpare returns the first spare result for a call; nil if there is none.
func (t *turn) takeSpare(id string) *result {
	if t.waits[id] == 0 {
		return nil
	}
	t.waits[id]--
	for _, r := range t.spares {
		if r.block.CallID == id && !r.used {
			r.used, r.moved, r.early = true, true, true
			return r
		}
	}
	return nil
}

// addResult finds the call that a result answers: one of the running turn that
// has none yet, in the latest answer with such a call, else a call of an
// earlier turn. A result that came before its call gives way to one that came
// after it.
func (a *assembler) addResult(from transcript.Origin, b transcript.ToolResultBlock) {
	t := a.last()
	r := &result{block: a.normaliseResult(from.Entry, b), from: from, after: len(t.items)}
	same := t.calls[b.CallID]
	switch found := same.find(); {
	case found != nil:
		if found.result != nil { // an early one
			a.note(DoubledResult, found.result.from.Entry, "call %s", b.CallID)
		}
		found.result = r
		found.answer.closed = true
		r.moved = found.answer != t.items[len(t.items)-1].answer
	case same != nil:
		a.note(DoubledResult, from.Entry, "call %s", b.CallID)
	case len(a.waiting[b.CallID]) > 0:
		list := a.waiting[b.CallID]
		found = list[len(list)-1]
		a.waiting[b.CallID] = list[:len(list)-1]
		r.moved = true
		found.result = r
		found.turn.rendered = nil
	default:
		t.spare(r)
	}
}

// find returns the call that a result is for: without a result, the first such
// one of the latest answer that has any; else the last one whose result came
// before it. It counts the call as answered.
func (c *calls) find() (found *call) {
	if c == nil {
		return nil
	}
	for i := len(c.list) - 1; i >= 0 && c.open > 0; i-- {
		call := c.list[i]
		if found != nil && found.answer != call.answer {
			break
		}
		if call.result == nil {
			found = call
		}
	}
	if found != nil {
		c.open--
		return found
	}
	for i := len(c.list) - 1; i >= 0 && c.early > 0; i-- {
		if c.list[i].result.early {
			c.early--
			return c.list[i]
		}
	}
	return nil
}

// kept reports whether the call is shown, given the results so far.
func (c *call) kept() bool {
	if !c.answer.cut {
		return true
	}
	return c.result != nil && isObject(c.block.Input)
}
