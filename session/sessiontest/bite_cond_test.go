package sessiontest

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session/driver"
)

// appendAt lets change the place of an append before the sound driver appends.
func (b *broken) appendAt(change func(ref driver.Ref, at driver.Cursor) driver.Cursor) {
	b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
		return b.Driver.Append(ctx, ref, lines, change(ref, at), decide)
	}
}

// end returns the end of a session, 0 if it cannot be read.
func (b *broken) end(ref driver.Ref) (end driver.Cursor) {
	for _, rec := range b.records(ref) {
		end = driver.Cursor(rec.End)
	}
	return end
}

var condMistakes = []mistake{
	{"takes no place for the end that it knows", "append/foreign", func(b *broken) {
		known := map[driver.Ref]driver.Cursor{}
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			if end, ok := known[ref]; ok && at < 0 {
				at = end
			}
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			known[ref] = r.End
			return r, err
		}
	}},
	{"ignores the place", "cond/at", func(b *broken) {
		b.appendAt(func(driver.Ref, driver.Cursor) driver.Cursor { return driver.Anywhere })
	}},
	{"takes a place after the end", "cond/at", func(b *broken) {
		b.appendAt(func(ref driver.Ref, at driver.Cursor) driver.Cursor {
			if at > b.end(ref) {
				return driver.Anywhere
			}
			return at
		})
	}},
	{"takes the beginning for no place", "cond/at", func(b *broken) {
		b.appendAt(func(_ driver.Ref, at driver.Cursor) driver.Cursor {
			if at == 0 {
				return driver.Anywhere
			}
			return at
		})
	}},
	{"looks at the end first", "cond/race", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			if at >= 0 && b.end(ref) != at {
				return driver.Result{}, driver.ErrConflict
			}
			pause()
			return b.Driver.Append(ctx, ref, lines, driver.Anywhere, decide)
		}
	}},
	{"writes what it refuses", "cond/at", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			if errors.Is(err, driver.ErrConflict) {
				_, _ = b.Driver.Append(ctx, ref, lines[:1], driver.Anywhere, nil)
			}
			return r, err
		}
	}},
	{"calls decide first", "decide/called", func(b *broken) { b.decideFirst() }},
	{"decides twice", "decide/called", func(b *broken) {
		b.deciding(func(ctx context.Context, end driver.Cursor, decide decideFunc) ([]driver.Line, error) {
			if _, err := decide(ctx, end); err != nil {
				return nil, err
			}
			return decide(ctx, end)
		})
	}},
	{"decides only without lines", "decide/elsewhere", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			if len(lines) > 0 {
				decide = nil
			}
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
	}},
	{"takes an append of no lines for no call", "decide/none", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			if r.Start == r.End {
				return driver.Result{}, err
			}
			return r, err
		}
	}},
	{"does what decide forbids", "decide/called", func(b *broken) {
		b.deciding(func(ctx context.Context, end driver.Cursor, decide decideFunc) ([]driver.Line, error) {
			lines, _ := decide(ctx, end)
			return lines, nil
		})
	}},
	{"decides beside other appends", "decide/alone", func(b *broken) { b.decideFirst() }},
}

// deciding replaces the call of decide.
func (b *broken) deciding(call func(ctx context.Context, end driver.Cursor, decide decideFunc) ([]driver.Line, error)) {
	b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
		if decide == nil {
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
		return b.Driver.Append(ctx, ref, lines, at, func(ctx context.Context, end driver.Cursor) ([]driver.Line, error) {
			return call(ctx, end, decide)
		})
	}
}

// decideFirst makes Append call decide before it has the session for itself.
func (b *broken) decideFirst() {
	b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
		if decide != nil {
			decided, err := decide(ctx, 0)
			if err != nil {
				return driver.Result{}, err
			}
			lines = decided
		}
		return b.Driver.Append(ctx, ref, lines, at, decide)
	}
}
