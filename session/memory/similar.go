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
	list  []*known
	byID  map[string]*known
	files map[string]bool // names in use, in lower case
}

// known is a memory with its keys for comparisons.
type known struct {
	Memory
	terms  map[string]bool // of the headline
	topics map[string]bool // keys of its topic
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
	return &view{byID: map[string]*known{}, files: map[string]bool{}}
}

func (v *view) put(mem Memory) {
	k := v.byID[mem.ID]
	if k == nil {
		k = &known{}
		v.byID[mem.ID], v.list = k, append(v.list, k)
	}
	*k = known{mem, termSet(headline(mem.Topic, mem.Abstract)), mem.topics()}
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
	type scored struct {
		*known
		score float64
	}
	var list []scored
	for _, k := range v.list {
		s := scored{k, alikeness(terms, k.terms)}
		if k.Category != c.Category || s.score == 0 {
			continue
		}
		if k.topics[topic] {
			s.score++
		}
		if s.score >= similarLeast {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	var best []Memory
	for _, s := range list[:min(len(list), similarMost)] {
		best = append(best, s.Memory)
	}
	return best
}

func headline(topic, abstract string) string { return topic + "\n" + abstract }
