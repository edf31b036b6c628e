package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A Target is an output for sessions.
type Target interface {
	// Write writes the sessions of a file or a folder, and reports on each, until report
	// returns an error.
	Write(ctx context.Context, name string, sessions iter.Seq[exchange.Source], report func(Result) error) error
	Close() error
}

// each writes sessions one by one.
func each(sessions iter.Seq[exchange.Source], write func(exchange.Source, *Result) error, report func(Result) error) error {
	for s := range sessions {
		r := Of(s.Info())
		if err := write(s, &r); err != nil {
			r.fail(fmt.Errorf("%s: %w", cmp.Or(s.Info().Path, s.Info().ID), err))
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// programFormats are the programs whose files a job writes.
var programFormats = []string{
	string(dialect.MiniClaw), string(dialect.Claw0), string(dialect.ZyHive), string(dialect.OpenViking),
	string(dialect.Pi), string(dialect.ClaudeCode), string(dialect.Codex),
}

// documents are the formats of one file for each session, other than [Requests].
var documents = map[string]struct {
	ext   string
	write func(context.Context, *session.Session, io.Writer) error
}{"jsonl": {".jsonl", exchange.Lines}, "markdown": {".md", exchange.Markdown}, "html": {".html", exchange.HTML}}

// Requests are the formats of model requests.
var Requests = map[string]exchange.Renderer{
	"anthropic": anthropic.Format{}, "openai-chat": openaichat.Format{}, "openai-responses": openairesponses.Format{},
	"gemini": gemini.Format{}, "bedrock": bedrock.Format{},
}

// Documents returns the formats that [Export] writes.
func Documents() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(slices.Collect(maps.Keys(documents)), maps.Keys(Requests))))
}

// Export writes a session as a document, and returns the number of changes for a provider.
func Export(ctx context.Context, s *session.Session, w io.Writer, format, model string) (int, error) {
	if r, ok := Requests[format]; ok {
		report, err := exchange.Request(ctx, s, w, r, transcript.Request{Model: model})
		return len(report), err
	}
	return 0, documents[format].write(ctx, s, w)
}

func formats() []string {
	return slices.Sorted(slices.Values(slices.Concat([]string{string(dialect.Native)}, programFormats, Documents())))
}

func (j Job) target() (Target, error) {
	switch {
	case j.to == string(dialect.Native):
		return newStore(j)
	case j.isProgram():
		return newProgram(j)
	}
	f, err := openFolder(j)
	return documentFolder{f, j, map[string]bool{}}, err
}

// A store is a target that imports sessions into a store.
type store struct {
	*session.Store
	opts exchange.ImportOptions
}

func newStore(j Job) (Target, error) {
	opts := j.Import
	opts.DryRun = j.dry
	if _, err := os.Stat(j.dir); j.dry && errors.Is(err, fs.ErrNotExist) {
		return store{session.OpenDriver(memdriver.New(nil), nil), opts}, nil
	}
	open := j.Open
	if open == nil {
		open = func(dir string, readOnly bool) (*session.Store, error) {
			return session.Open(dir, &session.Options{ReadOnly: readOnly})
		}
	}
	st, err := open(j.dir, j.dry)
	if err != nil {
		return nil, err
	}
	return store{st, opts}, nil
}

// softLimit is the memory in bytes above which a process that imports collects garbage more
// often: most copies of a line of 60 MB are garbage soon.
const softLimit = 256 << 20

