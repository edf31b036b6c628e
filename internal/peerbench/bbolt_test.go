package peerbench_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/convolog/convolog/internal/peerbench"
)

// bbolt keeps a bucket for each conversation.
type bbolt struct{ db *bolt.DB }

// openBbolt opens a bbolt database.
func openBbolt(dir string, level peerbench.Level) (peerbench.Peer, error) {
	db, err := bolt.Open(filepath.Join(dir, "bolt.db"), 0o600, &bolt.Options{NoSync: level == peerbench.Kill})
	if err != nil {
		return nil, err
	}
	return bbolt{db}, nil
}

func (p bbolt) Append(_ context.Context, conversation string, msgs []peerbench.Message) error {
	return p.db.Update(func(tx *bolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte(conversation))
		if err != nil {
			return err
		}
		for _, m := range msgs {
			n, err := bucket.NextSequence()
			if err != nil {
				return err
			}
			value, err := json.Marshal(m)
			if err != nil {
				return err
			}
			if err := bucket.Put(binary.BigEndian.AppendUint64(nil, n), value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p bbolt) Load(_ context.Context, conversation string) (msgs []peerbench.Message, err error) {
	err = p.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(conversation)).ForEach(func(_, value []byte) error {
			var m peerbench.Message
			err := json.Unmarshal(value, &m)
			msgs = append(msgs, m)
			return err
		})
	})
	return msgs, err
}

func (p bbolt) Close() error { return p.db.Close() }
