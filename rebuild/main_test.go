package rebuild_test

import (
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // most of the time goes to short-lived lines
	m.Run()
}
