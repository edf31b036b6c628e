//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package main

import (
	"os"
	"syscall"

	"golang.org/x/term"
)

var terminating = []os.Signal{syscall.SIGTERM}

func (c *console) watch() (stop func()) { return func() {} }

func suspend() {}

func quieter(tty *os.File, before *term.State) func() {
	return func() { _ = term.Restore(int(tty.Fd()), before) }
}
