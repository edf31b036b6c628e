//go:build unix && !linux

package filelog

import "syscall"

// openFlags keep the open of a FIFO from waiting for its other end.
const openFlags = syscall.O_NONBLOCK
