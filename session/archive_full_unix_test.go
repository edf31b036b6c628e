//go:build unix

package session_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/convolog/convolog/session"
)

func init() { fulls["archive"] = fullArchive }

// noise is a text that cannot be compressed to less than half.
func noise(n int) string {
	var sb strings.Builder
	for i := 0; sb.Len() < n; i++ {
		sum := sha256.Sum256(fmt.Append(nil, i))
		sb.WriteString(hex.EncodeToString(sum[:]))
	}
	return sb.String()[:n]
}

// There is no room for an archive, and later none for the transcript.
func fullArchive(dir string) error {
	st, s, err := openSession(dir)
	if err != nil {
		return err
	}
	if err := say(s, 1, noise(300<<10)); err != nil {
		return err
	}
	before, err := s.History(bg)
	if err != nil {
		return err
	}
	same := func(state session.State) error {
		now, err := s.History(bg)
		if err != nil || fmt.Sprint(now) != fmt.Sprint(before) || s.Info().State != state {
			return fmt.Errorf("the session is %q, with %d messages: %w", s.Info().State, len(now.Messages), err)
		}
		temps, err := filepath.Glob(filepath.Join(dir, "agents/main/*/*.tmp-*"))
		if err != nil || len(temps) > 0 {
			return fmt.Errorf("left behind: %v, %w", temps, err)
		}
		return nil
	}
	err = full(100<<10, func() error {
		for range 3 {
			if err := st.Archive(bg, s.Ref()); !errors.Is(err, syscall.EFBIG) {
				return fmt.Errorf("an archive without room: %w", err)
			}
			if err := same(session.Live); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(st.Archive(bg, s.Ref()), same(session.Archived)); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	err = full(100<<10, func() error {
		for range 3 {
			if err := st.Restore(bg, s.Ref()); !errors.Is(err, syscall.EFBIG) {
				return fmt.Errorf("a restore without room: %w", err)
			}
			if err := same(session.Archived); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(st.Restore(bg, s.Ref()), same(session.Live)); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "agents/main/archive", s.ID()+".jsonl.gz")); err == nil {
		return errors.New("the archive is still there")
	}
	return errors.Join(say(s, 2, ""), st.Close())
}
