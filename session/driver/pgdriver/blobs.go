package pgdriver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
)

// maxData is the largest size of a blob or a file in bytes. A server needs several times
// as much memory.
const maxData = 256 << 20

// Blobs returns the blob store of the database:
//
//	store := session.OpenDriver(d, &session.Options{Filters: []session.Filter{blobs.Filter(d.Blobs(), nil)}})
//
// A deletion of a session always deletes its blobs, and Put to a missing session fails. If a
// kill prevents a fork, the blobs of that fork stay for at least a day: the next Make
// afterwards deletes them. A blob has at most 256 MiB. For larger media, or to keep the
// database small, implement a blobs.Store over a bucket, which takes four methods.
func (d *Driver) Blobs() blobs.Store { return blobStore{d} }

type blobStore struct{ d *Driver }

var _ blobs.Maker = blobStore{}

// Make implements [blobs.Maker].
func (b blobStore) Make(ctx context.Context, ref driver.Ref) error {
	return b.with(ctx, "make room for blobs", ref, nil, func([][]byte) error {
		_, err := b.d.exec(ctx, `WITH old AS (DELETE FROM {s}.unborn u WHERE u.at < clock_timestamp() - interval '1 day' RETURNING u.agent, u.id)
			DELETE FROM {s}.blobs b USING old WHERE b.agent = old.agent AND b.id = old.id
			AND NOT EXISTS (SELECT FROM {s}.sessions t WHERE t.agent = b.agent AND t.id = b.id)`)
		if err == nil {
			_, err = b.d.exec(ctx, "INSERT INTO {s}.unborn (agent, id) VALUES ($1, $2) ON CONFLICT (agent, id) DO UPDATE SET at = excluded.at", ref.Agent, ref.ID)
		}
		return err
	})
}

// Put implements [blobs.Store].
func (b blobStore) Put(ctx context.Context, ref driver.Ref, hash string, data []byte) error {
	return b.with(ctx, fmt.Sprintf("keep blob %.12s", hash), ref, []string{hash}, func(sums [][]byte) error {
		if len(data) > maxData {
			return fmt.Errorf("the blob has %d bytes, more than %d, nothing was written: keep media of that size in a bucket: %w", len(data), maxData, fs.ErrInvalid)
		}
		if data == nil {
			data = []byte{} // nil would become NULL
		}
		n, err := b.d.exec(ctx, `INSERT INTO {s}.blobs (agent, id, hash, data) SELECT $1, $2, $3, $4
			WHERE EXISTS (SELECT FROM {s}.sessions t WHERE t.agent = $1 AND t.id = $2 FOR KEY SHARE)
			OR EXISTS (SELECT FROM {s}.unborn u WHERE u.agent = $1 AND u.id = $2)
			ON CONFLICT DO NOTHING`, ref.Agent, ref.ID, sums[0], data)
		there := n > 0
		if err == nil && !there {
			err = b.d.row(ctx, "SELECT EXISTS (SELECT FROM {s}.blobs WHERE agent = $1 AND id = $2 AND hash = $3)", ref.Agent, ref.ID, sums[0]).Scan(&there)
		}
		if err == nil && !there {
			err = errNoSession
		}
		return err
	})
}

// Get implements [blobs.Store].
func (b blobStore) Get(ctx context.Context, ref driver.Ref, hash string) (data []byte, err error) {
	err = b.with(ctx, fmt.Sprintf("read blob %.12s", hash), ref, []string{hash}, func(sums [][]byte) error {
		err := b.d.row(ctx, "SELECT data FROM {s}.blobs WHERE agent = $1 AND id = $2 AND hash = $3", ref.Agent, ref.ID, sums[0]).Scan(&data)
		if errors.Is(err, pgx.ErrNoRows) {
			err = fs.ErrNotExist
		}
		return err
	})
	return data, err
}

// List implements [blobs.Store].
func (b blobStore) List(ctx context.Context, ref driver.Ref) (hashes []string, err error) {
	err = b.with(ctx, "list blobs", ref, nil, func([][]byte) (err error) {
		hashes, err = collect(ctx, b.d, pgx.RowTo[string], "SELECT encode(hash, 'hex') FROM {s}.blobs WHERE agent = $1 AND id = $2", ref.Agent, ref.ID)
		return err
	})
	return hashes, err
}

// Delete implements [blobs.Store].
func (b blobStore) Delete(ctx context.Context, ref driver.Ref, hashes ...string) error {
	if len(hashes) == 0 {
		return nil
	}
	return b.with(ctx, "delete blobs", ref, hashes, func(sums [][]byte) error {
		_, err := b.d.exec(ctx, "DELETE FROM {s}.blobs WHERE agent = $1 AND id = $2 AND hash = ANY ($3) AND set_config('synchronous_commit', $4, true) <> ''",
			ref.Agent, ref.ID, sums, b.d.strict)
		return err
	})
}

// with calls do in a call on a session, with the hashes as bytes.
func (b blobStore) with(ctx context.Context, op string, ref driver.Ref, hashes []string, do func(sums [][]byte) error) error {
	return b.d.on(ctx, op, ref, func() error {
		sums := make([][]byte, len(hashes))
		for i, hash := range hashes {
			sum, err := hex.DecodeString(hash)
			if err != nil || len(sum) != len(keyHash("")) || strings.ToLower(hash) != hash {
				return fmt.Errorf("%.100q is not a SHA-256 in lower-case hexadecimal digits: %w", hash, fs.ErrInvalid)
			}
			sums[i] = sum
		}
		return do(sums)
	})
}
