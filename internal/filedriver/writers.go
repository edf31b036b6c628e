package filedriver

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/convolog/convolog/session/driver"
)

// openWriter adds this process to the writers that the index names, before its first
// append.
func (x *index) openWriter(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	err := x.locked(short, func() error {
		if x.by.Load() != 0 {
			return nil
		}
		by := firstWriter + rand.Int64N(writers)
		lockErr := x.lock.TryLock(by)
		if lockErr != nil && !errors.Is(lockErr, errors.ErrUnsupported) {
			return lockErr
		}
		err := x.write(record{Open: by})
		switch {
		case err == nil:
			x.by.Store(by)
		case lockErr == nil:
			_ = x.lock.Unlock(by) // a lock that stays ends with the process
		}
		return err
	})
	if ctx.Err() == nil && errors.Is(err, driver.ErrBusy) {
		// If this process is killed, a session may keep an old place in lists.
		x.a.d.log.Warn("the index is locked by a process that does not go on", "folder", x.a.dir, "err", err)
		return nil
	}
	return err
}

// closeWriter writes the rows of sessions that this process had open and takes its name
// from the writers. After a failure other processes find a dead writer.
func (x *index) closeWriter(ids []string) {
	if x.by.Load() == 0 {
		return
	}
	err := x.locked(context.Background(), func() error {
		for _, id := range ids {
			x.check(id)
			if e := x.find(id); e != nil && e.n == 0 && e.key != "" {
				x.news = append(x.news, id)
			}
		}
		if err := x.addNews(); err != nil {
			return err
		}
		return x.write(record{Closed: x.by.Swap(0)})
	})
	if err != nil {
		x.a.d.log.Warn("the index was not brought up to date; other processes compare it with the transcripts", "folder", x.a.dir, "err", err)
	}
}
