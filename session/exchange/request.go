package exchange

import (
	"context"
	"hash/maphash"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// requests finds answers that another session of the store counts already. A
// program that resumes a session in a new file, or forks it, copies the answers
// with their usage.
type requests struct {
	store *session.Store
	read  map[session.Ref]bool
	by    map[uint64]session.Ref // the session that counts a request, by the hash of its ID
	seed  maphash.Seed
}

func newRequests(st *session.Store) *requests {
	return &requests{store: st, read: map[session.Ref]bool{}, by: map[uint64]session.Ref{}, seed: maphash.MakeSeed()}
}

// load reads the sessions that may hold answers of a source: those that were in
// use at the same time.
func (r *requests) load(ctx context.Context, s dialect.Session) error {
	infos, err := r.store.List(ctx, &session.ListOptions{Since: s.Created, State: session.AnyState})
	if err != nil {
		return err
	}
	for _, info := range infos {
		if r.read[info.Ref] || len(info.Usage) == 0 || info.CreatedAt.After(s.Updated) {
			continue
		}
		r.read[info.Ref] = true
		for rec, err := range r.store.Scan(ctx, info.Ref, session.ScanOptions{}) {
			if err != nil {
				return err
			}
			r.add(info.Ref, rec.Entry)
		}
	}
	return nil
}

// key returns the hash of a request's ID; ok is false for an entry without usage.
func (r *requests) key(e transcript.Entry) (key uint64, ok bool) {
	m, ok := e.Body.(transcript.MessageLine)
	if !ok || m.RequestID == "" || m.Usage.IsZero() {
		return 0, false
	}
	return maphash.String(r.seed, m.RequestID), true
}

// add notes that a session counts the answer of an entry, unless another does.
func (r *requests) add(ref session.Ref, e transcript.Entry) {
	if key, ok := r.key(e); ok {
		if _, known := r.by[key]; !known {
			r.by[key] = ref
		}
	}
}

// once takes the usage from answers that another session counts, and returns
// their number.
func (r *requests) once(ref session.Ref, entries []transcript.Entry) (n int) {
	for i, e := range entries {
		key, ok := r.key(e)
		if by, known := r.by[key]; ok && known && by != ref {
			m, _ := e.Body.(transcript.MessageLine)
			m.Usage = transcript.Usage{}
			entries[i].Body = m
			n++
		}
	}
	return n
}
