//go:build unix

package session_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/convolog/convolog/internal/storetest"
)

func init() { storetest.Register("nobody", nobodyChild) }

// nobodyChild makes a store read-only for the user of this process, gives up
// root if it has it, and looks at the store.
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
