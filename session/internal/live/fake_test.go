package live_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A fake is a driver of one process that records its calls, and holds up or fails some.
type fake struct {
	driver.Driver
	hold chan struct{} // an append receives from it first; nil holds none
	fail func(ids []string) error
	scan func() error // called before each scan; nil fails none

	mu     sync.Mutex // guards the fields below
	writes []string   // the IDs of the lines of each append
	puts   []string   // the IDs of rows
	put    error      // of Put
	scans  int
}

func (f *fake) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	var ids []string
	for _, l := range lines {
		ids = append(ids, l.ID)
	}
	f.mu.Lock()
	f.writes = append(f.writes, strings.Join(ids, " "))
	f.mu.Unlock()
	if f.hold != nil {
		<-f.hold
	}
	if f.fail != nil {
		if err := f.fail(ids); err != nil {
			return driver.Result{}, err
		}
	}
	return f.Driver.Append(ctx, ref, lines, at, decide)
}

func (f *fake) Put(ctx context.Context, row driver.Row) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.puts = append(f.puts, row.ID)
	if f.put != nil {
		return f.put
	}
	return f.Driver.Put(ctx, row)
}

func (f *fake) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	f.mu.Lock()
	f.scans++
	f.mu.Unlock()
	if f.scan != nil {
		if err := f.scan(); err != nil {
			return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, err) }
		}
	}
	return f.Driver.Scan(ctx, ref, from, dir, keep)
}

// diskGone is the error of every scan.
func diskGone() error { return errDisk }

// taken returns the writes since the last call.
func (f *fake) taken() (writes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	writes, f.writes = f.writes, nil
	return writes
}

// A process holds sessions in memory, over a fake.
type process struct {
	*live.Table
	*fake
	t testing.TB
	n int // of IDs
}

func newProcess(t testing.TB, drv driver.Driver, change ...func(*live.Options)) *process {
	f := &fake{Driver: drv}
	o := &live.Options{Options: replay.Options{Counter: tokens.Or(nil)}, Driver: f, Idle: 16, Logger: discard}
	for _, c := range change {
		c(o)
	}
	return &process{live.NewTable(o), f, t, 0}
}

// create makes a session.
func (p *process) create(id, owner string) driver.Ref {
	p.t.Helper()
	key := driver.KeyRef{Agent: "main", Owner: owner, Key: "main:cli:" + id}
	_, err := p.Create(p.t.Context(), key, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Time: start, Body: transcript.Header{Version: 1, Key: key.Key, Owner: owner, Gen: gen, Created: start}}
		return driver.Row{ID: id, Agent: "main", Owner: owner, Key: key.Key, Gen: gen, UpdatedAt: start}, live.LineOf(e)
	})
	require.NoError(p.t, err)
	return driver.Ref{Agent: "main", ID: id}
}

var start = time.Unix(1000, 0).UTC()

// job returns an append of one batch of texts with IDs.
func job(t testing.TB, ids ...string) *live.Job {
	j := &live.Job{Ctx: t.Context(), At: start, Rev: live.AnyRev}
	for i, id := range ids {
		body := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(transcript.TextBlock{Text: id})
		e := transcript.Entry{ID: id, Time: start, Body: body}
		switch {
		case i > 0:
			e.Part = i + 1
		case len(ids) > 1:
			e.Batch = len(ids)
		}
		j.Entries = append(j.Entries, e)
	}
	return j
}

// keyed is job with an idempotency key.
func keyed(t testing.TB, key string, ids ...string) *live.Job {
	j := job(t, ids...)
	j.Idem, j.Entries[0].Idem = key, key
	return j
}

// submit writes a job and returns its error.
func (p *process) submit(ref driver.Ref, j *live.Job) error {
	s := p.Acquire(context.Background(), ref)
	defer p.Release(s)
	s.Submit(j)
	return j.Done.Err
}

// begin submits a job in a goroutine. The channel receives its error.
func (p *process) begin(ref driver.Ref, j *live.Job) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.submit(ref, j) }()
	return done
}

// lines returns the IDs of the lines of a session. The header is left out.
func (p *process) lines(ref driver.Ref) string {
	p.t.Helper()
	var ids []string
	for rec, err := range p.Driver.Scan(p.t.Context(), ref, 0, driver.Forward, nil) {
		require.NoError(p.t, err)
		ids = append(ids, rec.Entry.ID)
	}
	return strings.Join(ids[1:], " ")
}

// shown returns the IDs of the history in a process.
func (p *process) shown(ref driver.Ref) string {
	p.t.Helper()
	s := p.Acquire(context.Background(), ref)
	defer p.Release(s)
	var ids []string
	read := func() error {
		return s.Do(func() error {
			err := s.Sync(p.t.Context())
			if err != nil {
				return err
			}
			ids = nil
			for _, m := range s.Fold.History().Messages {
				for _, o := range m.Origins {
					if o.Batch > 0 {
						ids = append(ids, o.Entry)
					}
				}
			}
			return nil
		})
	}
	err := read()
	if errors.Is(err, driver.ErrReplaced) {
		s.Forget()
		err = read()
	}
	require.NoError(p.t, err)
	return strings.Join(slices.Compact(ids), " ")
}

// id returns a new ID.
func (p *process) id() string {
	p.n++
	return fmt.Sprint("e", p.n)
}

// one returns a process with one session.
func one(t testing.TB, change ...func(*live.Options)) (*process, driver.Ref) {
	p := newProcess(t, memdriver.New(nil), change...)
	return p, p.create("s", "")
}
