package convlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/transcript"
)

// A Writer appends to channel logs and cannot read them: give it to the part of a program
// that talks to a channel. It is safe for several goroutines, and several processes may
// write the same logs.
type Writer struct {
	root *os.Root
	opts Options

	mu     sync.Mutex // guards the fields below
	chats  map[Channel]*chat
	closed bool

	appends sync.WaitGroup // running appends; no append begins once closed is set
}

// A chat is the log of one channel while it is in use.
type chat struct {
	users int // guarded by the Writer's mu

	mu   sync.Mutex // held while the file is opened
	log  *filelog.Log
	seen recent // guarded by the append lock of log
}

// maxChats is the number of logs above which a log is closed when its last user is done.
const maxChats = 64

// OpenWriter returns a writer for the logs in the folder of a store.
func OpenWriter(dir string, opts *Options) (*Writer, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{root: root, chats: map[Channel]*chat{}}
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Now == nil {
		w.opts.Now = time.Now
	}
	return w, nil
}

var errRepeated = errors.New("some entries are already in the log")

// Append adds entries to the log of a channel, and creates the log if it is missing. It does not
// write an entry again whose MessageID is among the last 4,096 IDs of the log; of a newly opened
// log it knows the IDs in the last 4 MiB. A nil error means that all other entries are stored by
// the policy of [Options].Sync. After an error no entry is stored, except after a
// [*driver.NotDurableError]. Then the entries may be stored, and the next append to the channel
// first copies the log to new blocks. After a crash the log may contain only the first entries.
func (w *Writer) Append(ctx context.Context, c Channel, entries ...Entry) error {
	if err := c.check(); err != nil {
		return err
	}
	t, err := w.acquire(c)
	if err != nil {
		return err
	}
	defer w.release(c, t)
	for {
		log, err := w.open(t, c)
		if err == nil && log.Failed() != nil {
			err = log.Recover(ctx)
		}
		if err != nil {
			return fmt.Errorf("convlog: %w", err)
		}
		err = w.add(ctx, log, t, c, entries)
		if !errors.Is(err, filelog.ErrReplaced) && !errors.Is(err, filelog.ErrClosed) {
			return err
		}
		t.forget(log) // an erase replaced the log, or it is closed; nothing was written
	}
}

// forget closes a log whose file was replaced.
func (t *chat) forget(log *filelog.Log) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == log {
		t.log = nil
		_ = log.Close() // its unsynced entries are in the new file
	}
}

func (w *Writer) add(ctx context.Context, log *filelog.Log, t *chat, c Channel, entries []Entry) error {
	known := map[string]bool{}
	now := w.opts.Now()
	for {
		var lines []byte
		fresh := map[string]bool{}
		for _, e := range entries {
			e.MessageID = strings.ToValidUTF8(e.MessageID, "\uFFFD") // as on the line
			if e.MessageID != "" && (known[e.MessageID] || fresh[e.MessageID]) {
				continue
			}
			if e.Time.IsZero() {
				e.Time = now
			}
			line, err := c.encode(e)
			if err != nil {
				return err
			}
			if e.MessageID != "" {
				fresh[e.MessageID] = true
			}
			lines = append(lines, line...)
		}
		if len(lines) == 0 {
			return log.Flush(ctx) // the entries that are already in the log may not be durable yet
		}
		_, _, err := log.Append(ctx, func(end int64) ([]byte, error) {
			if err := t.seen.catchUp(log, end); err != nil {
				return nil, err
			}
			var repeated error
			for id := range fresh {
				if t.seen.has[id] {
					known[id], repeated = true, errRepeated
				}
			}
			return lines, repeated
		})
		if !errors.Is(err, errRepeated) {
			return err
		}
	}
}

// Close closes all logs. It waits for running appends.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	w.appends.Wait()
	var errs []error
	for _, t := range w.chats {
		if t.log != nil {
			errs = append(errs, t.log.Close())
		}
	}
	return errors.Join(append(errs, w.root.Close())...)
}

func (w *Writer) acquire(c Channel) (*chat, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("convlog: the writer is closed: nothing was written: %w", fs.ErrClosed)
	}
	t := w.chats[c]
	if t == nil {
		t = &chat{}
		w.chats[c] = t
	}
	t.users++
	w.appends.Add(1)
	return t, nil
}

func (w *Writer) release(c Channel, t *chat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.appends.Done()
	if t.users--; t.users > 0 {
		return
	}
	if len(w.chats) > maxChats {
		delete(w.chats, c)
		if t.log != nil {
			_ = t.log.Close() // appends reported all errors
		}
	}
}

func (w *Writer) open(t *chat, c Channel) (*filelog.Log, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log != nil {
		return t.log, nil
	}
	dir := folder(c.Agent)
	if err := filelog.MakeFolders(w.root, dir); err != nil {
		return nil, err
	}
	opts := &filelog.Options{Sync: w.opts.Sync}
	name := dir + "/" + c.file()
	for {
		log, err := filelog.Open(w.root, name, opts)
		if errors.Is(err, fs.ErrNotExist) {
			log, err = filelog.Create(w.root, name, []byte(firstLine), opts)
		}
		if errors.Is(err, fs.ErrExist) {
			continue // another process was faster
		}
		if err == nil {
			t.log, t.seen = log, recent{has: map[string]bool{}}
		}
		return log, err
	}
}

// firstLine is the first line of a new log, as a log cannot be created empty. It is not an
// entry.
const firstLine = "{}\n"

// recent holds the message IDs of the last entries of a log.
type recent struct {
	upTo int64 // the offset up to which the log was read
	list []string
	has  map[string]bool
}

// maxRecent is the number of IDs to keep. recentBytes is the largest part of a log that is
// read for IDs at once.
const (
	maxRecent   = 4096
	recentBytes = 4 << 20
)

// catchUp reads the IDs that any process appended before the offset end.
func (r *recent) catchUp(log *filelog.Log, end int64) error {
	from := max(r.upTo, end-recentBytes) // if it is inside a line, Scan skips that line
	for rec, err := range transcript.Scan(log, end, &transcript.ScanOptions{From: from, Final: true, Decode: decode}) {
		if err != nil {
			return err
		}
		if !rec.HasEntry() {
			continue
		}
		if e, _ := parse(rec.Entry.Line()); e.MessageID != "" && !r.has[e.MessageID] {
			r.has[e.MessageID] = true
			r.list = append(r.list, e.MessageID)
		}
	}
	for len(r.list) > maxRecent {
		delete(r.has, r.list[0])
		r.list = r.list[1:]
	}
	r.upTo = end
	return nil
}
