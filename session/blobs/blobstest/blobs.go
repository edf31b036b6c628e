// Package blobstest checks that a store of media keeps the promises of
// [blobs.Store].
package blobstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
)

// TestStore checks every rule in a subtest of its name. It calls storage once for each
// rule. The function that storage returns opens the same place every time, which is
// empty at first. Only the sessions in refs may have blobs there.
func TestStore(t *testing.T, storage func(t *testing.T, refs ...session.Ref) (open func() blobs.Store)) {
	for _, rule := range []struct {
		name, text string
		check      func(c *check)
	}{
		{"put", "Put stores data under its hash, where the same data may already be.", put},
		{"get", "If there is none, the error matches fs.ErrNotExist.", get},
		{"apart", "Each session has blobs of its own.", apart},
		{"delete", "Delete removes data. A hash without data is no error, and without hashes nothing is removed.", remove},
		{"names", "A hash is the SHA-256 of the data in lower-case hexadecimal digits.", names},
		{"owned", "Put must not retain or modify data.", owned},
		{"make", "Make has Put accept the blobs of a session that is about to be made.", makes},
		{"together", "A Store must be safe for several goroutines.", together},
	} {
		t.Run(rule.name, func(t *testing.T) {
			rule.check(&check{T: t, rule: rule.text, open: storage(t, mine, other, foreign)})
		})
	}
}

var (
	mine    = session.Ref{Agent: "main", ID: "mine"}
	other   = session.Ref{Agent: "main", ID: "other"}
	foreign = session.Ref{Agent: "Другой", ID: "mine"}
	unborn  = session.Ref{Agent: "main", ID: "unborn"}
)

// A check is one run of a rule.
type check struct {
	*testing.T
	rule string
	open func() blobs.Store
}

func (c *check) want(ok bool, format string, args ...any) {
	c.Helper()
	if !ok {
		c.Errorf("the rule %q is broken: "+format, append([]any{c.rule}, args...)...)
	}
}

func (c *check) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("the rule %q is broken: %v", c.rule, err)
	}
}

// picture returns n bytes that no other seed has, and their hash.
func picture(n int, seed uint64) (hash string, data []byte) {
	rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data = make([]byte, n)
	_, _ = rnd.Read(data) // never fails
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), data
}

// keep puts a picture.
func (c *check) keep(b blobs.Store, ref session.Ref, n int, seed uint64) (hash string) {
	c.Helper()
	hash, data := picture(n, seed)
	c.ok(b.Put(c.Context(), ref, hash, data))
	return hash
}

func (c *check) wantData(b blobs.Store, ref session.Ref, n int, seed uint64) {
	c.Helper()
	hash, want := picture(n, seed)
	got, err := b.Get(c.Context(), ref, hash)
	c.want(err == nil && bytes.Equal(got, want), "of %d bytes Get returns %d others (%v)", n, len(got), err)
}

func (c *check) wantHashes(b blobs.Store, ref session.Ref, want ...string) {
	c.Helper()
	got, err := b.List(c.Context(), ref)
	c.ok(err)
	slices.Sort(got)
	slices.Sort(want)
	c.want(slices.Equal(got, want), "%v has %v, want %v", ref, got, want)
}

func put(c *check) {
	b := c.open()
	var all []string
	sizes := []int{0, 1, 5000, 5 << 20}
	for range 2 {
		all = nil
		for seed, n := range sizes {
			all = append(all, c.keep(b, mine, n, uint64(seed)))
		}
	}
	b = c.open()
	for seed, n := range sizes {
		c.wantData(b, mine, n, uint64(seed))
	}
	c.wantHashes(b, mine, all...)
}

func get(c *check) {
	b := c.open()
	hash, _ := picture(10, 1)
	for range 2 {
		_, err := b.Get(c.Context(), mine, hash)
		c.want(errors.Is(err, fs.ErrNotExist), "Get gives %v", err)
		c.keep(b, mine, 10, 2)
	}
}

func apart(c *check) {
	b := c.open()
	hash := c.keep(b, mine, 1000, 1)
	for _, ref := range []session.Ref{other, foreign} {
		c.wantHashes(b, ref)
		_, err := b.Get(c.Context(), ref, hash)
		c.want(errors.Is(err, fs.ErrNotExist), "another session gets it (%v)", err)
		c.ok(b.Delete(c.Context(), ref, hash))
		c.keep(b, ref, 1000, 1)
	}
	c.ok(b.Delete(c.Context(), other, hash))
	c.wantHashes(b, other)
	c.wantData(b, mine, 1000, 1)
	c.wantData(b, foreign, 1000, 1)
}

func remove(c *check) {
	b := c.open()
	one, two, three := c.keep(b, mine, 100, 1), c.keep(b, mine, 100, 2), c.keep(b, mine, 100, 3)
	none, _ := picture(100, 4)
	c.ok(b.Delete(c.Context(), mine))
	c.wantHashes(b, mine, one, two, three)
	c.ok(b.Delete(c.Context(), mine, one, none, three))
	c.wantHashes(c.open(), mine, two)
	c.wantData(b, mine, 100, 2)
	c.ok(b.Delete(c.Context(), mine, two, none))
	c.ok(b.Delete(c.Context(), mine, two))
	c.wantHashes(c.open(), mine)
	c.keep(b, mine, 100, 1)
	c.wantHashes(c.open(), mine, one)
}

func names(c *check) {
	b := c.open()
	hash := c.keep(b, mine, 10, 1)
	for _, bad := range []string{"x", "../" + hash, hash[1:], hash + "00", "A" + hash[1:]} {
		c.want(b.Put(c.Context(), mine, bad, nil) != nil, "Put takes the hash %q", bad)
		_, err := b.Get(c.Context(), mine, bad)
		c.want(err != nil, "Get finds the hash %q", bad)
	}
	c.wantHashes(b, mine, hash)
}

func owned(c *check) {
	b := c.open()
	hash, data := picture(1000, 1)
	c.ok(b.Put(c.Context(), mine, hash, data))
	_, want := picture(1000, 1)
	c.want(bytes.Equal(data, want), "Put changes the data")
	clear(data)
	c.wantData(b, mine, 1000, 1)
}

func makes(c *check) {
	b := c.open()
	m, ok := b.(blobs.Maker)
	if !ok {
		return // it takes the blobs of any session
	}
	hash, data := picture(100, 1)
	err := b.Put(c.Context(), unborn, hash, data)
	c.want(errors.Is(err, fs.ErrNotExist), "Put to a session that is not there gives %v", err)
	c.wantHashes(b, unborn)
	c.ok(m.Make(c.Context(), unborn))
	c.ok(m.Make(c.Context(), unborn))
	c.keep(b, unborn, 100, 1)
	c.wantData(c.open(), unborn, 100, 1)
}

func together(c *check) {
	places := []blobs.Store{c.open(), c.open()}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			b := places[i%2]
			for n := range 5 {
				hash, data := picture(20_000, uint64(i/4*5+n))
				c.want(b.Put(c.Context(), mine, hash, data) == nil, "Put fails beside others")
				got, err := b.Get(c.Context(), mine, hash)
				c.want(err == nil && bytes.Equal(got, data), "Get returns %d bytes (%v) beside others", len(got), err)
			}
		})
	}
	all.Wait()
	found, err := places[0].List(c.Context(), mine)
	c.ok(err)
	c.want(len(found) == 10, "%d blobs of 10 are there", len(found))
}
