package exchange

import (
	"fmt"
	"io/fs"
	"iter"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// watched yields records after see has seen them.
func watched(records iter.Seq2[transcript.Record, error], see func(transcript.Record)) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		for rec, err := range records {
			if see(rec); !yield(rec, err) {
				return
			}
		}
	}
}

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
