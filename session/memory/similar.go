package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// A view is the memories of a scope while decisions are made. Each decision changes
// it, so that the next one of the same commit knows.
type view struct {
	list   []*Memory
	byTerm map[string][]*Memory // terms of first lines and topics
	files  map[string]bool      // names in use, in lower case
}

// load reads all memories of a scope.
func (m *Store) load(ctx context.Context, scope Scope) (*view, error) {
	v := &view{byTerm: map[string][]*Memory{}, files: map[string]bool{}}
	for mem, err := range m.List(ctx, scope) {
		if err != nil {
			return nil, fmt.Errorf("memory: a memory of %s cannot be read: %w", scope, err)
		}
		v.add(mem)
	}
	return v, nil
}

func (v *view) add(mem Memory) {
	added := &mem
	v.list = append(v.list, added)
	v.files[strings.ToLower(mem.file)] = true
	for term := range termSet(headline(mem.Topic, mem.Abstract)) {
		v.byTerm[term] = append(v.byTerm[term], added)
	}
}

// put replaces a memory, or adds it.
func (v *view) put(mem Memory) {
	old := v.find(mem.ID)
	if old == nil {
		v.add(mem)
		return
	}
	for term := range termSet(headline(mem.Topic, mem.Abstract)) {
		if !slices.Contains(v.byTerm[term], old) {
			v.byTerm[term] = append(v.byTerm[term], old)
		}
	}
	*old = mem
}

func (v *view) find(id string) *Memory {
	for _, mem := range v.list {
		if mem.ID == id {
			return mem
		}
	}
	return nil
}

// of returns the memories of a category.
func (v *view) of(c Category) (list []Memory) {
	for _, mem := range v.list {
		if mem.Category == c {
			list = append(list, *mem)
		}
	}
	return list
}

const (
	similarMost  = 5
	similarLeast = 0.15
)

// similar returns the memories of the category of a candidate that are most like it.
func (v *view) similar(c Candidate) []Memory {
	terms := termSet(headline(c.Topic, c.Abstract))
	common := map[*Memory]int{}
	for term := range terms {
		for _, mem := range v.byTerm[term] {
			if mem.Category == c.Category {
				common[mem]++
			}
		}
	}
	type scored struct {
		mem   *Memory
		score float64
	}
	var list []scored
	for mem := range common {
		score := likeness(terms, termSet(headline(mem.Topic, mem.Abstract)))
		if sameTopic(c, *mem) {
			score++
		}
		if score >= similarLeast {
			list = append(list, scored{mem, score})
		}
	}
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.mem.file, b.mem.file))
	})
	var best []Memory
	for _, s := range list[:min(len(list), similarMost)] {
		best = append(best, *s.mem)
	}
	return best
}

func headline(topic, abstract string) string { return topic + "\n" + abstract }
