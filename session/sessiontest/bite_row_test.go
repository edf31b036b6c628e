package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var rowMistakes = []mistake{
	{"has a stale gen", "row/put", func(b *broken) {
		b.get = func(ctx context.Context, ref driver.Ref) (driver.Row, error) {
			row, err := b.Driver.Get(ctx, ref)
			row.Gen = 1
			return row, err
		}
	}},
	{"has no column for it", "row/put", func(b *broken) {
		b.put = func(ctx context.Context, row driver.Row) error {
			row.TTL = 0
			return b.Driver.Put(ctx, row)
		}
	}},
	{"counts bytes of compressed lines", "row/put", func(b *broken) {
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			rows, err := b.Driver.List(ctx, agent, after, n)
			for i := range rows {
				rows[i].Bytes /= 2
			}
			return rows, err
		}
	}},
	{"keeps what is empty", "row/put", func(b *broken) {
		b.put = func(ctx context.Context, row driver.Row) error {
			if old, err := b.Driver.Get(ctx, row.Ref()); err == nil && row.Title == "" {
				row.Title = old.Title
			}
			return b.Driver.Put(ctx, row)
		}
	}},
	{"replaces the gen", "row/kept", func(b *broken) {
		b.put = func(ctx context.Context, row driver.Row) error {
			b.shared.mu.Lock()
			b.shared.rows[row.Ref()] = row
			b.shared.mu.Unlock()
			return b.Driver.Put(ctx, row)
		}
		b.get = func(ctx context.Context, ref driver.Ref) (driver.Row, error) {
			row, err := b.Driver.Get(ctx, ref)
			b.shared.mu.Lock()
			defer b.shared.mu.Unlock()
			if put, ok := b.shared.rows[ref]; ok {
				row.Gen = put.Gen
			}
			return row, err
		}
	}},
	{"lists only what is current", "row/page", func(b *broken) {
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			rows, err := b.Driver.List(ctx, agent, after, n)
			return slices.DeleteFunc(rows, func(row driver.Row) bool {
				current, err := b.Driver.Load(ctx, row.KeyRef(), nil)
				return err == nil && current.ID != row.ID
			}), err
		}
	}},
	{"takes rows for complete", "row/stale", func(b *broken) {
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			rows, err := b.Driver.List(ctx, agent, after, n)
			for i := range rows {
				rows[i].Stale = false
			}
			return rows, err
		}
	}},
	{"takes rows for incomplete", "row/stale", func(b *broken) {
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			rows, err := b.Driver.List(ctx, agent, after, n)
			for i := range rows {
				rows[i].Stale = true
			}
			return rows, err
		}
	}},
	{"does not sort", "row/agents", func(b *broken) {
		b.listAgents(func(rows []driver.Row) []driver.Row {
			slices.Reverse(rows)
			return rows
		})
	}},
	{"keeps empty agents", "row/agents", func(b *broken) {
		b.listAgents(func(rows []driver.Row) (all []driver.Row) {
			b.shared.mu.Lock()
			defer b.shared.mu.Unlock()
			for _, row := range rows {
				b.shared.names[row.Agent] = true
			}
			for _, name := range slices.Sorted(maps.Keys(b.shared.names)) {
				all = append(all, driver.Row{Agent: name})
			}
			return all
		})
	}},
	{"folds case of agents", "name/ref", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			key.Agent = strings.ToLower(key.Agent)
			return b.Driver.Create(ctx, key, header, more...)
		}
	}},
	{"cuts long keys", "name/key", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			key.Key = key.Key[:min(len(key.Key), 255)]
			return b.Driver.Load(ctx, key, header)
		}
	}},
	{"has a default agent", "name/bad", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			key.Agent = cmp.Or(key.Agent, "main")
			return b.Driver.Create(ctx, key, header, more...)
		}
	}},
	{"mixes agents up", "name/ref", func(b *broken) {
		b.get = func(ctx context.Context, ref driver.Ref) (driver.Row, error) {
			return b.Driver.Get(ctx, driver.Ref{Agent: "main", ID: ref.ID})
		}
	}},
	{"makes IDs fit", "name/bad", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			return b.Driver.Create(ctx, key, func(gen int64) (driver.Row, driver.Line) {
				row, line := header(gen)
				row.ID = strings.ReplaceAll(row.ID, "/", "_")
				return row, line
			})
		}
	}},
	{"has an error of its own for bad IDs", "name/bad", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			res, err := b.Driver.Append(ctx, ref, lines, at, decide)
			if _, ok := errors.AsType[*driver.NameError](err); ok {
				err = fs.ErrNotExist
			}
			return res, err
		}
	}},
	{"prints long IDs in full", "name/bad", func(b *broken) {
		b.get = func(ctx context.Context, ref driver.Ref) (driver.Row, error) {
			row, err := b.Driver.Get(ctx, ref)
			if err != nil {
				err = fmt.Errorf("%q: %w", ref.ID, err)
			}
			return row, err
		}
	}},
	{"lists agents that cannot be", "name/bad", func(b *broken) {
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			if driver.CheckAgent(agent) != nil {
				return nil, nil
			}
			return b.Driver.List(ctx, agent, after, n)
		}
	}},
	{"looks any key up", "name/bad", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			if driver.CheckKey(key) != nil {
				return driver.Row{}, fs.ErrNotExist
			}
			return b.Driver.Load(ctx, key, header)
		}
	}},
}

