package live

import (
	"context"
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
)

// An outline is the outline of a session.
type outline struct {
	ref  driver.Ref
	lock chan struct{} // holds a value while the outline is in use
	replay.Outline
}

func newOutline(ref driver.Ref) *outline { return &outline{ref: ref, lock: make(chan struct{}, 1)} }

// mostOutlines is how many outlines are kept.
const mostOutlines = 8

// outlines keeps the outlines that were used last.
type outlines struct {
	mu   sync.Mutex // guards the field below
	list []*outline // the one used last comes first
}

// of returns the outline of a session. If ctx is tentative, the outline is not kept.
func (all *outlines) of(ctx context.Context, ref driver.Ref) *outline {
	if driver.IsTentative(ctx) {
		return newOutline(ref)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	i := slices.IndexFunc(all.list, func(o *outline) bool { return o.ref == ref })
	if i < 0 {
		i = min(len(all.list), mostOutlines-1)
		all.list = append(all.list[:i], newOutline(ref))
	}
	o := all.list[i]
	copy(all.list[1:], all.list[:i])
	all.list[0] = o
	return o
}
