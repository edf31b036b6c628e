//go:build race

package session_test

// brief says that long tests do with less, because the race detector makes
// them many times slower.
const brief = true
