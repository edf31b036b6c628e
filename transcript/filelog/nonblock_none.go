//go:build !unix && !windows

package filelog

const openFlags = 0
