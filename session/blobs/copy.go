package blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/convolog/convolog/session"
)

// Copy copies blobs of a session from one place to another one, where the session must
// be, and reads them back. Missing counts the hashes that have no data.
func Copy(ctx context.Context, from, to Store, ref session.Ref, hashes []string) (missing int, err error) {
	for _, hash := range hashes {
		data, err := from.Get(ctx, ref, hash)
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err == nil {
			err = to.Put(ctx, ref, hash, data)
		}
		if err != nil {
			return missing, err
		}
		got, err := to.Get(ctx, ref, hash)
		if err == nil && !bytes.Equal(got, data) {
			err = fmt.Errorf("the blob %.12s was read back with other content: check the other store, delete the session there and copy again", hash)
		}
		if err != nil {
			return missing, err
		}
	}
	return missing, nil
}
