package session_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// benchStore opens a store that is closed at the end of the benchmark.
func benchStore(b *testing.B, dir string, opts *session.Options) *session.Store {
	b.Helper()
	st := storetest.Open(b, dir, opts)
	b.Cleanup(func() { storetest.Close(b, st) })
	return st
}

// appendText returns an operation that appends a message of about 1 KiB.
func appendText(b *testing.B, s *session.Session) func() error {
	return func() error {
		_, err := s.Append(b.Context(), transcript.UserText(storetest.KibText))
		return err
	}
}

// appendFresh is the baseline of appends to long sessions: each block of calls
// has a new session.
func appendFresh(b *testing.B, st *session.Store) storetest.Side {
	var s *session.Session
	return storetest.Side{
		Prepare: func() (err error) {
			s, err = st.Create(b.Context(), session.Key{Agent: "main", Channel: "bench", Peer: "fresh"}, nil)
			return err
		},
		Call: func() error { return appendText(b, s)() },
	}
}

// One writer. The baseline does the least that any log must: unsynced, a lock, fstat,
// json.Marshal and a write; synced, a write and fdatasync.
func BenchmarkAppend(b *testing.B) {
	b.Run("1KiB/unsynced", func(b *testing.B) {
		s := storetest.Load(b, benchStore(b, b.TempDir(), storetest.Unsynced), storetest.CLI)
		bare := newBareLog(b)
		storetest.Versus(b, 64, storetest.Side{Call: appendText(b, s)}, storetest.Side{Call: func() error { return bare.append(storetest.KibText) }})
	})
	b.Run("1KiB/unsynced/nochecksum", func(b *testing.B) { // compare with the checksum
		bare := storetest.Load(b, benchStore(b, b.TempDir(), &session.Options{Sync: session.SyncNever, NoChecksum: true}), storetest.CLI)
		sealed := storetest.Load(b, benchStore(b, b.TempDir(), storetest.Unsynced), storetest.CLI)
		storetest.Versus(b, 64, storetest.Side{Call: appendText(b, bare)}, storetest.Side{Call: appendText(b, sealed)})
	})
	b.Run("1KiB/synced", func(b *testing.B) {
		s := storetest.Load(b, benchStore(b, b.TempDir(), nil), storetest.CLI)
		bare, line := newBareLog(b), append(bytes.Repeat([]byte("x"), 1023), '\n')
		storetest.Versus(b, 4, storetest.Side{Call: appendText(b, s)}, storetest.Side{Call: func() error { return bare.write(line) }})
	})
}

// Many goroutines on one session, against one.
func BenchmarkAppendTogether(b *testing.B) {
	for _, writers := range []int{4, 64} {
		b.Run(fmt.Sprintf("1KiB/synced/%dgoroutines", writers), func(b *testing.B) {
			s := storetest.Load(b, benchStore(b, b.TempDir(), nil), storetest.CLI)
			storetest.Throughput(b,
				func() (int, error) { return appendTogether(b, s, writers, 8) },
				func() (int, error) { return appendTogether(b, s, 1, 16) })
		})
	}
}

// appendTogether lets each of several goroutines append messages of about
// 1 KiB and returns how many were appended in all.
func appendTogether(b *testing.B, s *session.Session, writers, each int) (int, error) {
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for range writers {
		wg.Go(func() {
			for range each {
				if err := appendText(b, s)(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return writers * each, <-errs
}

// A session with many entries, against new ones in the same store.
func BenchmarkAppendLong(b *testing.B) {
	const entries = 100_000
	var s *session.Session
	st := benchStore(b, b.TempDir(), storetest.Unsynced)
	b.Run("1KiB/unsynced/100000entries", func(b *testing.B) {
		if s == nil {
			s = storetest.Load(b, st, storetest.CLI)
			fill(b, s, entries)
		}
		storetest.Versus(b, 64, storetest.Side{Call: appendText(b, s)}, appendFresh(b, st))
	})
}

// fill appends messages of about 1 KiB.
func fill(b *testing.B, s *session.Session, entries int) {
	b.Helper()
	items := make([]transcript.Item, 0, 500)
	for entries > 0 {
		items = items[:0]
		for len(items) < min(cap(items), entries) {
			if len(items)%2 == 0 {
				items = append(items, transcript.UserText(storetest.KibText))
			} else {
				items = append(items, storetest.Answer(storetest.KibText))
			}
		}
		storetest.Add(b, s, items...)
		entries -= len(items)
	}
}
