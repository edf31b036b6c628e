package convolog_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A graph holds the arrows between numbered nodes: g[a] lists the nodes that a
// uses.
type graph [][]int

// fileGraph draws one arrow for each pair of files of which one uses a name of
// the other.
func (r *room) fileGraph() (files []string, g graph) {
	for _, s := range r.built {
		files = append(files, path.Base(s.name))
	}
	slices.Sort(files)
	g = make(graph, len(files))
	for _, u := range r.uses() {
		from, to := slices.Index(files, u.from), slices.Index(files, u.to)
		if !slices.Contains(g[from], to) {
			g[from] = append(g[from], to)
		}
	}
	return files, g
}

// usesUp lists the uses that run against an order of the files.
func (r *room) usesUp(order []int) (found []string) {
	files, _ := r.fileGraph()
	for _, u := range r.uses() {
		from, to := slices.Index(files, u.from), slices.Index(files, u.to)
		if slices.Index(order, from) < slices.Index(order, to) {
			found = append(found, fmt.Sprintf("%s calls up to %s: %s", u.from, u.to, u.name))
		}
	}
	return found
}

// circles returns the circles of the graph, used ones first. Nodes that reach
// each other form one circle; a node apart from them is a circle of its own.
func (g graph) circles() (circles [][]int) {
	index, low := make([]int, len(g)), make([]int, len(g))
	var stack []int
	next := 1
	var visit func(n int)
	visit = func(n int) {
		index[n], low[n] = next, next
		next++
		stack = append(stack, n)
		for _, m := range g[n] {
			if index[m] == 0 {
				visit(m)
				low[n] = min(low[n], low[m])
			} else if slices.Contains(stack, m) {
				low[n] = min(low[n], index[m])
			}
		}
		if low[n] == index[n] {
			at := slices.Index(stack, n)
			circles = append(circles, slices.Sorted(slices.Values(stack[at:])))
			stack = stack[:at]
		}
	}
	for n := range g {
		if index[n] == 0 {
			visit(n)
		}
	}
	return circles
}

// floors returns the length of the longest path through the circles, in nodes:
// a circle of n nodes is n floors. If a circle counted as one floor, the figure
// would rise when a circle opens.
func (g graph) floors() (most int) {
	floor := make([]int, len(g))
	for _, circle := range g.circles() {
		below := 0
		for _, n := range circle {
			for _, m := range g[n] {
				below = max(below, floor[m]) // 0 within the circle
			}
		}
		for _, n := range circle {
			floor[n] = below + len(circle)
		}
		most = max(most, below+len(circle))
	}
	return most
}

// order arranges the nodes, used ones first, with as few arrows up as it can
// find: an arrow up runs from a node to a later one. The result is the same in
// every run.
//
// A tool that gives each file one floor, and then counts the arrows from a lower
// floor to a higher one, finds more of them: package session had 16 floors and
// 237 such arrows when this test found 411 arrows, 53 of them up, and a circle
// of 45 files.
func (g graph) order() (order []int, up int) {
	for _, circle := range g.circles() {
		order = append(order, g.arrange(circle)...)
	}
	return order, g.callsUp(order)
}

func (g graph) callsUp(order []int) (up int) {
	for i, n := range order {
		for _, m := range g[n] {
			if slices.Contains(order[i:], m) {
				up++
			}
		}
	}
	return up
}

// arrange orders one circle: it moves single nodes while that helps, then
// shuffles a few of them and tries again. On the packages of this module, every
// seed finds the same number of arrows within a quarter of these tries.
func (g graph) arrange(circle []int) []int {
	const tries = 400
	random := rand.New(rand.NewPCG(1, 2))
	best := g.settle(circle)
	fewest := g.callsUp(best)
	for range tries {
		if fewest == 0 {
			break
		}
		order := slices.Clone(best)
		for range 1 + len(order)/8 {
			move(order, random.IntN(len(order)), random.IntN(len(order)))
		}
		order = g.settle(order)
		if up := g.callsUp(order); up <= fewest {
			best, fewest = order, up
		}
	}
	return best
}

// settle moves each node to its best place until no move saves an arrow.
func (g graph) settle(order []int) []int {
	order = slices.Clone(order)
	arrow := make([][]int, len(g))
	for n := range g {
		arrow[n] = make([]int, len(g))
		for _, m := range g[n] {
			arrow[n][m] = 1
		}
	}
	for moved := true; moved; {
		moved = false
		for i, n := range order {
			best, place := 0, i
			for j, saved := i+1, 0; j < len(order); j++ {
				saved += arrow[n][order[j]] - arrow[order[j]][n]
				if saved > best {
					best, place = saved, j
				}
			}
			for j, saved := i-1, 0; j >= 0; j-- {
				saved += arrow[order[j]][n] - arrow[n][order[j]]
				if saved > best {
					best, place = saved, j
				}
			}
			if best > 0 {
				move(order, i, place)
				moved = true
			}
		}
	}
	return order
}

// move takes the node at from out of order and puts it at to.
func move(order []int, from, to int) {
	n := order[from]
	if from < to {
		copy(order[from:to], order[from+1:to+1])
	} else {
		copy(order[to+1:from+1], order[to:from])
	}
	order[to] = n
}

func TestFloors(t *testing.T) {
	for _, tt := range []struct {
		name       string
		g          graph
		floors, up int
	}{
		{"one file", graph{nil}, 1, 0},
		{"apart", graph{nil, nil}, 1, 0},
		{"stairs", graph{{1}, {2}, nil}, 3, 0},
		{"stairs and a shortcut", graph{{1, 2}, {2}, nil}, 3, 0},
		{"pair", graph{{1}, {0}}, 2, 1},
		{"circle of three", graph{{1}, {2}, {0}}, 3, 1},
		{"circle over a file", graph{{1}, {0, 2}, nil}, 3, 1},
		{"circle under a file", graph{{1}, {2}, {1}}, 3, 1},
		{"two circles through one file", graph{{1, 2}, {0}, {0}}, 3, 2},
		{"all use all", graph{{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}}, 4, 6},
		{"one arrow closes the stairs", graph{{1}, {2}, {3}, {4}, {0}}, 5, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			order, up := tt.g.order()
			require.Equal(t, tt.floors, tt.g.floors())
			require.Equal(t, tt.up, up)
			require.Len(t, order, len(tt.g))
			again, _ := tt.g.order()
			require.Equal(t, order, again)
		})
	}
}
