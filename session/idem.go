package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// keptKeys is how many idempotency keys a compaction holds, so that a retry after an
// unknown outcome finds its key behind the compaction.
const keptKeys = 64

// keys are the idempotency keys of the whole batches that a reader has seen. It keeps a
// hash and a place of each: 16 bytes, for sessions in which every append has one.
type keys struct {
	places map[uint64]driver.Cursor // at or before the first line
	// last are the last keys, as a compaction holds them: at least keptKeys, if there were
	// so many.
	last []transcript.Entry
}

var keySeed = maphash.MakeSeed()

// has reports whether a key is known.
func (k *keys) has(key string) bool {
	_, ok := k.places[maphash.String(keySeed, key)]
	return ok || k.indexOf(key) >= 0
}

// indexOf returns the index of a key in last, -1 if it is not there.
func (k *keys) indexOf(key string) int {
	return slices.IndexFunc(k.last, func(e transcript.Entry) bool { return e.Idem == key })
}

// put sets the place of a key, if it is not empty.
func (k *keys) put(key string, at driver.Cursor) {
	if key == "" {
		return
	}
	if k.places == nil {
		k.places = map[uint64]driver.Cursor{}
	}
	k.places[maphash.String(keySeed, key)] = at
}

// add takes the first entry of a whole batch with a key, and a place of the batch.
func (k *keys) add(first transcript.Entry, at driver.Cursor) {
	k.put(first.Idem, at)
	if len(k.last) >= 2*keptKeys {
		k.last = slices.Delete(k.last, 0, len(k.last)-keptKeys)
	}
	k.last = append(k.last, transcript.Entry{ID: first.ID, Idem: first.Idem, IdemHash: first.IdemHash, Body: transcript.Custom{Name: "idem"}})
}

// restore takes the keys that a compaction or a header holds, if it holds some: they are
// the last ones.
func (k *keys) restore(e transcript.Entry) {
	held := slices.DeleteFunc(slices.Clone(e.Standing()), func(e transcript.Entry) bool { return e.Idem == "" })
	if len(held) > 0 {
		k.last = held
	}
}

// kept returns the keys that a compaction is to hold.
func (k *keys) kept() []transcript.Entry { return k.last[max(0, len(k.last)-keptKeys):] }

// errNotThere reports that a batch is not where its idempotency key was read.
var errNotThere = errors.New("the batch of the idempotency key is no longer there")

// repeated returns the IDs of the entries that were appended under the key of a write.
// They are on stable storage, if the store syncs. It reads them, because a place in memory
// does not prove that the lines survived a failed sync.
func (s *Session) repeated(ctx context.Context, t *state, w *write) (ids []string, err error) {
	if s.store.opts.Sync != SyncNever {
		if err := t.store.drv.Flush(ctx, s.ref); err != nil {
			return nil, err
		}
	}
	at, held, err := t.placeOf(ctx, w.idem)
	if err == nil && held != nil { // a fork has the key, and not the lines
		return []string{held.ID}, w.fits(*held)
	}
	if err != nil {
		return nil, err
	}
	for b, err := range transcript.Batches(t.scan(ctx)(at, driver.Forward)) {
		if err != nil {
			return nil, err
		}
		if first := b.Entries[0]; first.Idem != w.idem || !b.Complete {
			continue
		}
		for _, e := range b.Entries {
			ids = append(ids, e.ID)
		}
		return ids, w.fits(b.Entries[0])
	}
	return nil, errNotThere
}

// fits returns [ErrIdemMismatch] unless the entries of a write are those of the batch that
// an entry begins, up to what an erase has removed.
func (w *write) fits(first transcript.Entry) error {
	if first.IdemHash != w.hash && first.IdemHash != transcript.ErasedHash {
		return ErrIdemMismatch
	}
	return nil
}

// placeOf returns the place of the batch of a key, at or before its first line; or the key
// as the header holds it, if the batch is not in the transcript.
func (s *state) placeOf(ctx context.Context, key string) (at driver.Cursor, held *transcript.Entry, err error) {
	err = s.locked(func() error {
		if place, ok := s.keys.places[maphash.String(keySeed, key)]; ok {
			at = place
			return nil
		}
		i := s.keys.indexOf(key)
		if i < 0 {
			return errNotThere // the session was read anew
		}
		p, err := locate(s.scan(ctx), s.keys.last[i].ID)
		if errors.Is(err, ErrNoEntry) {
			held, err = &s.keys.last[i], nil
		}
		at = p.start
		return err
	})
	return at, held, err
}

// IdemHash returns what the idemHash of a batch is: a hash of what its entries
// say, without IDs, times and numbers, so that it is the same for a retry. See
// [Cond].
func IdemHash(entries []transcript.Entry) string {
	h := sha256.New()
	for _, e := range entries {
		if f, ok := e.Body.(transcript.Fragment); ok {
			f.Of = ""
			e.Body = f
		}
		bare := transcript.Entry{Body: e.Body, App: e.App}
		h.Write(bare.Line())
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
