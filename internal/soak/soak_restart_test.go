package soak_test

import (
	"crypto/sha256"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/transcript"
)

// uuids are the IDs of entries, which differ between runs.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// byBytes is the number of tokens in a byte of JSON. So all entry IDs count the
// same.
type byBytes float64

// Count implements tokens.Counter.
func (b byBytes) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	n := len(system)
	for _, t := range tools {
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	for _, m := range msgs {
		for _, block := range m.Content {
			n += 16 + len(transcript.MarshalBlock(block))
		}
	}
	return int(float64(n) * float64(b))
}

// A conversation that continues in another process before every single request
// sends the same bytes as one that is never interrupted: calibrations and
// failures of the summarizer are also in the transcript.
func TestSoakRestarts(t *testing.T) {
	t.Parallel()
	turns := storetest.Extent(*storetest.Soak, 12, 90, 90)
	both := []string{"adversarial", "lossy"}
	for _, name := range storetest.Extent(*storetest.Soak, both[:1], both, both) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(between func(k *soaked)) (sent [][32]byte, k *soaked) {
				k = newSoak(t, 16_000)
				k.g.Window = 0
				k.opts.Compact.Trigger.Window = 24_000 // more than there is
				k.model.Counter, k.g.Counter, k.opts.Counter = byBytes(.3), byBytes(.25), byBytes(.25)
				k.opts.Compact.Summarizer = k.summarizer(name)
				k.model.seen = func(body []byte) {
					sent = append(sent, sha256.Sum256(uuids.ReplaceAll(body, []byte("ID"))))
				}
				k.begin()
				k.run(turns, func() {
					if between != nil {
						between(k)
					}
				})
				return sent, k
			}
			want, once := run(nil)
			got, k := run((*soaked).restart)
			t.Logf("%d requests, %d compactions, %d overflows, %d summaries refused", len(want), once.report.Compactions, once.report.Asked.Overflows, once.report.Failures)
			if once.report.Compactions < 2 || once.report.Asked.Overflows == 0 || k.report.Restarts == 0 {
				t.Error("nothing has happened that a restart could forget")
			}
			for i := range min(len(want), len(got)) {
				if want[i] != got[i] {
					t.Fatalf("request %d of %d is another one after a restart", i+1, len(want))
				}
			}
			require.Len(t, got, len(want))
		})
	}
}
