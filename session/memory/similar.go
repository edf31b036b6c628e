package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// A view holds the memories of a scope during decisions. Each decision changes it,
// so that the next one of the same commit sees the effect.
type view struct {
	list   []*known
	byID   map[string]*known
	byTerm map[string][]*known // by the terms of their headlines
	files  map[string]bool     // names in use, in lower case
}

// known is a memory with its keys for comparisons.
type known struct {
	Memory
	terms  map[string]bool // of the headline
	topics map[string]bool // keys of its topic
	at     int             // in the list
}

func (m *Store) load(ctx context.Context, scope Scope) (*view, error) {
	v := newView()
	for mem, err := range m.List(ctx, scope) {
		if err != nil {
			return nil, fmt.Errorf("a memory of owner %q cannot be read: %w", scope.Owner, err)
		}
		v.put(mem)
	}
	return v, nil
}

func newView() *view {
	return &view{byID: map[string]*known{}, byTerm: map[string][]*known{}, files: map[string]bool{}}
}

func (v *view) put(mem Memory) {
	k := v.byID[mem.ID]
	if k == nil {
		k = &known{at: len(v.list)}
		v.byID[mem.ID], v.list = k, append(v.list, k)
	}
	for term := range k.terms {
		v.byTerm[term] = slices.DeleteFunc(v.byTerm[term], func(other *known) bool { return other == k })
	}
	*k = known{mem, termSet(headline(mem.Topic, mem.Abstract)), mem.topics(), k.at}
	for term := range k.terms {
		v.byTerm[term] = append(v.byTerm[term], k)
	}
	v.files[strings.ToLower(mem.file)] = true
}

func (v *view) find(id string) *Memory {
	if k := v.byID[id]; k != nil {
		return &k.Memory
	}
	return nil
}

func (v *view) of(c Category) (list []Memory) {
	for _, k := range v.list {
		if k.Category == c {
			list = append(list, k.Memory)
		}
	}
	return list
}

const (
	similarMost  = 5
	similarLeast = 0.15
)

// similar returns the memories of a candidate's category that are most like it.
func (v *view) similar(c Candidate) []Memory {
	terms, topic := termSet(headline(c.Topic, c.Abstract)), lineKey(c.Topic)
	common := make([]int, len(v.list))
	for term := range terms {
		for _, k := range v.byTerm[term] {
			common[k.at]++
		}
	}
	type scored struct {
		*known
		score float64
	}
	var list []scored // the best so far, in order
	for i, k := range v.list {
		if common[i] == 0 || k.Category != c.Category {
			continue
		}
		s := scored{k, likeness(common[i], len(terms), len(k.terms))}
		if k.topics[topic] {
			s.score++
		}
		at, _ := slices.BinarySearchFunc(list, s, func(a, b scored) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.at, b.at))
		})
		if at < similarMost && s.score >= similarLeast {
			list = slices.Insert(list[:min(len(list), similarMost-1)], at, s)
		}
	}
	var best []Memory
	for _, s := range list {
		best = append(best, s.Memory)
	}
	return best
}

func headline(topic, abstract string) string { return topic + "\n" + abstract }
