package session

import (
	"context"
	"fmt"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
)

// Open opens the store in a folder of files, which is made if it does not exist
// (unless ReadOnly is set). It logs a warning while an erase is unfinished, see
// package session/erase.
func Open(dir string, opts *Options) (*Store, error) {
	st := newStore(opts)
	o := &st.opts
	do := &filedriver.Options{
		Sync: o.Sync, ReadOnly: o.ReadOnly, SingleProcess: o.SingleProcess, Logger: o.Logger,
		Describe: func(row driver.Row, scan filedriver.Scan) (driver.Row, error) {
			return st.describe(row, replay.Scan(scan))
		},
	}
	do.Replaced = st.table.Forget
	if o.Observe != nil || opts != nil && opts.Logger != nil {
		do.Observe = st.fileEvent
	}
	drv, err := filedriver.Open(dir, do)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	st.start(drv)
	return st, nil
}

// describe makes the row of a transcript. Its agent is unknown if the folder of the agent
// has a hashed name.
func (st *Store) describe(row driver.Row, scan replay.Scan) (driver.Row, error) {
	row, err := replay.Row(row, scan, &st.lines.Options)
	if row.Agent == "" {
		k, _ := ParseKey(row.Key)
		row.Agent = k.Agent
	}
	return row, err
}

// fileEvent passes on an event of a file. Locks are held, except in background
// work.
func (st *Store) fileEvent(ctx context.Context, ref Ref, e filelog.Event) {
	event, background := Event{Session: ref}, false
	switch e := e.(type) {
	case filelog.Tail:
		st.opts.Logger.Warn("ended an unfinished line", "agent", ref.Agent, "session", ref.ID,
			"offset", e.Offset, "size", e.Size, "whole", e.Complete)
		event.Kind, event.Tail = EventRepair, Tail{Offset: e.Offset, Size: e.Size, Complete: e.Complete}
		if e.Err != nil {
			event.Tail.Error = e.Err.Error()
		}
	case filelog.Wait:
		event.Kind, event.Lock, event.Took, event.Err = EventWait, e.Lock, e.Took, e.Err
	case filedriver.Missing:
		event.Kind, event.Err = EventDamage, e.Err
	case filelog.Synced:
		event.Kind, event.Took, event.Bytes, event.Err = EventSync, e.Took, int(e.Bytes), e.Err
		background = e.Background
	}
	if st.opts.Observe == nil {
		return
	}
	st.keep(ctx, event)
	if background { // no call of the application will report it
		st.tell(ctx, ref)
	}
}
