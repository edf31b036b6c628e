package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/term"
)

// talk runs the program convolog-chat: with its libraries, every other command would take
// several times as long to start.
func talk(ctx context.Context, c *call) error {
	if c.url != "" && !isDatabase(c.url) {
		return usageError("chat needs a folder or a database")
	}
	const name = "convolog-chat"
	program := name
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			program = beside
		}
	}
	cmd := exec.CommandContext(ctx, program, "--dir", c.dir, "--url", c.url, "--model", c.model, "--window", strconv.Itoa(c.window), c.ref.ID)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, c.out, c.err
	if modes, err := term.GetState(int(os.Stdin.Fd())); err == nil { // a killed program leaves others
		defer func() { _ = term.Restore(int(os.Stdin.Fd()), modes) }()
	}
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: go install github.com/convolog/convolog/examples/convolog/...@latest", err)
	}
	return err
}
