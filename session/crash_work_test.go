//go:build linux && (amd64 || arm64)

package session_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A worker runs a workload, step by step, on a store in a folder.
type worker struct {
	dir   string
	sync  session.SyncPolicy
	open  opener
	store *session.Store
	other *session.Store // a second one on the folder
	ids   []string       // of the last append
	clock time.Time

	// begin and end are called around each step, end with the error of the
	// call.
	begin func(name string)
	end   func(name string, err error) error
	// try, if not nil, makes the call in their place.
	try func(name string, do func(ctx context.Context) error) error
}

// A workload is a few calls that belong together.
type workload struct {
	name string
	run  func(w *worker) error
}

func (w *worker) options() *session.Options {
	return &session.Options{Sync: w.sync, Now: func() time.Time {
		w.clock = w.clock.Add(time.Second)
		return w.clock
	}}
}

// step makes one call.
func (w *worker) step(name string, do func(ctx context.Context) error) error {
	if w.try != nil {
		return w.try(name, do)
	}
	w.begin(name)
	return w.end(name, do(bg))
}

func (w *worker) start() error {
	return w.step("open", func(context.Context) error {
		st, err := w.open(w.dir, w.options())
		if err == nil {
			w.store = st
		}
		return err
	})
}

func (w *worker) stop() error {
	return w.step("close", func(context.Context) error {
		st := w.store
		w.store = nil
		return st.Close()
	})
}

func (w *worker) load(key session.Key) (s *session.Session, err error) {
	err = w.step("load", func(ctx context.Context) error {
		s, err = w.store.Load(ctx, key)
		return err
	})
	return s, err
}

func (w *worker) create(key session.Key, opts *session.CreateOptions) (s *session.Session, err error) {
	err = w.step("create", func(ctx context.Context) error {
		s, err = w.store.Create(ctx, key, opts)
		return err
	})
	return s, err
}

func (w *worker) add(s *session.Session, items ...transcript.Item) error {
	return w.step("append", func(ctx context.Context) error {
		ids, err := s.Append(ctx, items...)
		w.ids = ids
		return err
	})
}

var (
	crashKey = session.Key{Agent: "main", Channel: "cli", Peer: "user"}
	otherKey = session.Key{Agent: "main", Channel: "cli", Peer: "other"}
	text     = transcript.UserText
)

// begun is how most workloads begin.
func (w *worker) begun() (s *session.Session, err error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	return w.load(crashKey)
}

