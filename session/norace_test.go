//go:build !race

package session_test

// brief says that long tests do with less.
const brief = false
