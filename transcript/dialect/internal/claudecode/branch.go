package claudecode

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/tree"
)

// A branchIndex sorts the messages of a file into branches. A branch begins
// only where the user went back and typed. Every other message follows the last
// one of its parent's branch, wherever its parent stands in it.
type branchIndex struct {
	branches []branchRows
	of       []int  // the branch of each row, or of the message above it, tree.None for none
	now      [2]int // by part: the branch of the last message of the user, tree.None for none
	last     int    // the last message of the conversation in the file
}

// A part is the conversation or the helpers of a file.
type part int

const (
	talk part = iota
	helpers
)

// branchRows holds the rows that decide about the next message.
type branchRows struct {
	tip    int // the last message
	typed  int // the last one that the user typed, or that began a branch of this one
	answer int // the last first row of an answer
}

// parentRow is the parent of a message.
type parentRow struct {
	node   int  // the message itself or the nearest one above, tree.None for none
	direct bool // the row names node itself
}

// A move is the way in which a message can begin a branch.
type move int

const (
	follows move = iota // never: the program wrote it, or queued it
	replaces
	returns
)

// interrupted begins the rows that the program writes where the user stopped it.
const interrupted = "[Request interrupted by user"

// moveOf returns the move of a message. A text of the user returns to its
// parent. A text that the program wrote for the user, the output of a local
// command for example, only replaces an earlier text of the user.
func moveOf(r fields.Record, f transcript.MessageLine) move {
	switch {
	case f.Role != transcript.RoleUser, r.Str("type") != transcript.TypeUser, hasResult(f), strings.HasPrefix(f.Message().Text(), interrupted):
		return follows
	case r.Flag("isMeta"):
		return replaces
	}
	return returns
}

func newBranchIndex() branchIndex {
	return branchIndex{now: [2]int{tree.None, tree.None}, last: tree.None}
}

// root begins a branch with row n that has no parent.
func (c *branchIndex) root(n int, part part) (branch int) {
	return c.begin(n, n, part)
}

func (c *branchIndex) begin(n, typed int, part part) (branch int) {
	c.branches = append(c.branches, branchRows{tip: n, typed: typed, answer: tree.None})
	branch = len(c.branches) - 1
	c.now[part] = branch
	c.note(n, part)
	return branch
}

func (c *branchIndex) note(n int, part part) {
	if part == talk {
		c.last = n
	}
}

// put adds row n below its parent, and returns the row before it and its
// branch.
func (c *branchIndex) put(n int, p parentRow, m move, part part) (before, branch int) {
	at := c.now[part]
	if p.node != tree.None {
		at = c.of[p.node]
	}
	if at == tree.None { // the first message
		return tree.None, c.begin(n, tree.None, part)
	}
	b := &c.branches[at]
	switch {
	case m == follows || p.node == tree.None || p.node == b.tip:
	case b.typed > p.node, m == returns && p.direct && b.answer > p.node:
		b.typed = n
		return p.node, c.begin(n, n, part)
	}
	before, b.tip = b.tip, n
	if m != follows {
		b.typed, c.now[part] = n, at
	}
	c.note(n, part)
	return before, at
}

// nearest returns the nearest message above a row without words. The program
// writes such rows late, so in a conversation it is the last message of the file;
// of several helpers it is the last one of the helper that the parent belongs to.
func (c *branchIndex) nearest(parent int, part part) (node int) {
	branch := c.now[part]
	switch {
	case part == talk:
		return c.last
	case parent != tree.None:
		branch = c.of[parent]
	}
	if branch == tree.None {
		return tree.None
	}
	return c.branches[branch].tip
}

// end returns the row that the conversation ends with. Without one it is the last
// of a helper.
func (c *branchIndex) end() int {
	for _, branch := range c.now {
		if branch != tree.None {
			return c.branches[branch].tip
		}
	}
	return tree.None
}

func hasResult(f transcript.MessageLine) bool {
	return slices.ContainsFunc(f.Content, func(b transcript.Block) bool {
		_, ok := b.(transcript.ToolResultBlock)
		return ok
	})
}
