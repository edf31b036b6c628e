package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"runtime"
	"slices"
	"strings"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// pause lets others run where a driver must not.
func pause() {
	for range 20 {
		runtime.Gosched()
	}
}

// A mistake is a way in which a driver can be wrong, and the rule that finds
// it.
type mistake struct {
	name, rule string
	make       func(b *broken)
}

var mistakes = slices.Concat(lineMistakes, scanMistakes, sessionMistakes, rowMistakes, lockMistakes, condMistakes, watchMistakes, archiveMistakes, rewriteMistakes, adoptMistakes)

var lineMistakes = []mistake{
	{"loses the last line", "append/contiguous", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			return b.Driver.Append(ctx, ref, lines[:max(0, len(lines)-1)], at, decide)
		}
	}},
	{"appends line by line", "append/contiguous", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (r driver.Result, err error) {
			for i, l := range lines {
				part, err := b.Driver.Append(ctx, ref, []driver.Line{l}, at, nil)
				if err != nil {
					return r, err
				}
				if i == 0 {
					r = part
				}
				r.End = part.End
				pause()
			}
			return r, nil
		}
	}},
	{"sorts lines", "append/lines", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			lines = slices.SortedFunc(slices.Values(lines), func(a, b driver.Line) int { return strings.Compare(b.ID, a.ID) })
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
	}},
	{"escapes text", "append/lines", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			lines = slices.Clone(lines)
			for i := range lines {
				lines[i].Data = []byte(strings.ReplaceAll(string(lines[i].Data), "<", `\u003c`))
			}
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
	}},
	{"counts the newline twice", "append/result", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			r.Start++
			return r, err
		}
	}},
	{"caches what others change", "append/foreign", func(b *broken) {
		var cache []transcript.Record
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			cache = nil
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
		b.rewritten(func(recs []transcript.Record) []transcript.Record {
			if cache == nil {
				cache = recs
			}
			return cache
		})
	}},
	{"stops at 8,192 lines", "append/lines", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record { return recs[:min(len(recs), 8192)] })
	}},
	{"leaves out long lines", "append/lines", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record {
			return slices.DeleteFunc(recs, func(rec transcript.Record) bool { return len(rec.Entry.Line()) > 1<<20 })
		})
	}},
	{"keeps the caller's slices", "append/owned", func(b *broken) {
		b.append = func(_ context.Context, ref driver.Ref, lines []driver.Line, _ driver.Cursor, _ decideFunc) (driver.Result, error) {
			b.shared.lines[ref] = slices.Clone(lines)
			return driver.Result{}, nil
		}
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			_, _ = b.Driver.Append(ctx, ref, b.shared.lines[ref], driver.Anywhere, nil)
			return b.Driver.Scan(ctx, ref, from, dir, keep)
		}
	}},
	{"keeps the caller's labels", "append/owned", func(b *broken) {
		b.put = func(ctx context.Context, row driver.Row) error {
			b.shared.rows[row.Ref()] = row
			return b.Driver.Put(ctx, row)
		}
		b.get = func(ctx context.Context, ref driver.Ref) (driver.Row, error) {
			row, err := b.Driver.Get(ctx, ref)
			if put, ok := b.shared.rows[ref]; ok {
				row.Labels = put.Labels
			}
			return row, err
		}
	}},
}

