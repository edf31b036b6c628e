package frameworks_test

import (
	"testing"

	"github.com/convolog/convolog/internal/peerbench"
	"github.com/convolog/convolog/internal/peerbench/testdata/frameworks"
)

var peers = []struct {
	name string
	open peerbench.Opener
}{
	{"langchaingo", frameworks.OpenLangchain},
	{"adk", frameworks.OpenADK},
}

func TestPeers(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) { peerbench.Check(t, p.open) })
	}
}

func BenchmarkPeers(b *testing.B) {
	for _, p := range peers {
		b.Run(p.name, func(b *testing.B) { peerbench.Bench(b, p.open) })
	}
}
