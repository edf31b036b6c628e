package turn

import (
	"context"
	"errors"
	"fmt"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Undo takes back the last turns: the history ends before the text of the user that
// started the first of them. If a compaction has summarised that text, the compaction
// is taken back too. Undo fails, and names the entry, if no rewind gives that history:
// an answer that was written after the text precedes it in the history if its request
// lacked the text.
func Undo(ctx context.Context, s *session.Session, turns int) error {
	_, err := s.Update(ctx, "undo", func(v *session.View) ([]transcript.Item, error) {
		to, err := v.Fold().BeforeTurn(turns)
		if errors.Is(err, rebuild.ErrFewTurns) { // the fold lacks the lines before the last compaction
			var whole *rebuild.Fold
			if whole, err = foldAll(ctx, s, v.End()); err != nil {
				return nil, err
			}
			to, err = whole.BeforeTurn(turns)
		}
		if err != nil {
			return nil, fmt.Errorf("take back %d turns: nothing was written: %w", turns, err)
		}
		return []transcript.Item{transcript.Rewind{To: to}}, nil
	})
	return err
}

func foldAll(ctx context.Context, s *session.Session, end int64) (*rebuild.Fold, error) {
	fold := rebuild.New(nil)
	for b, err := range transcript.Batches(s.Scan(ctx, session.ScanOptions{To: end})) {
		if err == nil {
			err = fold.Add(b)
		}
		if err != nil {
			return nil, err
		}
	}
	return fold, nil
}
