package filedriver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/convolog/convolog/internal/blockgzip"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Scan implements [driver.Driver].
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return records(func(yield func(transcript.Record) bool) (err error) {
		in, size, end, err := d.beginScan(ctx, ref)
		if err != nil {
			return err
		}
		defer func() { err = end(err) }()
		opts := &transcript.ScanOptions{From: int64(from)}
		if d.opts.ReadOnly && dir != driver.Live {
			size, opts.Final = tail(ctx, in, size, in.Wait)
		}
		scan := transcript.Scan
		if dir == driver.Backward {
			scan = transcript.ScanBackward
		}
		return d.scanDecided(ctx, scan, in, size, dir, opts, yield)
	})
}

// records returns what scan yields, and at the end the error of scan.
func records(scan func(yield func(transcript.Record) bool) error) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		stopped := false
		err := scan(func(rec transcript.Record) bool {
			stopped = !yield(rec, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(transcript.Record{}, err)
		}
	}
}

// scanDecided scans the lines up to size that will stay what they are. Where lines of
// an append are missing, or something is damaged, it takes the append lock for a moment
// to learn what stays. If it cannot, a whole append behind them decides.
func (d *Driver) scanDecided(ctx context.Context, scan scanner, in source, size int64, dir driver.Direction, opts *transcript.ScanOptions, yield func(transcript.Record) bool) error {
	u := undecided{backward: dir == driver.Backward}
	for {
		stopped := false
		err := d.scanAll(ctx, scan, in, size, dir, opts, func(rec transcript.Record) bool {
			if !u.backward && len(u.held) > 0 && rec.Offset <= u.held[0].Offset {
				u.held = u.held[:0] // the file was cut, and what is held with it
			}
			goesOn := u.take(rec, func(rec transcript.Record) bool {
				stopped = !yield(rec)
				return !stopped
			})
			if !u.backward && len(u.held) > 0 {
				opts.From = u.held[0].Offset // nothing behind it was given
			}
			return goesOn
		})
		if ends := len(u.held) > 0 && dir != driver.Live; err != nil || stopped || u.trusting || !u.asking && !ends {
			return err
		}
		end, err := in.Wait(ctx)
		u = undecided{backward: u.backward, all: err == nil, trusting: err != nil}
		if err == nil {
			size = end
		}
	}
}

// tailWait is how long a reader waits for the append that may be writing the last line.
// A reader that gives up goes on without that line, so it need not wait for long: a
// writer that was stopped must not hold it up.
const tailWait = 10 * time.Millisecond

// briefly waits with a log, which is open, for at most tailWait.
func briefly(ctx context.Context, l *filelog.Log, wait func(*filelog.Log, context.Context) (int64, error)) (int64, error) {
	short, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	return wait(l, short)
}

// tail looks at the end of a transcript of size bytes. If that is not the end of a
// line, it waits for the append that may be writing it, and returns where wait says
// that the transcript ends then. Final says that nobody is writing the line before end, so
// its bytes stay what they are whatever is appended; without it somebody may be.
func tail(ctx context.Context, in io.ReaderAt, size int64, wait func(context.Context) (int64, error)) (end int64, final bool) {
	if endsLine(in, size) {
		return size, false
	}
	if end, err := wait(ctx); err == nil && end >= size {
		return end, true
	}
	return size, false
}

// endsLine reports whether the first size bytes of a transcript end with a line, or
// cannot be read, which a scan finds too.
func endsLine(r io.ReaderAt, size int64) bool {
	var last [1]byte
	if size == 0 {
		return true
	}
	n, _ := r.ReadAt(last[:], size-1)
	return n < 1 || last[0] == '\n'
}

type scanner func(in io.ReaderAt, size int64, opts *transcript.ScanOptions) iter.Seq2[transcript.Record, error]

// scanAll scans the lines up to size, or to where the source ends if it becomes
// shorter, as it does when a failed append is taken back.
func (d *Driver) scanAll(ctx context.Context, scan scanner, in source, size int64, dir driver.Direction, opts *transcript.ScanOptions, yield func(transcript.Record) bool) error {
	for try := 1; ; try++ {
		err := d.scanTo(ctx, scan, in, size, dir, opts, yield)
		if !errors.Is(err, io.ErrUnexpectedEOF) || try == tries {
			return err
		}
		now, sizeErr := in.Size() // the same if somebody has tried the append again
		if sizeErr != nil {
			return err
		}
		size, opts.Final = now, false // others have written since
	}
}

// scanTo scans the lines up to size. Forward, opts.From moves behind each line that
// was given; backward, all that was given lies behind the end if that has moved.
func (d *Driver) scanTo(ctx context.Context, scan scanner, in io.ReaderAt, size int64, dir driver.Direction, opts *transcript.ScanOptions, yield func(transcript.Record) bool) error {
	if opts.From > size {
		return fmt.Errorf("%w: it has %d bytes, and %d were read before", filelog.ErrReplaced, size, opts.From)
	}
	line := int64(-1)
	for rec, err := range scan(in, size, opts) {
		if err != nil {
			return err
		}
		// A loop that goes on at a cursor must have seen all records of a line
		// or none, so a closed driver ends it between two lines.
		if rec.End != line {
			if err := d.enter(ctx); err != nil {
				return err
			}
			d.ops.Done()
		}
		line = rec.End
		if dir != driver.Backward {
			opts.From = line
		}
		if !yield(rec) {
			return nil
		}
	}
	return nil
}

