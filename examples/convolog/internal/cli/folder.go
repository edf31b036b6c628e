package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A folder is a backend over a store that this process opens: of files, or in a database.
type folder struct {
	*session.Store
	dir string // empty for a database
}

var _ backend = (*folder)(nil)

func openFolder(ctx context.Context, dir string, readOnly bool, filters ...session.Filter) (*folder, error) {
	store, err := session.Open(dir, storeOptions(dir, readOnly, filters...))
	if err == nil && !readOnly {
		_ = erase.Resume(ctx, store) // doctor reports an erase that cannot be finished, for example on a full disk
	}
	if errors.Is(err, driver.ErrForeign) {
		err = fmt.Errorf("%w\nconvolog inspect %s shows the folder, and convolog convert %s --to native FOLDER makes a store of it", err, dir, dir)
	}
	return &folder{store, dir}, err
}

// storeOptions returns the options for a folder. If the folder contains blobs, they include
// the filter for blobs.
func storeOptions(dir string, readOnly bool, filters ...session.Filter) *session.Options {
	opts := &session.Options{ReadOnly: readOnly, Filters: filters}
	if found, err := filepath.Glob(filepath.Join(dir, "agents", "*", "blobs")); err == nil && len(found) > 0 {
		opts.Filters = append(opts.Filters, blobs.Filter(blobs.Folder(dir), nil))
	}
	return opts
}

func (f *folder) PlanErase(ctx context.Context, what erase.Erasure) (erase.Plan, error) {
	return erase.Preview(ctx, f.Store, what, f.memories()...)
}

func (f *folder) Erase(ctx context.Context, plan erase.Plan) (erase.Receipt, error) {
	return erase.Run(ctx, f.Store, plan, f.memories()...)
}

// memoriesOf opens the memories of a folder. A nil extractor makes none.
func memoriesOf(dir string, extractor memory.Extractor) (*memory.Store, error) {
	return memory.Open(memory.Folder(filepath.Join(dir, "memories")), &memory.Options{Extractor: extractor})
}

// memories returns the memories of the folder, for an erase.
func (f *folder) memories() []transcript.Eraser {
	if f.dir == "" {
		return nil
	}
	m, err := memoriesOf(f.dir, nil)
	if err != nil { // never with a folder
		return nil
	}
	return []transcript.Eraser{m}
}

func (f *folder) create(ctx context.Context, key session.Key, opts session.CreateOptions) (session.Info, error) {
	return described1(ctx)(f.Create(ctx, key, &opts))
}

// described1 returns a function that describes a session, or returns the error.
func described1(ctx context.Context) func(s *session.Session, err error) (session.Info, error) {
	return func(s *session.Session, err error) (session.Info, error) {
		if err != nil {
			return session.Info{}, err
		}
		return s.Info(ctx)
	}
}

func with[T any](ctx context.Context, f *folder, ref session.Ref, do func(*session.Session) (T, error)) (out T, err error) {
	s, err := exchange.Find(ctx, f.Store, ref)
	if err != nil {
		return out, err
	}
	return do(s)
}

func (f *folder) describe(ctx context.Context, ref session.Ref) (described, error) {
	return with(ctx, f, ref, func(s *session.Session) (d described, err error) {
		if d.Pending, err = s.Pending(ctx); err == nil {
			d.Stats, err = memory.ReadStats(ctx, s)
		}
		if err == nil {
			d.Info, err = s.Info(ctx)
		}
		return d, err
	})
}

func (f *folder) add(ctx context.Context, ref session.Ref, role transcript.Role, text string) (session.Appended, error) {
	return with(ctx, f, ref, func(s *session.Session) (session.Appended, error) {
		m := transcript.UserText(text)
		m.Role = role
		return s.AppendIf(ctx, session.Cond{}, m)
	})
}

func (f *folder) commit(ctx context.Context, ref session.Ref) (memory.Committed, error) {
	return with(ctx, f, ref, func(s *session.Session) (memory.Committed, error) {
		return memory.Commit(ctx, s, &memory.CommitOptions{Unanswered: true})
	})
}

func (f *folder) title(ctx context.Context, ref session.Ref, text string) (session.Info, error) {
	return with(ctx, f, ref, func(s *session.Session) (session.Info, error) {
		return described1(ctx)(s, s.SetMeta(ctx, transcript.Meta{Title: &text}))
	})
}

