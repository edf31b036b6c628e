// Package thread orders the messages of a conversation with branches.
package thread

import "slices"

// A Thread is the tree of a conversation's messages. The zero value is empty. A message
// whose parent is missing begins a tree of its own.
type Thread struct {
	nodes []node
	byID  map[string]int
	order []int64
}

type node struct {
	offset   int64
	parent   string
	children []int
	live     bool // on the path to the leaf
	placed   bool
}

const none = -1

// Add adds a message, whose offset no other has. An ID that another message has already
// is ignored.
func (t *Thread) Add(id, parent string, offset int64) {
	if t.byID == nil {
		t.byID = map[string]int{}
	}
	if _, twice := t.byID[id]; !twice {
		t.byID[id] = len(t.nodes)
	}
	t.nodes = append(t.nodes, node{offset: offset, parent: parent})
}

// Settle finds the path to the message leaf, or to the last message. A branch comes
// before the message that continues the conversation at the same place.
func (t *Thread) Settle(leaf string) {
	at, ok := t.byID[leaf]
	if !ok {
		at = len(t.nodes) - 1
	}
	for at != none && !t.nodes[at].live {
		t.nodes[at].live = true
		at = t.up(at)
	}
	var roots []int
	for i := range t.nodes {
		if up := t.up(i); up != none {
			t.nodes[up].children = append(t.nodes[up].children, i)
		} else {
			roots = append(roots, i)
		}
	}
	t.place(roots)
	for i := range t.nodes { // of a circle
		t.place([]int{i})
	}
}

func (t *Thread) up(i int) int {
	if up, ok := t.byID[t.nodes[i].parent]; ok && up != i {
		return up
	}
	return none
}

// place orders nodes and everything below them.
func (t *Thread) place(nodes []int) {
	left := t.stacked(nodes)
	for len(left) > 0 {
		i := left[len(left)-1]
		left = left[:len(left)-1]
		if n := &t.nodes[i]; !n.placed {
			n.placed = true
			t.order = append(t.order, n.offset)
			left = append(left, t.stacked(n.children)...)
		}
	}
}

// stacked returns nodes in reverse, the one on the path first.
func (t *Thread) stacked(nodes []int) []int {
	stack := slices.Clone(nodes)
	slices.Reverse(stack)
	slices.SortStableFunc(stack, func(a, b int) int {
		switch {
		case t.nodes[a].live == t.nodes[b].live:
			return 0
		case t.nodes[a].live:
			return -1
		}
		return 1
	})
	return stack
}

// Order returns the offsets of all messages in the order of the conversation.
func (t *Thread) Order() []int64 { return t.order }

// Live returns the offsets of the messages on the path.
func (t *Thread) Live() map[int64]bool {
	live := map[int64]bool{}
	for _, n := range t.nodes {
		if n.live {
			live[n.offset] = true
		}
	}
	return live
}
