package replay

import (
	"hash/maphash"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A compaction holds the last keptKeys idempotency keys, so that a retry after an
// unknown outcome still finds its key.
const keptKeys = 64

// keys are the idempotency keys of the whole batches that a Reader has seen. It keeps a
// hash and a place of each, in 16 bytes, since every append may have a key.
type keys struct {
	places map[uint64]driver.Cursor // at or before the first line: added by put
	held   []transcript.Entry       // by the last compaction, or by the header: replaced by restore
	last   []transcript.Entry       // the keys since, as a compaction holds them: all, or at least the last keptKeys; emptied by restore
}

var keySeed = maphash.MakeSeed()

// has reports whether a key is known.
func (k *keys) has(key string) bool {
	_, ok := k.places[maphash.String(keySeed, key)]
	return ok || k.find(key) != nil
}

// find returns a key that is held, nil if it is not.
func (k *keys) find(key string) *transcript.Entry {
	if i := slices.IndexFunc(k.held, func(e transcript.Entry) bool { return e.Idem == key }); i >= 0 {
		return &k.held[i]
	}
	return nil
}

// put sets the place of a key.
func (k *keys) put(key string, at driver.Cursor) {
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

// restore takes the keys that a compaction or a header holds, if any: they are the last
// ones. It replaces held and does not modify it.
func (k *keys) restore(e transcript.Entry) {
	held := slices.DeleteFunc(slices.Clone(e.Standing()), func(e transcript.Entry) bool { return e.Idem == "" })
	if len(held) > 0 {
		k.held, k.last = held, nil
	}
}

// kept returns the keys that a compaction is to hold.
func (k *keys) kept() []transcript.Entry {
	all := slices.Concat(k.held, k.last)
	return all[max(0, len(all)-keptKeys):]
}
