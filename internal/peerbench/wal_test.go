package peerbench_test

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"sync"

	"github.com/tidwall/wal"

	"github.com/convolog/convolog/internal/peerbench"
)

// walLog keeps a log for each conversation.
type walLog struct {
	dir   string
	level peerbench.Level
	mu    sync.Mutex // guards open
	open  map[string]*wal.Log
}

// openWAL opens a folder of logs of github.com/tidwall/wal.
func openWAL(dir string, level peerbench.Level) (peerbench.Peer, error) {
	return &walLog{dir: dir, level: level, open: map[string]*wal.Log{}}, nil
}

func (p *walLog) log(conversation string) (*wal.Log, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.open[conversation]; l != nil {
		return l, nil
	}
	opts := *wal.DefaultOptions
	opts.NoSync = p.level == peerbench.Kill
	l, err := wal.Open(filepath.Join(p.dir, conversation), &opts)
	if err == nil {
		p.open[conversation] = l
	}
	return l, err
}

func (p *walLog) Append(_ context.Context, conversation string, msgs []peerbench.Message) error {
	l, err := p.log(conversation)
	if err != nil {
		return err
	}
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	var batch wal.Batch
	for i, m := range msgs {
		data, err := json.Marshal(m)
		if err != nil {
			return err
		}
		batch.Write(last+1+uint64(i), data)
	}
	return l.WriteBatch(&batch)
}

func (p *walLog) Load(_ context.Context, conversation string) (msgs []peerbench.Message, err error) {
	l, err := p.log(conversation)
	if err != nil {
		return nil, err
	}
	last, err := l.LastIndex()
	if err != nil {
		return nil, err
	}
	for i := uint64(1); i <= last; i++ {
		data, err := l.Read(i)
		if err != nil {
			return nil, err
		}
		var m peerbench.Message
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, err
		}
		msgs = append(msgs, m)
	}
	return msgs, nil
}

func (p *walLog) Close() (err error) {
	for _, l := range p.open {
		err = cmp.Or(err, l.Close())
	}
	return err
}
