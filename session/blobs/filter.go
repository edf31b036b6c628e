package blobs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Options of [Filter]. Nil and zero fields are the defaults.
type Options struct {
	// URL returns the URL that requests use for a blob of an entry. If it is nil or
	// returns "", they contain the bytes. The URL of a blob must not change, or
	// providers no longer find the request in their caches.
	URL func(ctx context.Context, ref session.Ref, entryID string, blob transcript.Blob) string
	// Logger receives a warning for each blob that cannot be shown; nil is silent.
	Logger *slog.Logger
}

// Filter returns the filter that keeps media in b. It goes last in the Filters of a
// store: filters before it see the media. Options may be nil.
func Filter(b Store, opts *Options) session.Filter {
	f := &filter{store: b}
	if opts != nil {
		f.Options = *opts
	}
	f.Logger = cmp.Or(f.Logger, slog.New(slog.DiscardHandler))
	return session.Filter{Write: f.write, Model: f.model, Export: f.export, Sweep: f.sweep}
}

type filter struct {
	Options
	store Store
}

// write returns entries whose media are blobs, which it has stored. A fork gets the
// blobs that its copied lines name.
func (f *filter) write(ctx context.Context, ref session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
	if len(entries) == 0 {
		return entries, nil
	}
	h, isNew := entries[0].Body.(transcript.Header)
	own := 0 // where the entries other than copies begin
	if isNew {
		own = 1 + max(0, min(h.Base.Lines, len(entries)-1))
	}
	named := map[string]bool{}
	for _, e := range entries[:own] {
		addBlobs(named, e)
	}
	var k keeper
	out, err := mapEntries(entries[own:], k.block, k.source)
	if err != nil || len(k.puts)+len(named) == 0 {
		return entries, err
	}
	if m, ok := f.store.(Maker); ok && isNew {
		if err := m.Make(ctx, ref); err != nil {
			return nil, err
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(named)) {
		if err := f.copy(ctx, h.Descent, ref, hash); err != nil {
			return nil, err
		}
	}
	for hash, data := range k.puts {
		if err := f.store.Put(ctx, ref, hash, data); err != nil {
			return nil, err
		}
	}
	return slices.Concat(entries[:own], out), nil
}

// copy copies a blob to a fork from the nearest session of its descent that holds it. If
// none does, the base shows a text instead.
func (f *filter) copy(ctx context.Context, descent []transcript.Link, ref session.Ref, hash string) error {
	for _, base := range slices.Backward(descent) {
		data, err := f.store.Get(ctx, session.Ref{Agent: base.Agent, ID: base.Session}, hash)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.store.Put(ctx, ref, hash, data)
		}
		return err
	}
	return nil
}

// model puts the bytes of blobs, or URLs of them, into a history.
func (f *filter) model(ctx context.Context, ref session.Ref, h *rebuild.History) error {
	l := loader{store: f.store, logger: f.Logger, ctx: ctx, ref: ref, url: f.URL}
	for i := range h.Messages {
		m, own := &h.Messages[i], false // whether the content differs from the session's
		for j, b := range m.Content {
			if !namesBlob(b) {
				continue
			}
			l.entry = ""
			if j < len(m.Origins) {
				l.entry = m.Origins[j].Entry
			}
			got, changed := mapBlocks([]transcript.Block{b}, l.block)
			if l.err != nil {
				return l.err
			}
			if !changed {
				continue
			}
			if !own {
				m.Content, own = slices.Clone(m.Content), true
			}
			m.Content[j] = got[0]
		}
	}
	return nil
}

// export puts the bytes of blobs into the lines of entries, as they would be without
// the filter.
func (f *filter) export(ctx context.Context, ref session.Ref, entries []transcript.Entry) (out []transcript.Entry, err error) {
	l := loader{store: f.store, logger: f.Logger, ctx: ctx, ref: ref}
	if out, err = mapEntries(entries, l.block, nil); l.err != nil {
		err = l.err
	}
	return out, err
}

// sweep removes the blobs that no entry names.
func (f *filter) sweep(ctx context.Context, ref session.Ref, entries iter.Seq2[transcript.Entry, error]) error {
	hashes, err := f.store.List(ctx, ref)
	if err != nil || len(hashes) == 0 {
		return err
	}
	named := map[string]bool{}
	for e, err := range entries {
		if err != nil {
			return err
		}
		addBlobs(named, e)
	}
	return f.store.Delete(ctx, ref, slices.DeleteFunc(hashes, func(hash string) bool { return named[hash] })...)
}

// addBlobs adds the hashes of the blobs that an entry names to a set.
func addBlobs(set map[string]bool, e transcript.Entry) {
	for blob := range transcript.Blobs(e) {
		set[blob.SHA256] = true
	}
}
