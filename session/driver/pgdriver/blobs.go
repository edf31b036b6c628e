package pgdriver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
)

// maxData is how long a blob or a file may be, in bytes: a server takes a few times
// as much memory.
const maxData = 256 << 20

// Blobs returns the Blobs of the database, for session.Options:
//
//	store := session.OpenDriver(d, &session.Options{Blobs: d.Blobs()})
//
// Blobs go with their session, however it is deleted, and Put to a session that is not there fails. A blob
// has at most 256 MiB. Larger media, and a database that is to stay small, need a
// bucket: a session.Blobs of the application's own, which takes four methods.
func (d *Driver) Blobs() session.Blobs { return blobs{d} }

type blobs struct{ d *Driver }

// Put implements [session.Blobs].
func (b blobs) Put(ctx context.Context, ref driver.Ref, hash string, data []byte) error {
	err := b.with(ctx, ref, []string{hash}, func(sums [][]byte) error {
		if len(data) > maxData {
			return fmt.Errorf("%d bytes are more than %d, nothing was written: keep media of that size in a bucket: %w", len(data), maxData, fs.ErrInvalid)
		}
		if data == nil {
			data = []byte{} // nil is NULL
		}
		_, err := b.d.exec(ctx, "INSERT INTO {s}.blobs (agent, id, hash, data) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", ref.Agent, ref.ID, sums[0], data)
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "23503" { // the foreign key
			err = errNoSession
		}
		return err
	})
	return fail(fmt.Sprintf("keep blob %.12s", hash), ref, err)
}

// Get implements [session.Blobs].
func (b blobs) Get(ctx context.Context, ref driver.Ref, hash string) (data []byte, err error) {
	err = b.with(ctx, ref, []string{hash}, func(sums [][]byte) error {
		err := b.d.row(ctx, "SELECT data FROM {s}.blobs WHERE agent = $1 AND id = $2 AND hash = $3", ref.Agent, ref.ID, sums[0]).Scan(&data)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fs.ErrNotExist
		}
		return err
	})
	return data, fail(fmt.Sprintf("read blob %.12s", hash), ref, err)
}

// List implements [session.Blobs].
func (b blobs) List(ctx context.Context, ref driver.Ref) (hashes []string, err error) {
	err = b.with(ctx, ref, nil, func([][]byte) error {
		return b.d.rows(ctx, func(rows pgx.Rows) (err error) {
			hashes, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (hash string, err error) {
				var sum []byte
				err = r.Scan(&sum)
				return hex.EncodeToString(sum), err
			})
			return err
		}, "SELECT hash FROM {s}.blobs WHERE agent = $1 AND id = $2", ref.Agent, ref.ID)
	})
	return hashes, fail("list blobs", ref, err)
}

// Delete implements [session.Blobs].
func (b blobs) Delete(ctx context.Context, ref driver.Ref, hashes ...string) error {
	if len(hashes) == 0 {
		return nil
	}
	return fail("delete blobs", ref, b.with(ctx, ref, hashes, func(sums [][]byte) error {
		_, err := b.d.exec(ctx, "DELETE FROM {s}.blobs WHERE agent = $1 AND id = $2 AND hash = ANY ($3)", ref.Agent, ref.ID, sums)
		return err
	}))
}

// with calls do with the hashes as bytes.
func (b blobs) with(ctx context.Context, ref driver.Ref, hashes []string, do func(sums [][]byte) error) error {
	if err := b.d.enter(ctx); err != nil {
		return err
	}
	defer b.d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return err
	}
	sums := make([][]byte, len(hashes))
	for i, hash := range hashes {
		sum, err := hex.DecodeString(hash)
		if err != nil || len(sum) != len(keyHash("")) || strings.ToLower(hash) != hash {
			return fmt.Errorf("%.100q is no SHA-256 in lower-case hexadecimal digits: %w", hash, fs.ErrInvalid)
		}
		sums[i] = sum
	}
	return do(sums)
}
