package dialect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

// A clock in a zone decides about times without a zone, and about no others.
func TestInZone(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for in, want := range map[string]bool{
		`"2026-02-24T10:00:00.123456"`: true, `"2026-02-24 10:00:00"`: true, `"2026-02-24T10:00"`: true,
		`"2026-02-24T10:00:00Z"`: false, `"2026-02-24T10:00:00+00:00"`: false, `1771927200`: false, `"..."`: false,
	} {
		read := read(t, dialect.MiniClaw, `{"type":"user","content":"x","ts":`+in+`}`)[0].Entry.Time
		moment, ok := dialect.InZone(read, zone)
		require.Equal(t, want, ok, in)
		if ok {
			require.Equal(t, time.Hour, read.Sub(moment), in)
		} else {
			require.Equal(t, read, moment, in)
		}
	}
}
