package filelog_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/convolog/convolog/internal/filelog"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		for _, policy := range []filelog.SyncPolicy{filelog.SyncNever, filelog.SyncAlways} {
			b.Run(fmt.Sprintf("%dKiB/%v", size>>10, policy), func(b *testing.B) {
				root, _ := folder(b)
				l := create(b, root, "first\n", &filelog.Options{Sync: policy})
				line := append(bytes.Repeat([]byte("x"), size-1), '\n')
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, _, err := l.Append(b.Context(), filelog.Lines(line)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
