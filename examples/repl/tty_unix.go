//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminating are the signals that end a program in order.
var terminating = []os.Signal{syscall.SIGTERM, syscall.SIGHUP}

// watch follows the size of the terminal, and resumes it after a stop. The
// returned function ends this.
func (c *console) watch() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range signals {
			c.resume()
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		wg.Wait()
	}
}

// suspend stops the program and its process group, as a terminal does at
// Ctrl-Z. Without a shell to continue it, it returns at once.
func suspend() {
	_ = syscall.Kill(0, syscall.SIGTSTP)
	time.Sleep(100 * time.Millisecond) // the signal may take a moment
}

// quieter returns a function that makes a terminal keep input, byte by byte and
// unseen, until it is read. A terminal usually cuts lines at 4,095 bytes.
func quieter(tty *os.File, before *term.State) func() {
	fd := int(tty.Fd())
	modes, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() { _ = term.Restore(fd, before) }
	}
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Iflag &^= unix.ICRNL
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, modes) }
}
