package dialect

import (
	"strings"

	"github.com/convolog/convolog/transcript"
)

// claudeBranches sorts the messages of a file into branches. A branch begins
// only where the user went back and typed. Every other message follows the last
// one of its parent's branch, wherever its parent stands in it.
type claudeBranches struct {
	branches   []claudeBranch
	main, side int // the branches of the conversation and of the last helper, noRow for none
	lastMain   int // the last message of the conversation in the file
}

// claudeBranch holds the rows that decide about the next message.
type claudeBranch struct {
	tip    int // the last message
	typed  int // the last one that the user typed, or that began a branch of this one
	answer int // the last first row of an answer
}

// claudeParent is the parent of a message.
type claudeParent struct {
	node   int // the message itself or the nearest one above, noRow for none
	branch int
	direct bool // the row names node itself
}

// A claudeMove is the way in which a message can begin a branch.
type claudeMove int

const (
	follows claudeMove = iota // never: the program wrote it, or queued it
	replaces
	returns
)

// interrupted begins the rows that the program writes where the user stopped it.
const interrupted = "[Request interrupted by user"

// moveOf returns the move of a message. A text of the user returns to its
// parent. A text that the program wrote for the user, the output of a local
// command for example, only replaces an earlier text of the user.
func moveOf(r record, f transcript.MessageLine) claudeMove {
	switch {
	case f.Role != transcript.RoleUser, r.str("type") != transcript.TypeUser, hasResult(f), strings.HasPrefix(f.Message().Text(), interrupted):
		return follows
	case r.flag("isMeta"):
		return replaces
	}
	return returns
}

func newClaudeBranches() claudeBranches {
	return claudeBranches{main: noRow, side: noRow, lastMain: noRow}
}

// current returns the branch that the next message continues if its parent is
// missing.
func (c *claudeBranches) current(side bool) *int {
	if side {
		return &c.side
	}
	return &c.main
}

// root begins a branch with row n that has no parent.
func (c *claudeBranches) root(n int, side bool) (branch int) {
	return c.begin(n, n, side)
}

func (c *claudeBranches) begin(n, typed int, side bool) (branch int) {
	c.branches = append(c.branches, claudeBranch{tip: n, typed: typed, answer: noRow})
	branch = len(c.branches) - 1
	*c.current(side) = branch
	c.note(n, side)
	return branch
}

func (c *claudeBranches) note(n int, side bool) {
	if !side {
		c.lastMain = n
	}
}

// put adds row n below its parent, and returns the row before it and its
// branch.
func (c *claudeBranches) put(n int, p claudeParent, m claudeMove, side bool) (before, branch int) {
	current := c.current(side)
	if p.branch == noRow {
		p.branch, p.node = *current, noRow
	}
	if p.branch == noRow { // the first message
		return noRow, c.begin(n, noRow, side)
	}
	b := &c.branches[p.branch]
	switch {
	case m == follows || p.node == noRow || p.node == b.tip:
	case b.typed > p.node, m == returns && p.direct && b.answer > p.node:
		b.typed = n
		return p.node, c.begin(n, n, side)
	}
	before, b.tip = b.tip, n
	if m != follows {
		b.typed, *current = n, p.branch
	}
	c.note(n, side)
	return before, p.branch
}

// nearest returns the nearest message above a row without words, and its
// branch. The program writes such rows late, so in a conversation it is the
// last message of the file; of several helpers, of the one that the parent
// belongs to.
func (c *claudeBranches) nearest(parent int, side bool, rows []claudeRow) (node, branch int) {
	switch {
	case !side && c.lastMain != noRow:
		return c.lastMain, rows[c.lastMain].branch
	case side && parent != noRow:
		branch = rows[parent].branch
		return c.branches[branch].tip, branch
	case side && c.side != noRow:
		return c.branches[c.side].tip, c.side
	}
	return noRow, noRow
}

// last returns the row that the conversation ends with. Without one it is the
// last of a helper.
func (c *claudeBranches) last() int {
	for _, branch := range []int{c.main, c.side} {
		if branch != noRow {
			return c.branches[branch].tip
		}
	}
	return noRow
}
