package session_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// 64 goroutines on one session, against 64 on a bare log of lines of the same
// length: what a session costs when the processor and not the disk is the limit.
func BenchmarkAppendTogetherBare(b *testing.B) {
	const writers, each = 64, 16
	b.Run("1KiB/synced/64goroutines", func(b *testing.B) {
		s := storetest.Load(b, benchStore(b, b.TempDir(), nil), storetest.CLI)
		dir := filepath.Join(b.TempDir(), "bare")
		require.NoError(b, os.Mkdir(dir, 0o700))
		root, err := os.OpenRoot(dir)
		require.NoError(b, err)
		folder, err := root.Open(".")
		require.NoError(b, err)
		line := append(bytes.Repeat([]byte("x"), 1<<10+130), '\n')
		l, err := filelog.Create(root, "log", line, &filelog.Options{Folder: folder})
		require.NoError(b, err)
		storetest.Throughput(b,
			func() (int, error) { return appendTogether(b, s, writers, each) },
			func() (int, error) {
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						for range each {
							if _, _, err := l.Append(b.Context(), func(int64) ([]byte, error) { return line, nil }); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				return writers * each, nil
			})
		require.NoError(b, l.Close())
	})
}

// AfterTurn with nothing to do after each turn of a long history, against a
// short one.
func BenchmarkAfterTurn(b *testing.B) {
	opts := *storetest.Unsynced
	opts.Compact = compact.Options{Trigger: compact.Trigger{Window: 1 << 30}}
	turn := func(s *session.Session) storetest.Side {
		return storetest.Side{
			Prepare: func() error {
				_, err := s.Append(b.Context(), transcript.UserText("a question"), storetest.Answer("an answer"))
				return err
			},
			Call: func() error { _, err := s.AfterTurn(b.Context()); return err },
		}
	}
	for _, entries := range []int{20_000} {
		b.Run(fmt.Sprintf("%dentries", entries), func(b *testing.B) {
			long, short := storetest.Load(b, benchStore(b, b.TempDir(), &opts), storetest.CLI), storetest.Load(b, benchStore(b, b.TempDir(), &opts), storetest.CLI)
			fill(b, long, entries)
			fill(b, short, 20)
			for _, s := range []*session.Session{long, short} {
				_, err := s.AfterTurn(b.Context())
				require.NoError(b, err)
			}
			storetest.Versus(b, 1, turn(long), turn(short))
		})
	}
}

// An append and a count of the tokens of the history, against the append alone.
func BenchmarkAppendThenCount(b *testing.B) {
	b.Run("1KiB/unsynced/1000entries", func(b *testing.B) {
		st := benchStore(b, b.TempDir(), storetest.Unsynced)
		sessions := make([]*session.Session, 2)
		for i := range sessions {
			s, err := st.Create(b.Context(), storetest.CLI, nil)
			require.NoError(b, err)
			fill(b, s, 1_000)
			sessions[i] = s
		}
		turn := func(s *session.Session, n *int) error {
			*n++
			var err error
			if *n%2 == 0 {
				_, err = s.Append(b.Context(), storetest.Answer(storetest.KibText))
			} else {
				_, err = s.Append(b.Context(), transcript.UserText(storetest.KibText))
			}
			return err
		}
		var m, n int
		storetest.Versus(b, 16,
			storetest.Side{Call: func() error {
				err := turn(sessions[0], &n)
				if storetest.Info(b, sessions[0]).Tokens == 0 {
					b.Error("nothing was counted")
				}
				return err
			}},
			storetest.Side{Call: func() error { return turn(sessions[1], &m) }})
	})
}
