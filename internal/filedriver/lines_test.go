package filedriver_test

import (
	"fmt"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// keyed returns a batch of n lines under an idempotency key.
func keyed(key string, n int) []driver.Line {
	lines := make([]driver.Line, n)
	for i := range lines {
		e := transcript.Entry{ID: fmt.Sprint(key, i), Part: i + 1, Body: transcript.Custom{Name: "note", Data: []byte(`1`)}}
		if i == 0 {
			e.Part, e.Idem, e.IdemHash = 0, key, "hash"
			if n > 1 {
				e.Batch = n
			}
		}
		lines[i] = driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
	}
	return lines
}

func notes(n int) []driver.Line {
	lines := make([]driver.Line, n)
	for i := range lines {
		lines[i] = note(fmt.Sprint("n", i))
	}
	return lines
}
