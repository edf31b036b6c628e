package pgdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/memory"
)

// maxFileName is the longest name of a file in bytes. An index cannot hold longer names.
const maxFileName = 2000

// Memories returns a storage in the database, for memory.Open:
//
//	m, err := memory.Open(d.Memories(), &memory.Options{Extractor: extractor})
//
// A file has at most 256 MiB, and its name at most 2,000 bytes. A lock is a lease, as for a
// turn: see Options.Lease. If the lease of one of this driver's locks has ended, because the
// process paused, writes and removals fail until the lock is unlocked. Failed ones change
// nothing.
func (d *Driver) Memories() memory.Storage { return files{d} }

type files struct{ d *Driver }

// locks are the folder locks that a driver holds.
type locks struct {
	// mu guards all. A write holds it for reading, so that no lock on which the write
	// depends is released during the write.
	mu  sync.RWMutex
	all map[string]pgtype.UUID // the holder of each lock, by the hash of the folder
}

var errLockLost = errors.New("the lease of a lock of this process has ended, nothing was written: unlock it and begin again")

// List implements [memory.Storage].
func (f files) List(ctx context.Context, folder string) (list []memory.File, err error) {
	below := folder + "/"
	if folder == "." {
		below = ""
	}
	err = f.with(ctx, "list", folder, true, func() (err error) {
		list, err = collect(ctx, f.d, func(r pgx.CollectableRow) (file memory.File, err error) {
			err = r.Scan(&file.Name, &file.Version)
			return file, err
		}, `SELECT name, version::text FROM {s}.files WHERE name > $1 AND ($1 = '' OR name < left($1, -1) || '0') ORDER BY name`, below) // '0' is the byte after '/'
		return err
	})
	return list, err
}

// Read implements [memory.Storage].
func (f files) Read(ctx context.Context, name string) (data []byte, err error) {
	err = f.with(ctx, "read", name, false, func() error {
		err := f.d.row(ctx, "SELECT data FROM {s}.files WHERE name = $1", name).Scan(&data)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fs.ErrNotExist
		}
		return err
	})
	return data, err
}

// Create implements [memory.Storage].
func (f files) Create(ctx context.Context, name string, data []byte) error {
	return f.put(ctx, "create", name, data, true)
}

// Write implements [memory.Storage].
func (f files) Write(ctx context.Context, name string, data []byte) error {
	return f.put(ctx, "write", name, data, false)
}

// Remove implements [memory.Storage].
func (f files) Remove(ctx context.Context, name string) error {
	return f.with(ctx, "remove", name, false, func() error { return f.change(ctx, name, nil, false) })
}

func (f files) put(ctx context.Context, op, name string, data []byte, fresh bool) error {
	return f.with(ctx, op, name, false, func() error {
		if len(data) > maxData {
			return fmt.Errorf("the file has %d bytes, more than %d, nothing was written: %w", len(data), maxData, fs.ErrInvalid)
		}
		if data == nil {
			data = []byte{} // nil would remove the file
		}
		return f.change(ctx, name, data, fresh)
	})
}

// change calls the SQL function write_file until it has taken effect once.
func (f files) change(ctx context.Context, name string, data []byte, fresh bool) error {
	held := &f.d.locks
	held.mu.RLock()
	defer held.mu.RUnlock()
	folders, holders := [][]byte{}, []pgtype.UUID{}
	for folder, holder := range held.all {
		folders, holders = append(folders, []byte(folder)), append(holders, holder)
	}
	var status string
	var attempt pgtype.UUID
	ctx, cancel := writing(ctx)
	defer cancel()
	sync := f.d.sync
	if data == nil {
		sync = f.d.strict
	}
	err := f.d.persist(ctx, func(ctx context.Context) error {
		attempt = newAttempt()
		return f.d.row(ctx, "SELECT {s}.write_file($1, $2, $3, $4, $5, $6, $7, $8)", name, attempt, data, fresh, sync, lockWait(ctx), folders, holders).once(ctx, &status)
	}, func(ctx context.Context) (done bool, err error) {
		status = "ok"
		if err := f.d.row(ctx, "SELECT {s}.revoke($1)", attempt).once(ctx, nil); err != nil {
			return false, err
		}
		err = f.d.row(ctx, "SELECT EXISTS (SELECT FROM {s}.files WHERE name = $1 AND version = $2)", name, attempt).once(ctx, &done)
		return done, err
	})
	if err == nil {
		err = errorOf(status, 0)
	}
	return err
}

func newAttempt() pgtype.UUID { return pgtype.UUID{Bytes: uuid.New(), Valid: true} }

// Lock implements [memory.Storage].
func (f files) Lock(ctx context.Context, folder string) (unlock func(), err error) {
	d, hash, holder := f.d, keyHash(folder), newAttempt()
	free := func() error {
		_, err := d.exec(context.Background(), "DELETE FROM {s}.locks WHERE folder = $1 AND holder = $2", hash, holder)
		return err
	}
	err = f.with(ctx, "lock", folder, false, func() error {
		err := d.await(ctx, func() (bool, error) {
			n, err := d.exec(ctx, `INSERT INTO {s}.locks AS l (folder, holder, until) VALUES ($1, $2, clock_timestamp() + $3)
				ON CONFLICT (folder) DO UPDATE SET holder = excluded.holder, until = excluded.until
				WHERE l.until < clock_timestamp() OR l.holder = excluded.holder`, hash, holder, d.opts.Lease)
			return n > 0, err
		})
		if err != nil {
			d.ops.Go(func() { _ = free() }) // an attempt may have taken the lock
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.locks.mu.Lock()
	d.locks.all[string(hash)] = holder
	d.locks.mu.Unlock()
	release := d.hold(func() error {
		d.locks.mu.Lock()
		if d.locks.all[string(hash)] == holder {
			delete(d.locks.all, string(hash))
		}
		d.locks.mu.Unlock()
		return free()
	}, "UPDATE {s}.locks SET until = clock_timestamp() + $1 WHERE folder = $2 AND holder = $3 AND until > clock_timestamp()", hash, holder)
	return sync.OnceFunc(func() {
		if err := release(); err != nil {
			d.opts.Logger.Warn("pgdriver: a lock was not released and ends with its lease", "folder", folder, "err", err)
		}
	}), nil
}

// with calls do in a call, if name is valid. Its errors quote the name.
func (f files) with(ctx context.Context, op, name string, root bool, do func() error) error {
	err := f.d.during(ctx, func() error {
		if err := checkText("name of a file", name); !fs.ValidPath(name) || name == "." && !root || len(name) > maxFileName {
			return &driver.NameError{What: "file of a memory", Name: name, Rule: "a clean relative path with slashes, of at most 2,000 bytes"}
		} else if err != nil {
			return err
		}
		return do()
	})
	if err != nil {
		return fmt.Errorf("pgdriver: %s memory file %.200q: %w", op, name, err)
	}
	return nil
}
