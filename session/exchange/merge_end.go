package exchange

import (
	"cmp"
	"context"
	"crypto/sha256"

	"github.com/google/uuid"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/transcript"
)

// basis holds the blobs of the session that a fork is made of.
type basis struct {
	blobs.Store

	ref session.Ref
}

func (b basis) Get(ctx context.Context, _ session.Ref, hash string) ([]byte, error) {
	return b.Store.Get(ctx, b.ref, hash)
}

func (b basis) List(ctx context.Context, _ session.Ref) ([]string, error) {
	return b.Store.List(ctx, b.ref)
}

// An end is the part of a session after the common entries.
type end struct {
	s        *session.Session
	blobs    blobs.Store
	at       int    // the number of common entries
	differs  int    // where it differs from the fork that another end has taken
	first    string // names its first entry that the other end lacks
	lines    int
	erasures int                // lines that record an erase in this store; they do not make an end
	damage   int                // damaged places in the session
	base     transcript.Link    // the last common entry
	head     transcript.Header  // its Meta is in force there, as is standing
	standing []transcript.Entry // without queued texts and drafts, which stay with the session
}

// fork names the session that the end becomes if it is the shorter one.
func (e end) fork() session.Ref {
	ref := e.s.Ref()
	ref.ID = uuid.NewHash(sha256.New(), uuid.Nil, []byte(ref.ID+"\n"+e.first+"\n"+e.base.Entry), 8).String()
	return ref
}

func endOf(ctx context.Context, s *session.Session, kept blobs.Store, j *join) (end, error) {
	e := end{s: s, blobs: kept, at: j.at, base: transcript.Link{Agent: s.Ref().Agent, Session: s.Ref().ID}}
	common := func(yield func(transcript.Record, error) bool) {
		n := -1
		for rec, err := range new(join).records(s.Scan(ctx, session.ScanOptions{})) {
			if err == nil && !rec.HasEntry() {
				e.damage++
				continue
			}
			if n++; err == nil && n >= j.at {
				e.lines++
				if isErasure(rec.Entry) {
					e.erasures++
				}
				if n == j.differs {
					e.first = nameOf(rec.Entry)
				}
				continue
			}
			if !yield(rec, err) {
				return
			}
		}
	}
	fold := rebuild.New(nil)
	for b, err := range transcript.Batches(common) {
		if err == nil {
			err = fold.Add(b)
		}
		if err != nil {
			return e, err
		}
		for _, one := range b.Entries {
			e.base.Entry = cmp.Or(one.ID, e.base.Entry)
			switch b := one.Body.(type) {
			case transcript.Header:
				e.head = b
			case transcript.Meta:
				e.add(b)
			}
		}
	}
	now := fold.Standing()
	for _, c := range now.Calibrations {
		e.standing = append(e.standing, transcript.Entry{Body: c})
	}
	e.standing = append(e.standing, rebuild.Standing{Values: now.Values, Pins: now.Pins}.Entries()...)
	return e, nil
}

func (e *end) add(m transcript.Meta) {
	if m.Title != nil {
		e.head.Meta.Title, e.head.Meta.TitleBy = m.Title, m.TitleBy
	}
	if m.Labels != nil {
		e.head.Meta.Labels = m.Labels
	}
	e.head.Meta.TTL, e.head.Meta.Keep = cmp.Or(m.TTL, e.head.Meta.TTL), cmp.Or(m.Keep, e.head.Meta.Keep)
}

func isErasure(e transcript.Entry) bool {
	_, ok := e.Body.(transcript.Erasure)
	return ok
}
