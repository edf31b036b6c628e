package peerbench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
)

// file is the baseline with the least work. Each conversation is a file that stays open,
// without a lock, an index or a check of its end.
type file struct {
	dir   string
	level Level
	mu    sync.Mutex // guards open
	open  map[string]*os.File
}

// OpenFile opens a folder of bare files.
func OpenFile(dir string, level Level) (Peer, error) {
	return &file{dir: dir, level: level, open: map[string]*os.File{}}, nil
}

func (f *file) file(conversation string) (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.open[conversation]; o != nil {
		return o, nil
	}
	o, err := os.OpenFile(filepath.Join(f.dir, conversation+".jsonl"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err == nil {
		f.open[conversation] = o
	}
	return o, err
}

func (f *file) Append(_ context.Context, conversation string, msgs []Message) error {
	o, err := f.file(conversation)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, m := range msgs {
		if err := enc.Encode(m); err != nil {
			return err
		}
	}
	if _, err := o.Write(buf.Bytes()); err != nil || f.level == Kill {
		return err
	}
	return datasync(o)
}

func (f *file) Load(_ context.Context, conversation string) (msgs []Message, err error) {
	data, err := os.ReadFile(filepath.Join(f.dir, conversation+".jsonl"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		msgs = append(msgs, m)
	}
	return msgs, nil
}

func (f *file) Close() (err error) {
	for _, o := range f.open {
		err = cmp.Or(err, o.Close())
	}
	return err
}
