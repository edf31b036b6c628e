package turn

import (
	"context"

	"github.com/convolog/convolog/session"
)

// Retitle is the function of [Titles] without its memory of failures.
func Retitle(ctx context.Context, s *session.Session, t Titler) (changed bool, err error) {
	return retitle(ctx, s, t, func(int) bool { return true })
}
