package transcript

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
)

// IdemHash returns the idemHash of a batch: a hash of its lines without IDs, times and
// numbers, so that a retry gives the same hash.
func IdemHash(entries []Entry) string {
	hash := sha256.New()
	for i := range entries {
		line := entries[i].Line()
		from := 0
		for name, value := range jsontext.Members(line) {
			to := endOf(value, line)
			switch name {
			case "id", "ts", "batch", "mid", "part", "idem", "idemHash", "src", "crc":
			default:
				hash.Write(line[from:to])
			}
			from = to
		}
		hash.Write([]byte("}\n"))
	}
	var sum [sha256.Size]byte
	return hex.EncodeToString(hash.Sum(sum[:0])[:16])
}

// endOf returns the index after a value that aliases a line.
func endOf(value, line []byte) int { return cap(line) - cap(value) + len(value) }

// WithIdem puts an idempotency key and the [IdemHash] of the batch on the line of its first
// entry. The line ends with a checksum if the old one did. The entries equal the result of
// [ParseEntry] for their lines, as after [NewBatch].
//
// It fails if a reader would not find the key, because it is not valid UTF-8 or
// makes the line too long. The entries must not be used after an error.
func WithIdem(entries []Entry, key string) ([]Entry, error) {
	if !utf8.ValidString(key) {
		return nil, fmt.Errorf("transcript: the idempotency key %q is not valid UTF-8", key)
	}
	if len(entries) == 0 {
		return entries, nil
	}
	e := &entries[0]
	e.Idem, e.IdemHash = key, IdemHash(entries)
	old, at := e.Line(), 0
	for name, value := range jsontext.Members(old) {
		if name != "type" && name != "id" && name != "ts" && name != "batch" && name != "mid" && name != "part" {
			break
		}
		at = endOf(value, old)
	}
	line := make([]byte, 0, len(old)+len(key)+len(key)/8+64)
	line = append(line, old[:at]...)
	line = jsontext.AppendString(append(line, `,"idem":`...), key)
	line = jsontext.AppendString(append(line, `,"idemHash":`...), e.IdemHash)
	e.line = checksum.Renew(append(line, old[at:]...))
	if err := checkLine(e.line, DefaultMaxLine); err != nil {
		return nil, err
	}
	return entries, nil
}