// Into imports sessions into a store, and calls each with every result as soon as it is
// there, until that returns an error. The error is the first of each, or of an import that
// has no results.
func Into(ctx context.Context, st *session.Store, sessions iter.Seq[exchange.Source], opts exchange.ImportOptions, each func(Result) error) error {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT is not set
		debug.SetMemoryLimit(softLimit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts.Done = func(im exchange.Imported) {
		if err := each(imported(im)); err != nil {
			cancel(err)
		}
	}
	reports, err := exchange.Import(ctx, st, sessions, &opts)
	if err != nil && (len(reports) == 0 || ctx.Err() != nil) {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// Write implements [Target].
func (st store) Write(ctx context.Context, _ string, sessions iter.Seq[exchange.Source], report func(Result) error) error {
	return Into(ctx, st.Store, sessions, st.opts, report)
}

// through imports a session into a new store in memory, and calls f with it. The result
// adds the losses of the import to the losses of f.
func through(ctx context.Context, s exchange.Source, opts *exchange.ImportOptions, f func(*session.Session) (dialect.Losses, error)) (lost dialect.Losses, err error) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { err = errors.Join(err, st.Close()) }()
	report, err := exchange.Import(ctx, st, slices.Values([]exchange.Source{s}), opts)
	if len(report) > 0 {
		err = report[0].Err
	}
	if err != nil {
		return nil, err
	}
	own, err := st.Get(ctx, report[0].Session)
	if err != nil {
		return nil, err
	}
	lost, err = f(own)
	all := maps.Clone(report[0].Lost)
	for what, n := range lost {
		all[what] = max(all[what], n) // import and f may count the same loss
	}
	return all, err
}

// Lines returns the lines of the session that an import makes of a source, and the losses
// of that import.
func Lines(ctx context.Context, s exchange.Source) ([]byte, dialect.Losses, error) {
	var lines bytes.Buffer
	lost, err := through(ctx, s, nil, func(own *session.Session) (dialect.Losses, error) {
		return nil, exchange.Lines(ctx, own, &lines)
	})
	return lines.Bytes(), lost, err
}

// A folder creates files and never overwrites a file.
type folder struct {
	root *os.Root // nil in a dry run if the folder is missing
	dry  bool
	made *[]string // the files and folders, in order
}

func openFolder(j Job) (folder, error) {
	if _, err := os.Stat(j.dir); j.dry && errors.Is(err, fs.ErrNotExist) {
		return folder{dry: true}, nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return folder{}, err
	}
	root, err := os.OpenRoot(j.dir)
	return folder{root, j.dry, new([]string)}, err
}

func (f folder) create(name string) (w io.WriteCloser, err error) {
	if f.dry {
		w = nothing{io.Discard}
		if f.root != nil {
			if _, there := f.root.Lstat(name); there == nil {
				err = &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
			}
		}
	} else if err = f.mkdir(path.Dir(name)); err == nil {
		if w, err = f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			*f.made = append(*f.made, name)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: files are never overwritten; choose an empty folder", err)
	}
	return w, err
}

// mkdir makes a folder and the folders above it.
func (f folder) mkdir(name string) error {
	err := f.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err = f.mkdir(path.Dir(name)); err == nil {
			err = f.root.Mkdir(name, 0o700)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		*f.made = append(*f.made, name)
	}
	return err
}

// undo removes the files and folders that this job has made. A folder in which another
// program has put a file stays.
func (f folder) undo() (err error) {
	if f.dry {
		return nil
	}
	for _, name := range slices.Backward(*f.made) {
		failed := f.root.Remove(name)
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) && !errors.Is(failed, fs.ErrExist) { // ErrExist: it is not empty
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Close implements [Target].
func (f folder) Close() error {
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

type nothing struct{ io.Writer }

func (nothing) Close() error { return nil }

// A program is a target that writes the files of another program, all of them or none.
type program struct {
	folder
	w      *dialect.Writer
	opts   exchange.ImportOptions
	failed error // of the first file that could not be written, or of the context
}

func (j Job) isProgram() bool { return slices.Contains(programFormats, j.to) }

func newProgram(j Job) (Target, error) {
	f, err := openFolder(j)
	if err != nil {
		return nil, err
	}
	w, err := dialect.NewWriter(dialect.Dialect(j.to), f.create)
	return &program{folder: f, w: w, opts: j.Import}, err
}

// Write implements [Target].
func (p *program) Write(ctx context.Context, _ string, sessions iter.Seq[exchange.Source], report func(Result) error) error {
	all := sessions
	sessions = func(yield func(exchange.Source) bool) {
		for s := range all {
			if p.failed != nil || !yield(s) {
				return
			}
		}
	}
	return each(sessions, func(s exchange.Source, r *Result) (err error) {
		r.Lost, err = through(ctx, s, &p.opts, func(own *session.Session) (lost dialect.Losses, err error) {
			lost, p.failed = exchange.Export(ctx, own, p.w, s.Info())
			return lost, p.failed
		})
		p.failed = cmp.Or(p.failed, ctx.Err())
		return err
	}, report)
}

// Close implements [Target].
func (p *program) Close() error {
	if p.failed == nil {
		p.failed = p.w.Close()
	}
	if p.failed != nil {
		p.failed = errors.Join(fmt.Errorf("no file was left in the folder: %w", p.failed), p.undo())
	}
	return errors.Join(p.failed, p.folder.Close())
}

// documentFolder is a target that writes a file for each session, named after the session's ID.
type documentFolder struct {
	folder
	job   Job
	taken map[string]bool
}

// Write implements [Target].
func (f documentFolder) Write(ctx context.Context, _ string, sessions iter.Seq[exchange.Source], report func(Result) error) error {
	return each(sessions, func(s exchange.Source, r *Result) error { return f.one(ctx, s, r) }, report)
}

func (f documentFolder) one(ctx context.Context, s exchange.Source, r *Result) (err error) {
	r.Lost, err = through(ctx, s, &f.job.Import, func(own *session.Session) (dialect.Losses, error) {
		r.File = f.name(s.Info().ID, own.Ref().ID)
		w, err := f.create(r.File)
		if err != nil {
			return nil, err
		}
		n, err := Export(ctx, own, w, f.job.to, f.job.model)
		lost := dialect.Losses{}
		if n > 0 {
			lost["changed for this provider"] = n
		}
		if err = errors.Join(err, w.Close()); err != nil && !f.dry {
			err = errors.Join(err, f.root.Remove(r.File)) // an incomplete file must not look complete
		}
		return lost, err
	})
	return err
}

// name returns a file name made of the ID, or of other if the ID is not a valid name. It
// adds a number if an earlier session took the name.
func (f documentFolder) name(id, other string) string {
	safe := strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, id), "-_")
	if safe != id || len(id) > 100 || !filepath.IsLocal(id) { // not local: empty, or a device of Windows
		id = other
	}
	name := id
	for n := 2; f.taken[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s-%d", id, n)
	}
	f.taken[strings.ToLower(name)] = true
	return name + cmp.Or(documents[f.job.to].ext, ".json")
}
