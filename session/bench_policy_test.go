package session_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// The cost of each policy: one writer and a turn of four messages against a
// bare loop of one write and fdatasync each, and several goroutines on one
// session against that loop.
func BenchmarkPolicy(b *testing.B) {
	line := append(bytes.Repeat([]byte("x"), 1023), '\n')
	for _, p := range []struct {
		name string
		sync session.SyncPolicy
	}{
		{"always", session.SyncAlways},
		{"interval100ms", session.SyncInterval(100 * time.Millisecond)},
		{"never", session.SyncNever},
	} {
		opts := &session.Options{Sync: p.sync}
		b.Run(p.name+"/1KiB", func(b *testing.B) {
			s, bare := storetest.Load(b, benchStore(b, b.TempDir(), opts), storetest.CLI), newBareLog(b)
			storetest.Versus(b, 4, storetest.Side{Call: appendText(b, s)}, storetest.Side{Call: func() error { return bare.write(line) }})
		})
		b.Run(p.name+"/turn", func(b *testing.B) {
			s, bare := storetest.Load(b, benchStore(b, b.TempDir(), opts), storetest.CLI), newBareLog(b)
			turn := func() error {
				_, err := s.Append(b.Context(), transcript.UserText(halfText), storetest.Answer(halfText, "c"), transcript.ToolResult("c", halfText), storetest.Answer(halfText))
				return err
			}
			storetest.Versus(b, 4, storetest.Side{Call: turn}, storetest.Side{Call: func() error { return bare.write(bytes.Repeat(line[512:], 4)) }})
		})
		for _, writers := range []int{16, 64} {
			b.Run(fmt.Sprintf("%s/1KiB/%dgoroutines", p.name, writers), func(b *testing.B) {
				s, bare := storetest.Load(b, benchStore(b, b.TempDir(), opts), storetest.CLI), newBareLog(b)
				storetest.Throughput(b,
					func() (int, error) { return appendTogether(b, s, writers, 8) },
					func() (int, error) {
						for range 16 {
							if err := bare.write(line); err != nil {
								return 0, err
							}
						}
						return 16, nil
					})
			})
		}
	}
}
