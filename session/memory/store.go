package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/filename"
)

// Options configure a [Store]. With the zero value it learns no memories.
type Options struct {
	// Extractor is called by [Store.Extract]. Without it Extract only finishes
	// begun work.
	Extractor Extractor
	// Decider decides the fate of candidates. Nil compares words, of any script, and
	// needs no service: a candidate is already known if each of its lines is; it is
	// merged with a memory of the same topic, or with one whose first line has mostly the
	// same words. The newer text goes first. In a memory that a person edited it goes
	// last, and the first line stays.
	Decider Decider
	// Shared gives the cases and patterns of an agent to all of its owners. The words of
	// one owner can get into the conversations of others.
	Shared bool
	// Timeout is how long Extractor and Decider together may take for one commit; 0
	// means five minutes, less than 0 no limit. Repeated decisions, about memories that
	// changed, get as long again. When the time is up, words decide the rest.
	Timeout time.Duration
	// Index also finds memories without any word of a query; it may be nil. It
	// learns of every memory that is written or removed; see [Store.Reindex].
	Index Index
	// Redact returns the form of a text to store, for texts and topics of candidates and
	// for memories that Add gets. Nil stores them unchanged. It is the hook of
	// [session.Redact], redact.Secrets of package transcript/redact for example.
	Redact func(ctx context.Context, text string) string
	// Now is the clock; nil is [time.Now].
	Now func() time.Time
}

const defaultTimeout = 5 * time.Minute

// A Store keeps memories in a [Storage]. It is safe for several goroutines, and
// several Stores, in as many processes, may use one Storage if their Options.Shared
// is the same. It needs no Close.
type Store struct {
	files  Storage
	opts   Options
	recent *recent

	announce func(string) // for tests: called before each write
}

// Open returns the Store that keeps its files in a [Storage], [Folder] for example.
// It reads and writes nothing yet.
func Open(files Storage, opts *Options) (*Store, error) {
	if files == nil {
		return nil, errors.New("memory: no storage to open")
	}
	if opts == nil {
		opts = new(Options)
	}
	m := &Store{opts: *opts, recent: new(recent), announce: func(string) {}}
	m.files = noticed{files, opts.Index, m.recent}
	if m.opts.Decider == nil {
		m.opts.Decider = lexical{}
	}
	if m.opts.Now == nil {
		m.opts.Now = time.Now
	}
	if m.opts.Redact == nil {
		m.opts.Redact = func(_ context.Context, text string) string { return text }
	}
	m.opts.Timeout = cmp.Or(m.opts.Timeout, defaultTimeout)
	return m, nil
}

// List returns the memories of a scope in the order of their files, the owner's first.
// A file that cannot be read yields an error, and the loop may continue. List takes no
// lock: it yields the old or the new text of a memory that is being written. The
// sequence may be ranged over again.
func (m *Store) List(ctx context.Context, scope Scope) iter.Seq2[Memory, error] {
	return func(yield func(Memory, error) bool) {
		files, err := m.placed(ctx, scope)
		if err != nil {
			yield(Memory{}, fmt.Errorf("memory: list: %w", err))
			return
		}
		known := map[string]bool{}
		for _, f := range files {
			mem, err := m.read(ctx, scope, f.category, f.Name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // just removed
			}
			if err == nil && known[mem.ID] {
				mem.ID = fileID(f.Name) // a copy
			}
			known[mem.ID] = true
			if !yield(mem, err) {
				return
			}
		}
	}
}

// placed is a file with its category.
type placed struct {
	File
	category Category
}

// placed returns the files of all memories of a scope. In the folder of the profile,
// which contains the others, one file is the profile: its name is from OpenViking's
// documents, or from its program.
func (m *Store) placed(ctx context.Context, scope Scope) (list []placed, err error) {
	if err := scope.check(); err != nil {
		return nil, err
	}
	of := map[string]Category{} // by folder
	for _, c := range categories {
		of[scope.folder(c, m.opts.Shared)] = c
	}
	hasProfile := false
	for _, c := range []Category{profile, cases} {
		base := scope.base(c, m.opts.Shared)
		if base == "" {
			continue
		}
		files, err := m.files.List(ctx, base)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			c, ok := of[path.Dir(f.Name)]
			if !ok || path.Ext(f.Name) != extension {
				continue
			}
			if name := path.Base(f.Name); c == profile {
				if hasProfile || name != profileName+extension && name != "profile"+extension {
					continue
				}
				hasProfile = true
			}
			list = append(list, placed{f, c})
		}
	}
	return list, nil
}