var scanMistakes = []mistake{
	{"knows one direction", "append/lines", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, _ driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return b.Driver.Scan(ctx, ref, from, driver.Forward, nil)
		}
	}},
	{"never asks about the first line", "scan/keep", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			if keep == nil {
				return b.Driver.Scan(ctx, ref, from, dir, nil)
			}
			header := driver.Cursor(b.records(ref)[0].Offset)
			first := func(at driver.Cursor, lines []byte) bool { return at > header && keep(at, lines) }
			return b.Driver.Scan(ctx, ref, from, dir, first)
		}
	}},
	{"keeps all lines", "scan/keep", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, _ driver.Keep) iter.Seq2[transcript.Record, error] {
			return b.Driver.Scan(ctx, ref, from, dir, nil)
		}
	}},
	{"goes back to the beginning", "scan/cursor", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			if dir == driver.Backward {
				from = 0
			}
			return b.Driver.Scan(ctx, ref, from, dir, keep)
		}
	}},
	{"starts after the cursor's line", "scan/cursor", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			if from > 0 {
				from++
			}
			return b.Driver.Scan(ctx, ref, from, dir, keep)
		}
	}},
	{"counts cursors from the end", "scan/cursor", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record {
			for i := range recs {
				recs[i].Offset, recs[i].End = int64(len(recs)-i), int64(len(recs)-i+1)
			}
			return recs
		})
	}},
	{"drops old lines", "scan/stable", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record { return recs[max(0, len(recs)-1000):] })
	}},
	{"leaves a gap", "scan/prefix", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record {
			b.shared.mu.Lock()
			defer b.shared.mu.Unlock()
			if b.shared.n++; b.shared.n%2 == 0 && len(recs) > 2 {
				recs = slices.Delete(recs, 1, 2)
			}
			return recs
		})
	}},
	{"holds a lock during the loop", "scan/loop", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			b.shared.mu.Lock()
			defer b.shared.mu.Unlock()
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return func(yield func(transcript.Record, error) bool) {
				b.shared.mu.Lock()
				defer b.shared.mu.Unlock()
				b.Driver.Scan(ctx, ref, from, dir, keep)(yield)
			}
		}
	}},
	{"ends a loop that appends", "scan/loop", func(b *broken) {
		appends := 0
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			appends++
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return func(yield func(transcript.Record, error) bool) {
				before := appends
				b.Driver.Scan(ctx, ref, from, dir, keep)(func(rec transcript.Record, err error) bool {
					return before == appends && yield(rec, err)
				})
			}
		}
	}},
	{"goes on after an error", "scan/error", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return func(yield func(transcript.Record, error) bool) {
				for rec, err := range b.Driver.Scan(ctx, ref, from, dir, keep) {
					if !yield(rec, err) || err != nil && !yield(rec, err) {
						return
					}
				}
			}
		}
	}},
	{"reads on after cancel", "scan/context", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			return b.Driver.Scan(context.WithoutCancel(ctx), ref, from, dir, nil)
		}
	}},
	{"settles before the last line", "decide/none", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			res, err := b.Driver.Append(ctx, ref, lines, at, decide)
			if len(lines) == 0 {
				res.End = max(0, res.End-1)
			}
			return res, err
		}
	}},
	{"has nothing to flush", "flush/found", func(b *broken) {
		b.flush = func(context.Context, driver.Ref, bool) error { return errors.New("nothing to flush") }
	}},
}