// lockMistakes concern turns, contexts and Close.
var lockMistakes = []mistake{
	{"has no turn lock", "turn/exclusive", func(b *broken) {
		b.lockTurn = func(context.Context, driver.Ref, bool) (func() error, error) {
			pause()
			return func() error { return nil }, nil
		}
	}},
	{"releases another one's lock", "turn/release", func(b *broken) {
		b.lockTurn = func(context.Context, driver.Ref, bool) (func() error, error) {
			select {
			case b.shared.turn <- struct{}{}:
			default:
				return nil, driver.ErrBusy
			}
			return func() error {
				select {
				case <-b.shared.turn:
				default:
				}
				return nil
			}, nil
		}
	}},
	{"has one lock for all", "turn/independent", func(b *broken) {
		b.lockTurn = func(context.Context, driver.Ref, bool) (func() error, error) {
			select {
			case b.shared.turn <- struct{}{}:
				return func() error { <-b.shared.turn; return nil }, nil
			default:
				return nil, driver.ErrBusy
			}
		}
	}},
	{"says conflict", "turn/release", func(b *broken) {
		b.lockTurn = func(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
			release, err := b.Driver.LockTurn(ctx, ref, wait)
			if err != nil {
				err = driver.ErrConflict
			}
			return release, err
		}
	}},
	{"does not say busy", "turn/wait", func(b *broken) {
		b.lockTurn = func(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
			release, err := b.Driver.LockTurn(ctx, ref, wait)
			if err != nil && wait {
				err = ctx.Err()
			}
			return release, err
		}
	}},
	{"does not wait", "turn/wait", func(b *broken) {
		b.lockTurn = func(ctx context.Context, ref driver.Ref, _ bool) (func() error, error) {
			return b.Driver.LockTurn(ctx, ref, false)
		}
	}},
	{"asks the context first", "turn/wait", func(b *broken) {
		b.lockTurn = func(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return b.Driver.LockTurn(ctx, ref, wait)
		}
	}},
	{"flushes what is not there", "call/missing", func(b *broken) {
		b.flush = func(context.Context, driver.Ref, bool) error { return nil }
	}},
	{"creates what is not there", "call/missing", func(b *broken) {
		b.put = func(ctx context.Context, row driver.Row) error {
			_, err := b.Driver.Create(ctx, row.KeyRef(), func(int64) (driver.Row, driver.Line) { return row, driver.Line{} })
			return err
		}
	}},
	{"writes after cancel", "call/cancelled", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			return b.Driver.Append(context.WithoutCancel(ctx), ref, lines, at, decide)
		}
	}},
	{"ignores Close", "close/methods", func(b *broken) { b.close = func() error { return nil } }},
	{"says nothing after Close", "close/scan", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return func(yield func(transcript.Record, error) bool) {
				for rec, err := range b.Driver.Scan(ctx, ref, from, dir, keep) {
					if errors.Is(err, driver.ErrClosed) || !yield(rec, err) {
						return
					}
				}
			}
		}
	}},
	{"goes on after Close", "close/loop", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return func(yield func(transcript.Record, error) bool) {
				var records []transcript.Record
				for rec, err := range b.Driver.Scan(ctx, ref, from, dir, keep) {
					if err != nil {
						yield(rec, err)
						return
					}
					records = append(records, rec)
				}
				for _, rec := range records {
					if !yield(rec, nil) {
						return
					}
				}
			}
		}
	}},
	{"says busy when it is closed", "close/turn", func(b *broken) {
		b.lockTurn = func(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
			release, err := b.Driver.LockTurn(ctx, ref, wait)
			if errors.Is(err, driver.ErrClosed) {
				err = driver.ErrBusy
			}
			return release, err
		}
	}},
	{"loses what is under way", "close/wait", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			b.shared.mu.Lock()
			defer b.shared.mu.Unlock()
			if b.shared.n++; errors.Is(err, driver.ErrClosed) && !b.shared.refs[ref] {
				b.shared.refs[ref], err = true, nil
			}
			return r, err
		}
	}},
	{"keeps rows in memory", "row/put", func(b *broken) {
		var put []driver.Row
		b.put = func(_ context.Context, row driver.Row) error {
			put = append(put, row)
			return nil
		}
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			rows, err := b.Driver.List(ctx, agent, after, n)
			for i := range rows {
				for _, row := range put {
					if row.Ref() == rows[i].Ref() {
						row.Gen = rows[i].Gen
						rows[i] = row
					}
				}
			}
			return rows, err
		}
	}},
	{"goes on behind a time, not a place", "row/page", func(b *broken) {
		b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
			after.ID = ""
			return b.Driver.List(ctx, agent, after, n)
		}
	}},
}

// listAgents passes the rows of agents from List through change.
func (b *broken) listAgents(change func([]driver.Row) []driver.Row) {
	b.list = func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
		rows, err := b.Driver.List(ctx, agent, after, n)
		if agent == "" {
			rows = change(rows)
		}
		return rows, err
	}
}
