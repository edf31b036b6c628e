package transcript

import (
	"crypto/sha256"
	"encoding/json"
	"iter"

	"github.com/convolog/convolog/internal/jsontext"
)

// Blobs yields the blobs that an entry names, also those in results, in opaque blocks
// and in the state that it holds. A blob may come several times.
func Blobs(e Entry) iter.Seq[Blob] {
	return func(yield func(Blob) bool) {
		switch b := e.Body.(type) {
		case MessageLine:
			blobsOf(b.Content, yield)
		case Queued:
			blobsOf(b.Content, yield)
		}
		for _, held := range e.Standing() {
			for blob := range Blobs(held) {
				if !yield(blob) {
					return
				}
			}
		}
	}
}

// blobsOf yields the blobs that blocks name. It returns false once yield does.
func blobsOf(blocks []Block, yield func(Blob) bool) bool {
	for _, b := range blocks {
		more := true
		switch b := b.(type) {
		case ImageBlock:
			more = b.Source.Blob.SHA256 == "" || yield(b.Source.Blob)
		case DocumentBlock:
			more = b.Source.Blob.SHA256 == "" || yield(b.Source.Blob)
		case RawBlock:
			more = blobsIn(jsontext.BlobDepth, b.JSON, yield)
		case ToolResultBlock:
			more = blobsOf(b.Content, yield)
		}
		if !more {
			return false
		}
	}
	return true
}

// blobsIn yields the blobs in members of an opaque block with the name data.
func blobsIn(depth int, v []byte, yield func(Blob) bool) bool {
	if depth == 0 || !jsontext.IsObject(v) {
		return true
	}
	for name, value := range jsontext.Members(v) {
		if blob, ok := ParseBlob(value); name == "data" && ok && !yield(blob) {
			return false
		}
		if !blobsIn(depth-1, value, yield) {
			return false
		}
	}
	return true
}

// ParseBlob returns the blob that the value of a member of an opaque block names.
func ParseBlob(v []byte) (blob Blob, ok bool) {
	if !jsontext.IsObject(v) || json.Unmarshal(v, &blob) != nil || len(blob.SHA256) != 2*sha256.Size || blob.Bytes <= 0 {
		return Blob{}, false
	}
	return blob, true
}