func (m *Store) read(ctx context.Context, scope Scope, c Category, name string) (Memory, error) {
	data, err := m.files.Read(ctx, name)
	if err != nil {
		return Memory{}, err
	}
	if len(data) > maxMemory {
		return Memory{}, fmt.Errorf("memory: %s has %d bytes, more than %d; shorten the file or move it away", name, len(data), maxMemory)
	}
	if !utf8.Valid(data) { // a merge would replace an unreadable text
		return Memory{}, fmt.Errorf("memory: %s is not in UTF-8; save it in that encoding or move it away", name)
	}
	mem := parse(name, data)
	mem.Scope, mem.Category, mem.URI = scope, c, uriOf(c, name)
	return mem, nil
}

// Get returns a memory by its ID or its URI. If it is missing the error matches
// [fs.ErrNotExist].
func (m *Store) Get(ctx context.Context, scope Scope, id string) (Memory, error) {
	var failed error
	for mem, err := range m.List(ctx, scope) {
		if err != nil {
			failed = cmp.Or(failed, err)
		} else if mem.ID == id || mem.URI == id {
			return mem, nil
		}
	}
	if failed == nil {
		failed = fmt.Errorf("memory: no memory %q of owner %q and agent %q: %w", id, scope.Owner, scope.Agent, fs.ErrNotExist)
	}
	return Memory{}, failed
}

// Add keeps a Markdown memory that another program or a person wrote, for example one that
// dialect.ReadFolder found: in a category under a name, which the profile does not need.
// Options.Redact may change the text. It counts as edited. Adding the same again does nothing; if
// another memory has the name, the error matches [fs.ErrExist]. When the error is nil, the memory
// is on stable storage.
func (m *Store) Add(ctx context.Context, scope Scope, c Category, name, text string) (Memory, error) {
	fail := func(err error) (Memory, error) {
		return Memory{}, fmt.Errorf("memory: add %s %q: nothing was written: %w", c, name, err)
	}
	folder := scope.folder(c, m.opts.Shared)
	base := profileName
	if c != profile {
		base = filename.Encode(name)
	}
	file := path.Join(folder, base+extension)
	text = m.opts.Redact(ctx, text)
	switch err := scope.check(); {
	case err != nil:
		return fail(err)
	case !c.valid() || folder == "":
		return fail(errors.New("there is no such category in the scope"))
	case c != profile && name == "":
		return fail(errors.New("the name is empty"))
	case len(text) > maxMemory || !utf8.ValidString(text):
		return fail(fmt.Errorf("the text is not UTF-8, or exceeds %d bytes", maxMemory))
	}
	unlock, err := m.lock(ctx, scope)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	if err = m.files.Create(ctx, file, []byte(text)); errors.Is(err, fs.ErrExist) {
		if data, readErr := m.files.Read(ctx, file); readErr == nil && string(data) == text {
			err = nil
		}
	}
	if err != nil {
		return fail(err)
	}
	return m.read(ctx, scope, c, file)
}

// Delete removes a memory, by its ID or its URI. It stays away until a later commit
// teaches it again. The diffs of its commits still contain it: use [Store.Erase] if
// nothing may be left. For a missing memory the error matches [fs.ErrNotExist].
func (m *Store) Delete(ctx context.Context, scope Scope, id string) error {
	if err := scope.check(); err != nil {
		return fmt.Errorf("memory: delete: %w", err)
	}
	unlock, err := m.lock(ctx, scope)
	if err != nil {
		return err
	}
	defer unlock()
	mem, err := m.Get(ctx, scope, id)
	if err != nil {
		return err
	}
	return m.files.Remove(ctx, mem.file)
}

// lock takes the locks of a scope: of the owner, then of the agent if its memories
// are shared.
func (m *Store) lock(ctx context.Context, scope Scope) (unlock func(), err error) {
	owner, err := m.files.Lock(ctx, ownerFolder(scope.Owner))
	if err != nil || !m.opts.Shared || scope.Agent == "" {
		return owner, err
	}
	agent, err := m.files.Lock(ctx, agentFolder(scope.Agent))
	if err != nil {
		owner()
		return nil, err
	}
	return func() { agent(); owner() }, nil
}
