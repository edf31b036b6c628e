//go:build unix

package retain_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
)

func init() {
	storetest.Register("full archive", func(args []string, _ io.Reader, _ io.Writer) error {
		return errors.Join(fullArchive(args[0]), storetest.CheckContinues(args[0]))
	})
}

// The disk is full while a session is archived, and while it is restored.
func TestFullDiskOfArchives(t *testing.T) {
	_, err := storetest.Child(t, "full archive", t.TempDir()).Output()
	require.NoError(t, err)
}

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
	st, s, err := storetest.OpenSession(dir)
	if err != nil {
		return err
	}
	if err := storetest.Say(s, 1, noise(300<<10)); err != nil {
		return err
	}
	before, err := s.History(storetest.Background)
	if err != nil {
		return err
	}
	same := func(state session.State) error {
		now, err := s.History(storetest.Background)
		if err != nil {
			return err
		}
		if info, err := s.Info(storetest.Background); err != nil || fmt.Sprint(now) != fmt.Sprint(before) || info.State != state {
			return fmt.Errorf("the session is %q, with %d messages: %w", info.State, len(now.Messages), err)
		}
		temps, err := filepath.Glob(filepath.Join(dir, "agents/main/*/*.tmp-*"))
		if err != nil || len(temps) > 0 {
			return fmt.Errorf("left behind: %v, %w", temps, err)
		}
		return nil
	}
	err = storetest.WithFileLimit(100<<10, func() error {
		for range 3 {
			if err := st.SetState(storetest.Background, s.Ref(), session.Archived, -1); !errors.Is(err, syscall.EFBIG) {
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
	if err := errors.Join(st.SetState(storetest.Background, s.Ref(), session.Archived, -1), same(session.Archived)); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	err = storetest.WithFileLimit(100<<10, func() error {
		for range 3 {
			if err := st.SetState(storetest.Background, s.Ref(), session.Live, -1); !errors.Is(err, syscall.EFBIG) {
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
	if err := errors.Join(st.SetState(storetest.Background, s.Ref(), session.Live, -1), same(session.Live)); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "agents/main/archive", s.Ref().ID+".jsonl.gz")); err == nil {
		return errors.New("the archive is still there")
	}
	return errors.Join(storetest.Say(s, 2, ""), st.Close())
}
