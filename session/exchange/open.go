package exchange

import (
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/session"
)

// opened refuses a nil and a zero store.
func opened(st *session.Store) error {
	if st == nil || *st == (session.Store{}) {
		return fmt.Errorf("exchange: no store is open: %w", fs.ErrInvalid)
	}
	return nil
}

// ofStore refuses a nil and a zero session.
func ofStore(s *session.Session) error {
	if s == nil {
		return opened(nil)
	}
	return opened(s.Store())
}