var workloads = []workload{
	{"talk", func(w *worker) error {
		s, err := w.begun()
		return chain(err,
			func() error { return w.add(s, text("hello")) },
			func() error { return w.add(s, answer("let me look", "c1", "c2")) },
			func() error { return w.add(s, transcript.ToolResult("c1", "one"), transcript.ToolResult("c2", "two")) },
			func() error { return w.add(s, answer("done")) },
			w.stop)
	}},
	{"large", func(w *worker) error {
		s, err := w.begun()
		return chain(err,
			func() error { return w.add(s, text(strings.Repeat("0123456789abcde\n", 2<<10))) },
			func() error { return w.add(s, answer("short")) },
			func() error { return w.add(s, text(strings.Repeat("x", 5000)), answer(strings.Repeat("y", 5000))) },
			w.stop)
	}},
	{"idempotent", func(w *worker) error {
		s, err := w.begun()
		keyed := func(key string, again bool) func() error {
			return func() error {
				return w.step("idem "+key, func(ctx context.Context) error {
					done, err := s.AppendIf(ctx, session.Cond{Idem: key}, text("question "+key), answer("answer "+key))
					if err == nil && done.Repeated != again {
						return fmt.Errorf("repeated: %v", done.Repeated)
					}
					return err
				})
			}
		}
		return chain(err, keyed("k1", false), keyed("k1", true), keyed("k2", false), w.stop)
	}},
	{"compact", func(w *worker) error {
		s, err := w.begun()
		var first []string
		return chain(err,
			func() error { return w.add(s, text("the first turn"), answer("one")) },
			func() error { first = w.ids; return w.add(s, text("the second turn"), answer("two")) },
			func() error {
				return w.add(s, transcript.Compaction{Summary: "a summary", FirstKept: w.ids[0], CoversTo: first[1]})
			},
			func() error { return w.add(s, text("after it")) },
			w.stop)
	}},
	{"rewind and clip", func(w *worker) error {
		s, err := w.begun()
		var to string
		return chain(err,
			func() error { return w.add(s, text("keep this")) },
			func() error { to = w.ids[0]; return w.add(s, answer("not this")) },
			func() error {
				return w.step("rewind", func(ctx context.Context) error { return s.Rewind(ctx, to) })
			},
			func() error { return w.add(s, answer("", "c")) },
			func() error { return w.add(s, transcript.ToolResult("c", strings.Repeat("long ", 40))) },
			func() error {
				return w.add(s, transcript.Clip{Clips: []transcript.Clipping{{Entry: w.ids[0], Content: "short"}}})
			}, w.stop)
	}},
	{"meta", func(w *worker) error {
		s, err := w.begun()
		meta := func(m transcript.Meta) func() error {
			return func() error {
				return w.step("meta", func(ctx context.Context) error { return s.SetMeta(ctx, m) })
			}
		}
		return chain(err,
			meta(transcript.Meta{Title: new("a title")}),
			func() error { return w.add(s, text("hi")) },
			meta(transcript.Meta{Owner: new("somebody"), Labels: []string{"one", "two"}, Pinned: new(true)}),
			meta(transcript.Meta{TTL: new(int64(60))}), w.stop)
	}},
	{"second session", func(w *worker) error {
		a, err := w.begun()
		var b *session.Session
		return chain(err,
			func() error { return w.add(a, text("to the first")) },
			func() (err error) {
				b, err = w.create(crashKey, &session.CreateOptions{Title: "the second"})
				return err
			},
			func() error { return w.add(b, text("to the second")) },
			func() error { return w.step("make current", a.MakeCurrent) },
			func() error { return w.add(a, text("back again")) },
			w.stop)
	}},
	{"delete", func(w *worker) error {
		a, err := w.begun()
		var b *session.Session
		remove := func(s **session.Session) func() error {
			return func() error {
				return w.step("delete", func(ctx context.Context) error { return w.store.Delete(ctx, (*s).Ref()) })
			}
		}
		return chain(err,
			func() error { return w.add(a, text("first")) },
			func() (err error) { b, err = w.create(crashKey, nil); return err },
			func() error { return w.add(b, text("second")) },
			remove(&b),
			func() error { return w.add(a, text("current again")) },
			remove(&a),
			func() (err error) { a, err = w.load(crashKey); return err },
			w.stop)
	}},
	{"archive", func(w *worker) error {
		a, err := w.begun()
		var b *session.Session
		archive := func() error {
			return w.step("archive", func(ctx context.Context) error { return w.store.Archive(ctx, a.Ref()) })
		}
		restore := func() error {
			return w.step("restore", func(ctx context.Context) error { return w.store.Restore(ctx, a.Ref()) })
		}
		return chain(err,
			func() error { return w.add(a, text("first")) },
			func() error { return w.add(a, answer(strings.Repeat("second ", 100))) },
			archive, restore,
			func() error { return w.add(a, text("third")) },
			archive,
			func() (err error) { b, err = w.load(crashKey); return err },
			func() error { return w.add(b, text("another")) },
			func() error {
				return w.step("delete", func(ctx context.Context) error { return w.store.Delete(ctx, a.Ref()) })
			},
			w.stop)
	}},
	{"fork", func(w *worker) error {
		s, err := w.begun()
		var f *session.Session
		fork := func(from **session.Session, to **session.Session) func() error {
			return func() error {
				id := w.ids[0]
				return w.step("fork", func(ctx context.Context) (err error) {
					*to, err = (*from).Fork(ctx, id, nil)
					return err
				})
			}
		}
		return chain(err,
			func() error { return w.add(s, text("first")) },
			func() error { return w.add(s, answer("let me look", "c1")) },
			func() error { return w.add(s, transcript.ToolResult("c1", "one")) },
			fork(&s, &f),
			func() error { return w.add(s, answer("done")) },
			func() error { return w.add(f, answer("another way")) },
			fork(&f, &s),
			func() error {
				return w.step("delete", func(ctx context.Context) error { return w.store.Delete(ctx, f.Ref()) })
			},
			w.stop)
	}},
	{"index", func(w *worker) error {
		s, err := w.begun()
		return chain(err,
			func() error { return w.add(s, text("one")) },
			w.stop, w.start, // reads the index anew
			func() (err error) { s, err = w.load(otherKey); return err },
			func() error { return w.add(s, text("two")) },
			func() error {
				return w.step("delete", func(ctx context.Context) error { return w.store.Delete(ctx, s.Ref()) })
			},
			w.stop, w.start,
			func() (err error) { s, err = w.load(crashKey); return err },
			func() error { return w.add(s, text("three")) },
			w.stop)
	}},
	{"two stores", func(w *worker) error {
		s, err := w.begun()
		var o *session.Session
		return chain(err,
			func() error {
				return w.step("open", func(ctx context.Context) (err error) {
					w.other, err = w.open(w.dir, w.options())
					return err
				})
			},
			func() error { return w.add(s, text("one")) },
			func() error {
				return w.step("load", func(ctx context.Context) (err error) {
					o, err = w.other.Load(ctx, crashKey)
					return err
				})
			},
			func() error { return w.add(o, answer("two")) },
			func() error { return w.add(s, text("three"), answer("four")) },
			func() error { return w.add(o, text("five")) },
			func() error { return w.step("close", func(context.Context) error { return w.other.Close() }) },
			w.stop)
	}},
}
