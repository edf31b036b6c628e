//go:build unix

package session_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/convolog/convolog/transcript"
)

func init() {
	children["nobody"] = nobodyChild
	children["full"] = fullChild
}

// nobodyChild makes a store readable and not writable for this user, whoever
// that is, and looks at it.
func nobodyChild(args []string, _ io.Reader, _ io.Writer) error {
	dir := args[0]
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o555)
		}
		return os.Chmod(path, 0o444)
	})
	if err != nil {
		return err
	}
	if os.Getuid() == 0 {
		for up := filepath.Dir(dir); up != filepath.Dir(up) && strings.HasPrefix(up, os.TempDir()+"/"); up = filepath.Dir(up) {
			if err := os.Chmod(up, 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
	} else {
		defer func() { _ = os.Chmod(dir, 0o700) }()
	}
	return unwritable(dir)
}

// fullChild runs a turn into a limit on the size of files and goes on when
// that is lifted.
func fullChild(args []string, _ io.Reader, _ io.Writer) error {
	st, s, err := openSession(args[0])
	if err != nil {
		return err
	}
	if _, err := s.Append(bg, transcript.UserText("q"), answer("", "c")); err != nil {
		return err
	}
	before := s.Info().Size
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	full := old
	full.Cur = uint64(before) + 100
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	result := transcript.ToolResult("c", strings.Repeat("r", 500))
	if _, err := s.Append(bg, result); err == nil {
		return errors.New("an append beyond the limit succeeded")
	}
	if h, err := s.History(bg); err != nil || strings.Contains(fmt.Sprint(h), "rrr") {
		return fmt.Errorf("the failed append shows in the history: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if _, err := s.Append(bg, result); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if h, err := s.Health(bg); err != nil || len(h.Damage)+len(h.Repairs) > 0 {
		return fmt.Errorf("health %+v: %w", h, err)
	}
	return st.Close()
}
