package sessiontest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// appendAfter lets decide answer, or change the condition, before the sound
// driver appends.
func (b *broken) appendAfter(decide func(ref driver.Ref, cond *driver.Cond) (driver.Result, error)) {
	b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
		if r, err := decide(ref, &cond); err != nil || r.Repeated {
			return r, err
		}
		return b.Driver.Append(ctx, ref, lines, cond)
	}
}

// found returns the first place of an idempotency key, whole batch or not.
func (b *broken) found(ref driver.Ref, key string) (r driver.Result) {
	recs := b.records(ref)
	for i, rec := range recs {
		if e := rec.Entry; key != "" && e.Idem == key {
			batch := recs[i:min(len(recs), i+max(1, e.Batch))]
			r = driver.Result{Start: driver.Cursor(rec.Offset), End: driver.Cursor(batch[len(batch)-1].End), Repeated: true}
			for _, rec := range batch {
				r.IDs = append(r.IDs, rec.Entry.ID)
			}
			return r
		}
	}
	return r
}

func (b *broken) head(ref driver.Ref) string {
	for _, rec := range slices.Backward(b.records(ref)) {
		if transcript.IsHead(rec.Entry.Type()) {
			return rec.Entry.ID
		}
	}
	return driver.NoHead
}

func (b *broken) conflicts(ref driver.Ref, cond driver.Cond) bool {
	return slices.ContainsFunc(b.records(ref), func(rec transcript.Record) bool {
		return rec.Offset >= int64(cond.Base) && slices.Contains(cond.Conflicts, rec.Entry.Type())
	})
}

var condMistakes = []mistake{
	{"takes no Head for none", "cond/zero", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if cond.Head == "" {
				cond.Head = driver.NoHead
			}
			return r, err
		})
	}},
	{"ignores Head", "cond/head", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			cond.Head = ""
			return r, err
		})
	}},
	{"takes the last line for the head", "cond/head", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if recs := b.records(ref); cond.Head != "" && recs[len(recs)-1].Entry.ID != cond.Head {
				return r, driver.ErrConflict
			}
			cond.Head = ""
			return r, err
		})
	}},
	{"ignores NoHead", "cond/no-head", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if cond.Head == driver.NoHead {
				cond.Head = ""
			}
			return r, err
		})
	}},
	{"looks at the head first", "cond/head-race", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if cond.Head != "" && b.head(ref) != cond.Head {
				return r, driver.ErrConflict
			}
			pause()
			cond.Head = ""
			return r, err
		})
	}},
	{"writes what it refuses", "cond/nothing", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, cond)
			if errors.Is(err, driver.ErrConflict) {
				_, _ = b.Driver.Append(ctx, ref, lines[:1], driver.Cond{})
			}
			return r, err
		}
	}},
	{"takes a key for all conditions", "cond/all", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if cond.Idem != "" {
				cond.Head, cond.Conflicts = "", nil
			}
			return r, err
		})
	}},
	{"ignores keys", "idem/repeat", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			cond.Idem = ""
			return r, err
		})
	}},
	{"looks at the head before the key", "idem/repeat", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if cond.Head != "" && b.head(ref) != cond.Head {
				return r, driver.ErrConflict
			}
			return r, err
		})
	}},
	{"keeps keys in memory", "idem/repeat", func(b *broken) {
		known := map[string]bool{}
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if key := cond.Idem; !known[key] {
				known[key], cond.Idem = true, ""
			}
			return r, err
		})
	}},
	{"ignores the hash", "idem/mismatch", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, cond)
			if errors.Is(err, driver.ErrIdemMismatch) {
				return b.found(ref, cond.Idem), nil
			}
			return r, err
		}
	}},
	{"looks at 1,000 lines", "idem/far", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			recs, at := b.records(ref), b.found(ref, cond.Idem)
			if at.Repeated && recs[len(recs)-1].Offset-int64(at.Start) >= 1000 {
				cond.Idem = ""
			}
			return r, err
		})
	}},
	{"finds keys of incomplete batches", "idem/incomplete", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			return b.found(ref, cond.Idem), nil
		})
	}},
	{"finds keys of other sessions", "idem/other-session", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
			if r, ok := b.shared.keys[cond.Idem]; ok {
				return r, nil
			}
			r, err := b.Driver.Append(ctx, ref, lines, cond)
			b.shared.keys[cond.Idem] = driver.Result{Start: r.Start, End: r.End, Repeated: true, IDs: r.IDs}
			return r, err
		}
	}},
	{"looks for the key first", "idem/race", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			r = b.found(ref, cond.Idem)
			pause()
			cond.Idem = ""
			return r, nil
		})
	}},
	{"ignores Conflicts", "conflicts/after", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			cond.Conflicts = nil
			return r, err
		})
	}},
	{"ignores Base", "conflicts/after", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			cond.Base = 0
			return r, err
		})
	}},
	{"looks for conflicts first", "conflicts/race", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if b.conflicts(ref, *cond) {
				return r, driver.ErrConflict
			}
			pause()
			cond.Conflicts = nil
			return r, err
		})
	}},
	{"passes over damaged lines", "cond/damaged", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			intact := slices.DeleteFunc(slices.Clone(b.records(ref)), func(rec transcript.Record) bool {
				return !checksum.Intact(rec.Entry.Line())
			})
			if last := intact[len(intact)-1].Entry.ID; cond.Head != "" && cond.Head != driver.NoHead && cond.Head != last {
				return r, driver.ErrConflict
			}
			return r, err
		})
	}},
	{"appends a damaged batch again", "cond/damaged", func(b *broken) {
		b.appendAfter(func(ref driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if recs := b.records(ref); len(recs) > 1 && !checksum.Intact(recs[1].Entry.Line()) {
				cond.Idem = ""
			}
			return r, err
		})
	}},
	{"ignores Decide", "decide/called", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			cond.Decide = nil
			return r, err
		})
	}},
	{"calls Decide first", "decide/called", func(b *broken) { b.appendAfter(decideFirst) }},
	{"does what Decide forbids", "decide/fails", func(b *broken) {
		b.appendAfter(func(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
			if decide := cond.Decide; decide != nil {
				cond.Decide = func(ctx context.Context, at driver.Cursor) ([]driver.Line, error) {
					lines, _ := decide(ctx, at)
					return lines, nil
				}
			}
			return r, err
		})
	}},
	{"calls Decide beside other appends", "decide/alone", func(b *broken) { b.appendAfter(decideFirst) }},
}

// decideFirst calls Decide before the append.
func decideFirst(_ driver.Ref, cond *driver.Cond) (r driver.Result, err error) {
	if cond.Decide == nil {
		return r, nil
	}
	lines, err := cond.Decide(context.Background(), 0)
	cond.Decide = func(context.Context, driver.Cursor) ([]driver.Line, error) { return lines, nil }
	return r, err
}
