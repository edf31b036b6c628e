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
	byID   map[string]*known
	byTerm map[string][]*known // by the terms of their headlines
	files  map[string]bool     // names in use, in lower case
}

// known is a memory with what it is compared by.
type known struct {
	Memory
	terms  map[string]bool // of the headline
	topics map[string]bool // keys of what it is about
}

// load reads all memories of a scope.
func (m *Store) load(ctx context.Context, scope Scope) (*view, error) {
	v := newView()
	for mem, err := range m.List(ctx, scope) {
		if err != nil {
			return nil, fmt.Errorf("a memory of %s cannot be read: %w", scope, err)
		}
		v.put(mem)
	}
	return v, nil
}

func newView() *view {
	return &view{byID: map[string]*known{}, byTerm: map[string][]*known{}, files: map[string]bool{}}
}

// put adds a memory, or replaces the one with its ID.
func (v *view) put(mem Memory) {
	k := v.byID[mem.ID]
	if k == nil {
		k = &known{}
		v.byID[mem.ID] = k
	}
	terms := termSet(headline(mem.Topic, mem.Abstract))
	for term := range terms {
		if !k.terms[term] {
			v.byTerm[term] = append(v.byTerm[term], k)
		}
	}
	*k = known{mem, terms, mem.topics()}
	v.files[strings.ToLower(mem.file)] = true
}

// find returns the memory with an ID, nil if there is none.
func (v *view) find(id string) *Memory {
	if k := v.byID[id]; k != nil {
		return &k.Memory
	}
	return nil
}

// of returns the memories of a category.
func (v *view) of(c Category) (list []Memory) {
	for _, k := range v.byID {
		if k.Category == c {
			list = append(list, k.Memory)
		}
	}
	slices.SortFunc(list, func(a, b Memory) int { return strings.Compare(a.file, b.file) })
	return list
}

const (
	similarMost  = 5
	similarLeast = 0.15
)

// similar returns the memories of the category of a candidate that are most like it.
func (v *view) similar(c Candidate) []Memory {
	terms, topic := termSet(headline(c.Topic, c.Abstract)), lineKey(c.Topic)
	looked := map[*known]bool{}
	type scored struct {
		*known
		score float64
	}
	var list []scored
	for term := range terms {
		for _, k := range v.byTerm[term] {
			if looked[k] || k.Category != c.Category {
				continue
			}
			looked[k] = true
			score := likeness(terms, k.terms)
			if k.topics[topic] {
				score++
			}
			if score >= similarLeast {
				list = append(list, scored{k, score})
			}
		}
	}
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.file, b.file))
	})
	var best []Memory
	for _, s := range list[:min(len(list), similarMost)] {
		best = append(best, s.Memory)
	}
	return best
}

func headline(topic, abstract string) string { return topic + "\n" + abstract }
