package session_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

var longMiB = flag.Int("long", 64, "size in MiB of the transcript that BenchmarkResume resumes")

// Resuming after a restart: Get, History and Turns in a store that has just
// been opened. A long transcript whose live part is 1 MiB, against one that
// is no longer than that.
func BenchmarkResume(b *testing.B) {
	const live = 1 << 10 // entries of 1 KiB
	dir := b.TempDir()
	var long, short session.Ref
	build := func(b *testing.B) {
		b.Helper()
		if short.ID != "" {
			return
		}
		st := storetest.Open(b, dir, storetest.Unsynced)
		defer storetest.Close(b, st)
		s := storetest.Load(b, st, session.Key{Agent: "long", Channel: "cli", Peer: "user"})
		fill(b, s, *longMiB<<10-live)
		before := storetest.Info(b, s)
		ids := storetest.Add(b, s, transcript.UserText(storetest.KibText))
		fill(b, s, live-2)
		storetest.Add(b, s, transcript.Compaction{
			Summary: storetest.Sentence(2000), FirstKept: ids[0], TurnsBefore: before.Turns, TokensBefore: before.Tokens, TokensAfter: live << 8,
		})
		long = s.Ref()
		s = storetest.Load(b, st, session.Key{Agent: "short", Channel: "cli", Peer: "user"})
		fill(b, s, live)
		short = s.Ref()
	}
	for _, index := range []string{"index", "noindex"} {
		b.Run(fmt.Sprintf("live1MiB/%s", index), func(b *testing.B) {
			build(b)
			var st *session.Store
			reopen := func() (err error) {
				if st != nil {
					if err := st.Close(); err != nil {
						return err
					}
				}
				if index == "noindex" {
					for _, agent := range []string{"long", "short"} {
						if err := removeIndex(filepath.Join(dir, "agents", agent)); err != nil {
							return err
						}
					}
				}
				st, err = session.Open(dir, storetest.Unsynced)
				return err
			}
			var heap [2]float64
			resume := func(ref session.Ref) storetest.Side {
				return storetest.Side{Prepare: reopen, Call: func() error {
					s, err := st.Get(b.Context(), ref)
					if err != nil {
						return err
					}
					h, err := s.History(b.Context())
					if err != nil {
						return err
					}
					if len(h.Messages) < live/2 || len(h.Messages) > 2*live || storetest.Turns(b, s) < live/4 {
						return fmt.Errorf("%d messages, %d turns", len(h.Messages), storetest.Turns(b, s))
					}
					return nil
				}}
			}
			storetest.Versus(b, 1, resume(long), resume(short))
			for i, ref := range []session.Ref{long, short} {
				if err := reopen(); err != nil {
					b.Fatal(err)
				}
				before := storetest.HeapBytes()
				if err := resume(ref).Call(); err != nil {
					b.Fatal(err)
				}
				heap[i] = float64(storetest.HeapBytes()) - float64(before)
			}
			b.ReportMetric(heap[0]/1e6, "MB-kept")
			b.ReportMetric(heap[0]/heap[1], "x-baseline-kept")
			storetest.Close(b, st)
		})
	}
}

// removeIndex removes the index of an agent.
func removeIndex(dir string) error {
	for _, name := range []string{"sessions.jsonl"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// A whole conversation of 1,000 messages of 512 bytes from a store that has
// just been opened, against reading the same lines with encoding/json.
func BenchmarkLoad(b *testing.B) {
	const messages = 1000
	b.Run("1000x512B", func(b *testing.B) {
		dir := b.TempDir()
		st := storetest.Open(b, dir, storetest.Unsynced)
		s := storetest.Load(b, st, storetest.CLI)
		for i := range messages {
			if i%2 == 0 {
				storetest.Add(b, s, transcript.UserText(halfText))
			} else {
				storetest.Add(b, s, transcript.AssistantText(halfText))
			}
		}
		ref, file := s.Ref(), filepath.Join(dir, "agents", "main", "sessions", s.Ref().ID+".jsonl")
		storetest.Close(b, st)
		st = nil
		c := storetest.Versus(b, 1,
			storetest.Side{
				Prepare: func() (err error) {
					if st != nil {
						err = st.Close()
					}
					if err == nil {
						st, err = session.Open(dir, storetest.Unsynced)
					}
					return err
				},
				Call: func() error {
					s, err := st.Get(b.Context(), ref)
					if err != nil {
						return err
					}
					h, err := s.History(b.Context())
					if err == nil && len(h.Messages) != messages {
						err = fmt.Errorf("%d messages", len(h.Messages))
					}
					return err
				},
			},
			storetest.Side{Call: func() error {
				data, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				n, err := decodeLines(data)
				if err == nil && n != messages+1 {
					err = fmt.Errorf("%d lines", n)
				}
				return err
			}})
		b.ReportMetric(c.Op.Percentile(50)/messages, "ns/message")
		storetest.Close(b, st)
	})
}
