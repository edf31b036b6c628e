package session_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/convolog/convolog/internal/storetest"
)

// halfText makes a line of 512 bytes.
var halfText = storetest.Sentence(395)

// A bareRecord is the least that a line must hold.
type bareRecord struct {
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	TS      time.Time `json:"ts"`
	Content string    `json:"content"`
}

// A bareLog is the baseline of appends: a file to which encoded records are
// added under a lock, and nothing else.
type bareLog struct {
	f   *os.File
	end int64 // the size seen last
}

func newBareLog(b *testing.B) *bareLog {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "bare.jsonl"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() }) // its content is not needed
	return &bareLog{f: f}
}

// append locks, looks at the size, encodes and writes.
func (l *bareLog) append(text string) error {
	if err := lockFile(l.f); err != nil {
		return err
	}
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	l.end = info.Size()
	line, err := json.Marshal(bareRecord{
		Type: "user", ID: "0198d2c5-0000-7000-8000-000000000000", TS: time.Now(), Content: text,
	})
	if err != nil {
		return err
	}
	if _, err := l.f.Write(append(line, '\n')); err != nil {
		return err
	}
	return unlockFile(l.f)
}

// write writes bytes and puts them on stable storage.
func (l *bareLog) write(data []byte) error {
	if _, err := l.f.Write(data); err != nil {
		return err
	}
	return syncFile(l.f)
}

// decodeLines is the baseline of loads: encoding/json into a bareRecord.
func decodeLines(data []byte) (n int, err error) {
	for line := range bytes.Lines(data) {
		var r bareRecord
		if err := json.Unmarshal(line, &r); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