func (f *folder) fork(ctx context.Context, ref session.Ref, entry string, opts session.CreateOptions) (session.Info, error) {
	return with(ctx, f, ref, func(s *session.Session) (session.Info, error) { return described1(ctx)(s.Fork(ctx, entry, &opts)) })
}

func (f *folder) hide(ctx context.Context, ref session.Ref, entries []string, off bool) ([]string, error) {
	return with(ctx, f, ref, func(s *session.Session) ([]string, error) {
		if off {
			return turn.Show(ctx, s, entries...)
		}
		return turn.Hide(ctx, s, entries...)
	})
}

func (f *folder) page(ctx context.Context, ref session.Ref, entry string, n int) ([]transcript.Entry, error) {
	return with(ctx, f, ref, func(s *session.Session) ([]transcript.Entry, error) { return search.Page(ctx, s, entry, n) })
}

func (f *folder) entry(ctx context.Context, ref session.Ref, id string) (transcript.Entry, error) {
	return with(ctx, f, ref, func(s *session.Session) (transcript.Entry, error) { return first(search.Window(ctx, s, id, 0, 0)) })
}

func first(entries []transcript.Entry, err error) (transcript.Entry, error) {
	if err == nil && len(entries) == 0 {
		err = session.ErrNoEntry
	}
	if err != nil {
		return transcript.Entry{}, err
	}
	return entries[0], nil
}

func (f *folder) follow(ctx context.Context, ref session.Ref, after string) iter.Seq2[transcript.Entry, error] {
	return within(ctx, f, ref, func(s *session.Session) iter.Seq2[transcript.Entry, error] { return s.Follow(ctx, after) })
}

func (f *folder) move(ctx context.Context, ref session.Ref, how string) error {
	if how == "trash" {
		return retain.Trash(ctx, f.Store, ref)
	}
	return f.SetState(ctx, ref, map[string]session.State{"archive": session.Archived, "restore": session.Live}[how], -1)
}

func (f *folder) Delete(ctx context.Context, refs ...session.Ref) error {
	return retain.Delete(ctx, f.Store, refs...)
}

func (f *folder) Removals(ctx context.Context) ([]retain.Removal, error) {
	return retain.Removals(ctx, f.Store)
}

func (f *folder) PlanRetention(ctx context.Context, p retain.Policy) (retain.Plan, error) {
	return retain.Preview(ctx, f.Store, p)
}

func (f *folder) Apply(ctx context.Context, plan retain.Plan) (retain.Report, error) {
	return retain.Apply(ctx, f.Store, plan)
}

func (f *folder) Search(ctx context.Context, q search.Query) iter.Seq2[search.Hit, error] {
	return search.Store(ctx, f.Store, q)
}

func (f *folder) searchIn(ctx context.Context, ref session.Ref, q search.Query) iter.Seq2[search.Hit, error] {
	return within(ctx, f, ref, func(s *session.Session) iter.Seq2[search.Hit, error] { return search.Session(ctx, s, q) })
}

// within is like with for a function that returns a sequence.
func within[T any](ctx context.Context, f *folder, ref session.Ref, do func(*session.Session) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		s, err := f.Get(ctx, ref)
		if err != nil {
			yield(*new(T), err)
			return
		}
		do(s)(yield)
	}
}

func (f *folder) decide(ctx context.Context, ref session.Ref, entry string, verdict transcript.Verdict, by, reason string) error {
	_, err := with(ctx, f, ref, func(s *session.Session) (struct{}, error) {
		return struct{}{}, turn.Decide(ctx, s, entry, verdict, by, reason)
	})
	return err
}

func (f *folder) health(ctx context.Context, ref session.Ref) (session.Health, error) {
	return with(ctx, f, ref, func(s *session.Session) (session.Health, error) { return s.Health(ctx) })
}

func (f *folder) export(ctx context.Context, ref session.Ref, as, model string, w io.Writer) error {
	s, err := f.Get(ctx, ref)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	_, err = convert.Export(ctx, s, out, as, model)
	return errors.Join(err, out.Flush())
}

func (f *folder) take(ctx context.Context, _ string, sessions iter.Seq[exchange.Source], opts exchange.ImportOptions, report func(convert.Result) error) error {
	return convert.Into(ctx, f.Store, sessions, opts, report)
}
