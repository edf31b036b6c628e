package session

import (
	"cmp"
	"context"
	"iter"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// History returns the messages of the next model request: the canonical history of the
// session, by the rules of package rebuild. The slices are the caller's; the blocks
// are shared and must not be modified. While calls are running, each
// unfinished call shows an error result. The filters of [Options] change the history
// for the model.
func (s *Session) History(ctx context.Context) (h rebuild.History, err error) {
	err = s.View(ctx, func(v *View) error {
		h = v.Fold().History()
		return nil
	})
	if err == nil {
		err = s.FilterModel(ctx, &h)
	}
	return h, err
}

// Entries yields the stored entries after the entry with the ID after, in the order of
// their lines, and ends where the transcript ends. An empty after yields all of them: the
// rewound and the compacted ones, the header, and entries of cut appends. After an entry
// it leaves out cut appends, like [Session.Follow]. If the entry is near the end, the
// cost does not depend on the lines before it. An ID that is not there gives an error
// that matches [ErrNoEntry].
//
// The sequence may be ranged over several times and keeps no more lines in memory than
// [transcript.Scan]. Damage is left out: see [Session.Health].
func (s *Session) Entries(ctx context.Context, after string) iter.Seq2[transcript.Entry, error] {
	if after != "" {
		return s.following(ctx, "read", after, false)
	}
	return func(yield func(transcript.Entry, error) bool) {
		for rec, err := range s.Scan(ctx, ScanOptions{}) {
			if (err != nil || rec.HasEntry()) && !yield(rec.Entry, err) {
				return
			}
		}
	}
}

// Info describes the session as it stands. After an index was lost it reads the whole
// transcript, once.
func (s *Session) Info(ctx context.Context) (info Info, err error) {
	err = s.View(ctx, func(v *View) error {
		info, err = v.Info()
		return err
	})
	return info, err
}

// Health is the damage in a transcript, the repairs that its history needs, and the
// parts of requests that a service has refused.
type Health struct {
	Repairs rebuild.Report      `json:"repairs"`
	Damage  []transcript.Damage `json:"damage"`
	// Refused has an entry for each model and endpoint whose requests lack the
	// parts in Without, Left and Unread.
	Refused []transcript.Calibration `json:"refused,omitempty"`
}

// Health returns the state of the transcript. It reads all of it.
func (s *Session) Health(ctx context.Context) (h Health, err error) {
	err = s.View(ctx, func(v *View) error {
		if err := v.t.ReadAll(v.ctx); err != nil {
			return err
		}
		h.Repairs = v.Fold().Report()
		h.Damage = append(h.Damage, v.t.Damage...)
		for _, c := range v.Fold().Standing().Calibrations {
			if len(c.Without)+len(c.Left) > 0 || c.Unread != "" {
				h.Refused = append(h.Refused, c)
			}
		}
		return nil
	})
	return h, err
}

// Pending returns the unfinished work at the end of the history, so that an
// application can resume or close it after a restart. Running calls are also
// pending.
func (s *Session) Pending(ctx context.Context) (p rebuild.Pending, err error) {
	err = s.View(ctx, func(v *View) error {
		p = v.Fold().Pending()
		return nil
	})
	return p, err
}

// Calibration implements the Calibrated of package guard: it returns the
// calibration of a model at an endpoint in the entries of the session, or the
// zero value. Compactions keep its window and its factor, and the refused parts
// of entries that they keep.
func (s *Session) Calibration(ctx context.Context, model, endpoint string) (c transcript.Calibration, err error) {
	err = s.View(ctx, func(v *View) error {
		for _, known := range v.Fold().Standing().Calibrations {
			if known.Model == model && known.Endpoint == endpoint {
				c = known
			}
		}
		return nil
	})
	return c, err
}

// Rewind takes the history back to its state right after the append of an entry. Rewound
// entries stay in the transcript; rewinding to one of them undoes the rewind. The
// session's own ID means the beginning.
func (s *Session) Rewind(ctx context.Context, entryID string) error {
	_, err := s.Append(ctx, transcript.Rewind{To: entryID})
	return err
}

// MakeCurrent makes the session the current one of its key. In files it waits
// ten seconds for the append lock. If another process keeps it, the error matches [ErrBusy].
func (s *Session) MakeCurrent(ctx context.Context) error {
	err := s.store.check(ctx, s.ref)
	if err == nil {
		_, err = s.store.drv.SetCurrent(ctx, s.ref, 0, func(gen int64) driver.Line {
			e := transcript.Entry{ID: newID(), Time: s.store.opts.Now(), Body: transcript.Current{Gen: gen}}
			return live.LineOf(s.store.lines.WithChecksum(e))
		})
	}
	return s.store.done(ctx, "make current", s.ref, err)
}

// SetMeta changes the metadata of the session; nil fields stay unchanged. A title of more
// than 1,024 bytes, more than 64 labels and a label of more than 256 bytes give an
// [InputError], here, in [Session.Append] and in [Store.Create]. A
// title set here is never replaced by an automatic one. The index is updated
// when SetMeta returns.
func (s *Session) SetMeta(ctx context.Context, m transcript.Meta) error {
	if m.Title == nil && m.Labels == nil && m.TTL == nil && m.Keep == nil {
		return s.store.wrap("set meta", s.ref, &InputError{"", "no field is set"})
	}
	_, err := s.Append(ctx, m)
	return err
}

// Flush returns when everything appended so far is on stable storage.
func (s *Session) Flush(ctx context.Context) error {
	err := s.store.check(ctx, s.ref)
	if err == nil {
		err = s.store.drv.Flush(ctx, s.ref, false)
	}
	return s.store.done(ctx, "flush", s.ref, err)
}

// LockTurn takes the turn lock of the session: one holder at a time in all processes.
// It keeps out other holders, not appends. If wait is false and the lock is held, the
// error matches [ErrBusy]; if wait is true LockTurn waits until ctx is done, and the
// error then matches both. Unlock releases the lock and brings the index up to date;
// calling it again does nothing. The lock also ends with the process.
func (s *Session) LockTurn(ctx context.Context, wait bool) (unlock func() error, err error) {
	err = cmp.Or(outside(ctx), s.store.check(context.WithoutCancel(ctx), s.ref))
	var release func() error
	if err == nil {
		release, err = s.store.drv.LockTurn(ctx, s.ref, wait)
	}
	if err = s.store.done(ctx, "lock turn", s.ref, err); err != nil {
		return nil, err
	}
	return func() error {
		err := release()
		s.turnEnded(context.Background())
		return s.store.wrap("end turn", s.ref, err)
	}, nil
}