// beginScan returns what the lines of a session are read from, in use until end
// is called with the error of the scan, and its size. It is a call of its own: Close waits for it,
// and not for the loop body between two records.
func (d *Driver) beginScan(ctx context.Context, ref driver.Ref) (in source, size int64, end func(error) error, err error) {
	err = d.on(ctx, ref, func(a *agent) error {
		o, err := a.acquire(ref)
		if err != nil {
			return err
		}
		in, end = used{o.log}, func(err error) error { return a.cause(ref, d.logs.release(o, err)) }
		if size, err = o.log.Size(); err != nil {
			return end(err)
		}
		return nil
	})
	if !errors.Is(err, driver.ErrArchived) {
		return in, size, end, err
	}
	o, err := d.openToRead(ctx, ref)
	if err != nil {
		return nil, 0, nil, err
	}
	return o, o.size, func(err error) error {
		o.close()
		if errors.Is(err, filelog.ErrReplaced) {
			err = fmt.Errorf("%w: %w", driver.ErrReplaced, err)
		}
		return err
	}, nil
}

// A source is what lines are read from: a log, or what was opened to be read.
type source interface {
	io.ReaderAt
	Size() (int64, error) // now
	// Wait waits out an append in progress, for at most tailWait, and returns the size
	// then.
	Wait(ctx context.Context) (int64, error)
}

// A used log is a source.
type used struct{ *filelog.Log }

// Wait implements [source].
func (u used) Wait(ctx context.Context) (int64, error) {
	return briefly(ctx, u.Log, (*filelog.Log).Wait)
}

// An opened is a transcript or an archive that was opened to be read.
type opened struct {
	io.ReaderAt
	file *os.File
	size int64      // of the transcript, when it was opened
	row  driver.Row // of an archive; the ID is empty if it has none
	a    *agent
	id   string // of a transcript; empty if nobody can be writing
}

// Size implements [source].
func (o *opened) Size() (int64, error) {
	if o.ReaderAt != o.file {
		return o.size, nil
	}
	info, err := o.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Wait implements [source].
func (o *opened) Wait(ctx context.Context) (int64, error) { return o.ask(ctx, (*filelog.Log).Wait) }

// settle waits as Wait does, and ends what a dead writer left.
func (o *opened) settle(ctx context.Context) (int64, error) { return o.ask(ctx, (*filelog.Log).Settle) }

// ask calls do with the log of the transcript, unless nobody can be writing.
func (o *opened) ask(ctx context.Context, do func(*filelog.Log, context.Context) (int64, error)) (int64, error) {
	if o.id == "" {
		return o.size, nil
	}
	l, err := o.a.acquire(driver.Ref{Agent: o.a.name, ID: o.id})
	if err != nil {
		return 0, err
	}
	end, err := briefly(ctx, l.log, do)
	return end, o.a.d.logs.release(l, err)
}

func (o *opened) close() { _ = o.file.Close() } // only read

// open opens a transcript or an archive.
func (a *agent) open(f found) (*opened, error) {
	root := a.sess
	if f.archived {
		root = a.root
	}
	file, info, err := filelog.OpenFile(root, f.file)
	if err != nil {
		return nil, err
	}
	o := &opened{ReaderAt: file, file: file, size: info.Size(), a: a}
	if !f.archived {
		o.id = f.id
		return o, nil
	}
	fail := func(err error) error {
		return a.d.wrap("read archive", a.path(f), err, "restore the file from a copy")
	}
	if err := a.unzip(o); err != nil {
		o.close()
		return nil, fail(err)
	}
	o.ReaderAt = &failing{o.ReaderAt, fail}
	return o, nil
}

// A failing reader says with fail why it cannot be read.
type failing struct {
	io.ReaderAt
	fail func(error) error
}

// ReadAt implements [io.ReaderAt].
func (r *failing) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.fail(err)
	}
	return n, err
}

// unzip makes o what the archive holds that it was opened on.
func (a *agent) unzip(o *opened) error {
	z, err := blockgzip.Open(o.file, o.size)
	if err != nil {
		return err
	}
	o.ReaderAt, o.size = z, z.Size()
	note, err := blockgzip.ReadNote(o.file)
	if err == nil && len(note) > 0 {
		err = json.Unmarshal(note, &o.row)
	}
	if err != nil || o.row.ID == "" {
		return err
	}
	if o.row.Size != o.size {
		return fmt.Errorf("it has %d bytes of a transcript that had %d", o.size, o.row.Size)
	}
	o.row.Agent = cmp.Or(a.name, o.row.Agent)
	o.row.Archived = true
	return nil
}

// openToRead opens the transcript of a session, or its archive.
func (d *Driver) openToRead(ctx context.Context, ref driver.Ref) (o *opened, err error) {
	err = d.on(ctx, ref, func(a *agent) error {
		for range tries {
			f, err := a.stat(ref.ID)
			if err != nil {
				return err
			}
			if o, err = a.open(f); !errors.Is(err, fs.ErrNotExist) { // else it was archived or restored in between
				return a.cause(ref, err)
			}
		}
		return d.notFound(ref)
	})
	return o, err
}
