package blobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/imagesize"
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// minBlob is the least length, in bytes, of base64 that becomes a blob.
const minBlob = 16 << 10

// blobType is the type of a source whose bytes are a blob.
const blobType = "blob"

// A keeper moves media out of the entries of one append.
type keeper struct {
	puts    map[string][]byte // by hash
	sources map[string]string // replacements of base64 in the lines of other programs
}

// mapEntries returns entries in which change has replaced media, and source, if set, the
// lines of other programs. It does not modify entries, and returns them if nothing
// changes.
func mapEntries(entries []transcript.Entry, change func(transcript.Block) (transcript.Block, bool), source func([]byte) []byte) (out []transcript.Entry, err error) {
	out = entries
	for i, e := range entries {
		changed, member := false, "content"
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			b.Content, changed = mapBlocks(b.Content, change)
			e.Body = b
		case transcript.Queued:
			b.Content, changed = mapBlocks(b.Content, change)
			e.Body = b
		case transcript.Compaction:
			var held []transcript.Entry
			if held, err = mapEntries(b.Standing, change, nil); err != nil {
				return nil, err
			}
			changed, member = len(held) > 0 && &held[0] != &b.Standing[0], "standing"
			b.Standing = held
			e.Body = b
		}
		if !changed {
			continue
		}
		if &out[0] == &entries[0] {
			out = slices.Clone(entries)
		}
		value, _ := jsontext.Member(e.WithLine(nil).Line(), member)
		out[i], err = transcript.ParseEntry(checksum.Renew(jsontext.MapMembers(e.Line(), func(name string, v []byte) []byte {
			switch {
			case name == member:
				return value
			case name == "src" && source != nil:
				return source(v)
			}
			return v
		})))
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mapBlocks returns blocks in which change has replaced images, documents and
// opaque blocks, even in results.
func mapBlocks(blocks []transcript.Block, change func(transcript.Block) (transcript.Block, bool)) (out []transcript.Block, changed bool) {
	out = blocks
	for i, b := range blocks {
		got, is := b, false
		switch b := b.(type) {
		case transcript.ImageBlock, transcript.DocumentBlock, transcript.RawBlock:
			got, is = change(b)
		case transcript.ToolResultBlock:
			b.Content, is = mapBlocks(b.Content, change)
			got = b
		}
		if is {
			if !changed {
				out = slices.Clone(blocks)
			}
			out[i], changed = got, true
		}
	}
	return out, changed
}

// mapMedia returns a block in which source has changed the source of an image or
// a document, and data each member called data of an opaque block.
func mapMedia(b transcript.Block, source func(kind string, s *transcript.Source) bool, data func(v []byte) []byte) (_ transcript.Block, changed bool) {
	switch b := b.(type) {
	case transcript.ImageBlock:
		changed = source("image", &b.Source)
		return b, changed
	case transcript.DocumentBlock:
		changed = source("document", &b.Source)
		return b, changed
	case transcript.RawBlock:
		b.JSON, changed = mapData(jsontext.BlobDepth, b.JSON, data)
		return b, changed
	}
	return b, false
}

func (k *keeper) block(b transcript.Block) (transcript.Block, bool) {
	return mapMedia(b, k.take, func(v []byte) []byte {
		text, _ := jsontext.String(v)
		blob, ok := k.bytes(text)
		if !ok {
			return v
		}
		ref, _ := json.Marshal(blob) // never fails
		return ref
	})
}

func (k *keeper) take(kind string, s *transcript.Source) bool {
	if s.Type != "base64" {
		return false
	}
	blob, ok := k.bytes(s.Data)
	if !ok {
		return false
	}
	if kind == "image" {
		blob.Width, blob.Height = imagesize.Of(s)
	}
	s.Type, s.Data, s.Blob = blobType, "", blob
	return true
}

// bytes returns the blob for a text in base64, if it is long enough and the
// bytes encode to the same text again.
func (k *keeper) bytes(text string) (blob transcript.Blob, ok bool) {
	if len(text) < minBlob || len(text)%4 != 0 {
		return blob, false
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodedLen(len(data)) != len(text) {
		return blob, false
	}
	blob = transcript.Blob{SHA256: hashOf(data), Bytes: len(data)}
	if k.puts == nil {
		k.puts, k.sources = map[string][]byte{}, map[string]string{}
	}
	k.puts[blob.SHA256], k.sources[text] = data, blob.SHA256
	return blob, true
}

// source replaces media that were moved out of an entry by their hash, in the
// other program's line that the entry was made of.
func (k *keeper) source(v []byte) []byte {
	text, ok := jsontext.String(v)
	if !ok {
		return v
	}
	for data, hash := range k.sources {
		text = strings.ReplaceAll(text, data, "sha256:"+hash)
		text = strings.ReplaceAll(text, strings.ReplaceAll(data, "/", `\/`), "sha256:"+hash)
	}
	return jsontext.AppendString(nil, text)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// mapData returns an object in which change has replaced the members called data, at every
// level down to a depth.
func mapData(depth int, v []byte, change func([]byte) []byte) (out []byte, changed bool) {
	if depth == 0 || !jsontext.IsObject(v) {
		return v, false
	}
	out = jsontext.MapMembers(v, func(name string, value []byte) []byte {
		got := value
		if name == "data" {
			got = change(value)
		}
		if bytes.Equal(got, value) {
			got, _ = mapData(depth-1, value, change)
		}
		changed = changed || !bytes.Equal(got, value)
		return got
	})
	if !changed {
		return v, false
	}
	return out, true
}
