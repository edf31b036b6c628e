package exchange

import (
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// FullHistory returns the history of a session as if nothing had ever been compacted or
// clipped, as the filters of the store give it to a model. Hidden entries are left out. It
// reads the whole transcript.
func FullHistory(ctx context.Context, s *session.Session) (rebuild.History, error) {
	if err := ofStore(s); err != nil {
		return rebuild.History{}, err
	}
	fold := rebuild.New(&rebuild.Options{Full: true})
	for b, err := range transcript.Batches(s.Scan(ctx, session.ScanOptions{})) {
		if err == nil {
			err = fold.Add(b)
		}
		if err != nil {
			return rebuild.History{}, err
		}
	}
	h := fold.History()
	return h, s.FilterModel(ctx, &h)
}