var sessionMistakes = []mistake{
	{"writes no header", "load/first-line", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record { return recs[min(len(recs), 1):] })
	}},
	{"loads the oldest", "load/existing", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			rows, err := b.Driver.List(ctx, key.Agent, driver.Position{}, 0)
			slices.SortFunc(rows, func(a, b driver.Row) int { return int(a.Gen - b.Gen) })
			for _, row := range rows {
				if row.KeyRef() == key {
					return row, err
				}
			}
			return b.Driver.Load(ctx, key, header)
		}
	}},
	{"looks, then creates", "load/same", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			if row, err := b.Driver.Load(ctx, key, nil); err == nil || header == nil {
				return row, err
			}
			pause()
			return b.Driver.Create(ctx, key, header)
		}
	}},
	{"leaves out all lines but the header", "create/exists", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, _ ...driver.Line) (driver.Row, error) {
			return b.Driver.Create(ctx, key, header)
		}
	}},
	{"keeps the old one current", "create/current", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			rows, err := b.Driver.List(ctx, key.Agent, driver.Position{}, 0)
			slices.SortFunc(rows, func(a, b driver.Row) int { return int(a.Gen - b.Gen) })
			for _, row := range rows {
				if row.KeyRef() == key {
					return row, err
				}
			}
			return driver.Row{}, fs.ErrNotExist
		}
	}},
	{"throws the old one away", "create/current", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			old, err := b.Driver.Load(ctx, key, nil)
			row, createErr := b.Driver.Create(ctx, key, header, more...)
			if err == nil {
				_ = b.Driver.Delete(ctx, driver.Anywhere, old.Ref())
			}
			return row, createErr
		}
	}},
	{"has one gen", "create/current", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			row, err := b.Driver.Create(ctx, key, func(int64) (driver.Row, driver.Line) { return header(1) })
			row.Gen = 1
			return row, err
		}
	}},
	{"asks header before it has a gen", "create/current", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			header(0)
			return b.Driver.Create(ctx, key, header, more...)
		}
	}},
	{"looks for the gen first", "create/gen-race", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			last, _ := b.Driver.Load(ctx, key, nil)
			pause()
			row, err := b.Driver.Create(ctx, key, func(int64) (driver.Row, driver.Line) { return header(last.Gen + 1) })
			row.Gen = last.Gen + 1
			return row, err
		}
	}},
	{"opens what exists", "create/exists", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			row, line := header(1)
			if got, err := b.Driver.Get(ctx, driver.Ref{Agent: key.Agent, ID: row.ID}); err == nil {
				_, err = b.Driver.Append(ctx, got.Ref(), []driver.Line{line}, driver.Anywhere, nil)
				return got, err
			}
			return b.Driver.Create(ctx, key, header, more...)
		}
	}},
	{"looks whether it exists first", "create/exists-race", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			row, _ := header(1)
			_, there := b.Driver.Get(ctx, driver.Ref{Agent: key.Agent, ID: row.ID})
			pause()
			row, err := b.Driver.Create(ctx, key, header, more...)
			if there != nil && errors.Is(err, fs.ErrExist) {
				err = nil
			}
			return row, err
		}
	}},
	{"gives the line no gen", "current/set", func(b *broken) {
		b.setCurrent = func(ctx context.Context, ref driver.Ref, gen int64, line func(int64) driver.Line) (driver.Row, error) {
			return b.Driver.SetCurrent(ctx, ref, gen, func(int64) driver.Line { return line(0) })
		}
	}},
	{"writes no line", "current/set", func(b *broken) {
		b.rewritten(func(recs []transcript.Record) []transcript.Record {
			return slices.DeleteFunc(recs, func(rec transcript.Record) bool { return rec.Entry.Type() == "current" })
		})
	}},
	{"writes a line although there is nothing to do", "current/set", func(b *broken) {
		b.setCurrent = func(ctx context.Context, ref driver.Ref, gen int64, line func(int64) driver.Line) (driver.Row, error) {
			row, err := b.Driver.SetCurrent(ctx, ref, gen, line)
			if err == nil {
				_, err = b.Driver.Append(ctx, ref, []driver.Line{line(row.Gen)}, driver.Anywhere, nil)
			}
			return row, err
		}
	}},
	{"has a row for any key", "load/first-line", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			row, err := b.Driver.Load(ctx, key, header)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return row, err
		}
	}},
	{"lets the newest session of any owner be current", "create/current", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			rows, err := b.Driver.List(ctx, key.Agent, driver.Position{}, 0)
			if len(rows) == 0 {
				return driver.Row{}, cmp.Or(err, fs.ErrNotExist)
			}
			return slices.MaxFunc(rows, func(r, s driver.Row) int { return cmp.Compare(r.Gen, s.Gen) }), err
		}
	}},
	{"loads for no owner", "load/existing", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			key.Owner = ""
			return b.Driver.Load(ctx, key, header)
		}
	}},
	{"counts the sessions of all owners", "create/current", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			rows, _ := b.Driver.List(ctx, key.Agent, driver.Position{}, 0)
			row, err := b.Driver.Create(ctx, key, header, more...)
			row.Gen += int64(len(rows))
			return row, err
		}
	}},
	{"puts owner and key together", "name/key", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			key.Owner, key.Key = "", key.Owner+key.Key
			return b.Driver.Load(ctx, key, header)
		}
	}},
	{"makes every session current", "create/aside", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			return b.Driver.Create(ctx, key, func(gen int64) (driver.Row, driver.Line) {
				row, line := header(gen)
				row.Aside = false
				return row, line
			}, more...)
		}
	}},
	{"deletes the row only", "delete/gone", func(b *broken) {
		b.delete = func(_ context.Context, _ driver.Cursor, refs ...driver.Ref) error {
			ref := refs[0]
			b.shared.refs[ref] = true
			return nil
		}
		b.get = func(ctx context.Context, ref driver.Ref) (driver.Row, error) {
			if b.shared.refs[ref] {
				return driver.Row{}, fs.ErrNotExist
			}
			return b.Driver.Get(ctx, ref)
		}
	}},
	{"forgets the others of the key", "delete/gone", func(b *broken) {
		b.delete = func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
			ref := refs[0]
			b.shared.refs[driver.Ref{Agent: ref.Agent}] = true
			return b.Driver.Delete(ctx, at, ref)
		}
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			if b.shared.refs[driver.Ref{Agent: key.Agent}] {
				return driver.Row{}, fs.ErrNotExist
			}
			return b.Driver.Load(ctx, key, header)
		}
	}},
	{"deletes an ID under all agents", "delete/gone", func(b *broken) {
		b.delete = func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
			ref := refs[0]
			_ = b.Driver.Delete(ctx, driver.Anywhere, driver.Ref{Agent: "other", ID: ref.ID})
			return b.Driver.Delete(ctx, at, ref)
		}
	}},
	{"does not find what it has just deleted", "delete/gone", func(b *broken) {
		b.delete = func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) (err error) {
			for _, ref := range refs {
				err = errors.Join(err, b.Driver.Delete(ctx, at, ref))
			}
			return err
		}
	}},
	{"brings lines back", "delete/anew", func(b *broken) {
		b.delete = func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
			ref := refs[0]
			for _, rec := range b.records(ref)[1:] {
				b.shared.lines[ref] = append(b.shared.lines[ref], driver.Line{ID: rec.Entry.ID, Data: rec.Entry.Line()})
			}
			return b.Driver.Delete(ctx, at, ref)
		}
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			row, err := b.Driver.Create(ctx, key, header, more...)
			_, _ = b.Driver.Append(ctx, row.Ref(), b.shared.lines[row.Ref()], driver.Anywhere, nil)
			return row, err
		}
	}},
	{"takes cursors of a deleted session", "delete/anew", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			if errors.Is(err, driver.ErrReplaced) {
				r, err = b.Driver.Append(ctx, ref, lines, driver.Anywhere, decide)
			}
			return r, err
		}
	}},
}
