//go:build unix

package storetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// WithFileLimit calls f while no file may be longer than n bytes.
func WithFileLimit(n int64, f func() error) error {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	limit := old
	assign(&limit.Cur, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return errors.Join(f(), syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
}

// assign sets a number whose type depends on the system.
func assign[T int64 | uint64](to *T, n int64) { *to = T(n) }

// Say appends message n and an answer.
func Say(s *session.Session, n int, more string) error {
	_, err := s.Append(Background, transcript.UserText(fmt.Sprintf("message %d.%s", n, more)), Answer("yes"))
	return err
}

// CheckContinues opens the store again after turns of [Say]. It checks that the session
// contains all messages up to the last, and that its row counts them. It also checks that
// the session is not damaged and takes another append.
func CheckContinues(dir string) error {
	st, s, err := OpenSession(dir)
	if err != nil {
		return err
	}
	said := 0 // the number of user messages
	for e, err := range s.Entries(Background, "") {
		if err != nil {
			return err
		}
		if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeUser {
			said++
			if want := fmt.Sprintf("message %d.", said); !strings.HasPrefix(f.Message().Text(), want) {
				return fmt.Errorf("found %q instead of %q", f.Message().Text(), want)
			}
		}
	}
	h, err := s.Health(Background)
	cut := slices.ContainsFunc(h.Repairs, func(r rebuild.Repair) bool { return r.Rule != "merged-messages" })
	if err != nil || len(h.Damage) > 0 || cut || said == 0 {
		return fmt.Errorf("%d messages, health %+v: %w", said, h, err)
	}
	info, err := s.Info(Background)
	if err != nil || info.Size != FileSize(dir, "sessions/"+s.Ref().ID+".jsonl") || info.Messages < said {
		return fmt.Errorf("the row is %+v, the messages are %d: %w", info, said, err)
	}
	return errors.Join(Say(s, said+1, ""), st.Close())
}

// FileSize returns the size of a file below the folder of the agent main, or 0.
func FileSize(dir, name string) int64 {
	info, err := os.Stat(filepath.Join(dir, "agents/main", name))
	if err != nil {
		return 0
	}
	return info.Size()
}
