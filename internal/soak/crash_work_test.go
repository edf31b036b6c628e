//go:build linux && (amd64 || arm64)

package soak_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

var otherKey = session.Key{Agent: "main", Channel: "cli", Peer: "other"}

var workloads = []storetest.Workload{
	{Name: "talk", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText("hello")) },
			func() error { return w.Add(s, storetest.Answer("let me look", "c1", "c2")) },
			func() error { return w.Add(s, transcript.ToolResult("c1", "one"), transcript.ToolResult("c2", "two")) },
			func() error { return w.Add(s, storetest.Answer("done")) },
			w.Stop)
	}},
	{Name: "large", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText(strings.Repeat("0123456789abcde\n", 2<<10))) },
			func() error { return w.Add(s, storetest.Answer("short")) },
			func() error {
				return w.Add(s, transcript.UserText(strings.Repeat("x", 5000)), storetest.Answer(strings.Repeat("y", 5000)))
			},
			w.Stop)
	}},
	{Name: "idempotent", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		keyed := func(key string, again bool) func() error {
			return func() error {
				return w.Step("idem "+key, func(ctx context.Context) error {
					done, err := s.AppendIf(ctx, session.Cond{Idem: key}, transcript.UserText("question "+key), storetest.Answer("answer "+key))
					if err == nil && done.Repeated != again {
						return fmt.Errorf("repeated: %v", done.Repeated)
					}
					return err
				})
			}
		}
		return storetest.Chain(err, keyed("k1", false), keyed("k1", true), keyed("k2", false), w.Stop)
	}},
	{Name: "compact", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		var first []string
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText("the first turn"), storetest.Answer("one")) },
			func() error {
				first = w.IDs
				return w.Add(s, transcript.UserText("the second turn"), storetest.Answer("two"))
			},
			func() error {
				return w.Add(s, transcript.Compaction{Summary: "a summary", FirstKept: w.IDs[0], CoversTo: first[1]})
			},
			func() error { return w.Add(s, transcript.UserText("after it")) },
			w.Stop)
	}},
	{Name: "rewind and clip", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		var to string
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText("keep this")) },
			func() error { to = w.IDs[0]; return w.Add(s, storetest.Answer("not this")) },
			func() error {
				return w.Step("rewind", func(ctx context.Context) error { return s.Rewind(ctx, to) })
			},
			func() error { return w.Add(s, storetest.Answer("", "c")) },
			func() error { return w.Add(s, transcript.ToolResult("c", strings.Repeat("long ", 40))) },
			func() error {
				return w.Add(s, transcript.Clip{Clips: []transcript.Clipping{{Entry: w.IDs[0], Content: "short"}}})
			}, w.Stop)
	}},
	{Name: "hide and show", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		var ids []string
		change := func(name string, f func(context.Context, *session.Session, ...string) ([]string, error)) func() error {
			return func() error {
				return w.Step(name, func(ctx context.Context) error { _, err := f(ctx, s, ids[0]); return err })
			}
		}
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText("look"), storetest.Answer("let me look", "c")) },
			func() error { ids = w.IDs[1:]; return w.Add(s, transcript.ToolResult("c", "one")) },
			func() error { return w.Add(s, storetest.Answer("done")) },
			change("hide", turn.Hide), change("show", turn.Show), change("hide", turn.Hide),
			w.Stop)
	}},
	{Name: "meta", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		meta := func(m transcript.Meta) func() error {
			return func() error {
				return w.Step("meta", func(ctx context.Context) error { return s.SetMeta(ctx, m) })
			}
		}
		return storetest.Chain(err,
			meta(transcript.Meta{Title: new("a title")}),
			func() error { return w.Add(s, transcript.UserText("hi")) },
			meta(transcript.Meta{Labels: []string{"one", "two"}, Keep: new(true)}),
			meta(transcript.Meta{TTL: new(int64(60))}), w.Stop)
	}},
	{Name: "second session", Run: func(w *storetest.Worker) error {
		a, err := w.Begun()
		var b *session.Session
		return storetest.Chain(err,
			func() error { return w.Add(a, transcript.UserText("to the first")) },
			func() (err error) {
				b, err = w.Create(storetest.CLI, &session.CreateOptions{Title: "the second"})
				return err
			},
			func() error { return w.Add(b, transcript.UserText("to the second")) },
			func() error { return w.Step("make current", a.MakeCurrent) },
			func() error { return w.Add(a, transcript.UserText("back again")) },
			w.Stop)
	}},
	{Name: "delete", Run: func(w *storetest.Worker) error {
		a, err := w.Begun()
		var b *session.Session
		remove := func(s **session.Session) func() error {
			return func() error {
				return w.Step("delete", func(ctx context.Context) error { return w.Store.Delete(ctx, (*s).Ref()) })
			}
		}
		return storetest.Chain(err,
			func() error { return w.Add(a, transcript.UserText("first")) },
			func() (err error) { b, err = w.Create(storetest.CLI, nil); return err },
			func() error { return w.Add(b, transcript.UserText("second")) },
			remove(&b),
			func() error { return w.Add(a, transcript.UserText("current again")) },
			remove(&a),
			func() (err error) { a, err = w.Load(storetest.CLI); return err },
			w.Stop)
	}},
	{Name: "archive", Run: func(w *storetest.Worker) error {
		a, err := w.Begun()
		var b *session.Session
		archive := func() error {
			return w.Step("archive", func(ctx context.Context) error { return w.Store.SetState(ctx, a.Ref(), session.Archived, -1) })
		}
		restore := func() error {
			return w.Step("restore", func(ctx context.Context) error { return w.Store.SetState(ctx, a.Ref(), session.Live, -1) })
		}
		return storetest.Chain(err,
			func() error { return w.Add(a, transcript.UserText("first")) },
			func() error { return w.Add(a, storetest.Answer(strings.Repeat("second ", 100))) },
			archive, restore,
			func() error { return w.Add(a, transcript.UserText("third")) },
			archive,
			func() (err error) { b, err = w.Load(storetest.CLI); return err },
			func() error { return w.Add(b, transcript.UserText("another")) },
			func() error {
				return w.Step("delete", func(ctx context.Context) error { return w.Store.Delete(ctx, a.Ref()) })
			},
			w.Stop)
	}},
	{Name: "fork", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		var f *session.Session
		fork := func(from **session.Session, to **session.Session) func() error {
			return func() error {
				id := w.IDs[0]
				return w.Step("fork", func(ctx context.Context) (err error) {
					*to, err = (*from).Fork(ctx, id, nil)
					return err
				})
			}
		}
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText("first")) },
			func() error { return w.Add(s, storetest.Answer("let me look", "c1")) },
			func() error { return w.Add(s, transcript.ToolResult("c1", "one")) },
			fork(&s, &f),
			func() error { return w.Add(s, storetest.Answer("done")) },
			func() error { return w.Add(f, storetest.Answer("another way")) },
			fork(&f, &s),
			func() error {
				return w.Step("delete", func(ctx context.Context) error { return w.Store.Delete(ctx, f.Ref()) })
			},
			w.Stop)
	}},
	{Name: "index", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		return storetest.Chain(err,
			func() error { return w.Add(s, transcript.UserText("one")) },
			w.Stop, w.Start, // reads the index anew
			func() (err error) { s, err = w.Load(otherKey); return err },
			func() error { return w.Add(s, transcript.UserText("two")) },
			func() error {
				return w.Step("delete", func(ctx context.Context) error { return w.Store.Delete(ctx, s.Ref()) })
			},
			w.Stop, w.Start,
			func() (err error) { s, err = w.Load(storetest.CLI); return err },
			func() error { return w.Add(s, transcript.UserText("three")) },
			w.Stop)
	}},
	{Name: "two stores", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		var o *session.Session
		return storetest.Chain(err,
			func() error {
				return w.Step("open", func(ctx context.Context) (err error) {
					w.Other, err = w.Open(w.Dir, w.Options())
					return err
				})
			},
			func() error { return w.Add(s, transcript.UserText("one")) },
			func() error {
				return w.Step("load", func(ctx context.Context) (err error) {
					o, err = w.Other.Load(ctx, storetest.CLI)
					return err
				})
			},
			func() error { return w.Add(o, storetest.Answer("two")) },
			func() error { return w.Add(s, transcript.UserText("three"), storetest.Answer("four")) },
			func() error { return w.Add(o, transcript.UserText("five")) },
			func() error { return w.Step("close", func(context.Context) error { return w.Other.Close() }) },
			w.Stop)
	}},
}
