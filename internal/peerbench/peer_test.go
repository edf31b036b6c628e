package peerbench_test

import (
	"testing"

	"github.com/convolog/convolog/internal/peerbench"
)

var peers = []struct {
	name string
	open peerbench.Opener
}{
	{"file", peerbench.OpenFile},
	{"bbolt", openBbolt},
	{"tidwall-wal", openWAL},
	{"sqlite", openSQLite},
}

func TestPeers(t *testing.T) {
	t.Run("convolog", func(t *testing.T) { peerbench.Check(t, peerbench.OpenConvolog) })
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) { peerbench.Check(t, p.open) })
	}
}

func BenchmarkPeers(b *testing.B) {
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) { peerbench.Bench(b, p.open) })
	}
}
