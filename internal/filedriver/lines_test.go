package filedriver_test

import (
	"context"
	"fmt"

	"github.com/convolog/convolog/internal/filedriver"
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
		lines[i] = driver.Line{ID: e.ID, Data: e.Line()}
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

// settle ends a line that a dead writer has left, and returns the end of the session.
func settle(ctx context.Context, d *filedriver.Driver, ref driver.Ref) (driver.Cursor, error) {
	res, err := d.Append(ctx, ref, nil, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) { return nil, nil })
	return res.End, err
}

// endOf returns the place after the last line of a session, archived or not.
func endOf(ctx context.Context, d *filedriver.Driver, ref driver.Ref) (end driver.Cursor, err error) {
	for rec, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
		if err != nil {
			return 0, err
		}
		end = driver.Cursor(rec.End)
	}
	return end, nil
}

// agentsOf returns the names of the agents that have sessions.
func agentsOf(ctx context.Context, d *filedriver.Driver) (names []string, err error) {
	rows, err := d.List(ctx, "", driver.Position{}, 0)
	for _, row := range rows {
		names = append(names, row.Agent)
	}
	return names, err
}
