package blobs

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// namesBlob reports whether a block may name a blob. It costs nothing for most.
func namesBlob(b transcript.Block) bool {
	switch b := b.(type) {
	case transcript.ImageBlock:
		return b.Source.Type == blobType
	case transcript.DocumentBlock:
		return b.Source.Type == blobType
	case transcript.RawBlock:
		return bytes.Contains(b.JSON, []byte(`"sha256"`))
	case transcript.ToolResultBlock:
		return slices.ContainsFunc(b.Content, namesBlob)
	}
	return false
}

// A loader puts the bytes of blobs into blocks.
type loader struct {
	store  Store
	logger *slog.Logger
	ctx    context.Context //nolint:containedctx // of the call that the loader is made for
	ref    session.Ref
	url    func(ctx context.Context, ref session.Ref, entryID string, blob transcript.Blob) string
	entry  string // of the block
	err    error  // of ctx

	missing string // the replacement of the current block
}

func (l *loader) block(b transcript.Block) (transcript.Block, bool) {
	l.missing = ""
	got, changed := mapMedia(b, l.source, func(v []byte) []byte {
		blob, ok := transcript.ParseBlob(v)
		if !ok {
			return v
		}
		data, ok := l.load(transcript.BlockType(b), blob)
		if !ok {
			return v
		}
		return jsontext.AppendString(nil, base64.StdEncoding.EncodeToString(data))
	})
	if l.missing != "" {
		return transcript.TextBlock{Text: l.missing}, true
	}
	return got, changed
}

// source puts bytes, or a URL, into a source.
func (l *loader) source(kind string, s *transcript.Source) bool {
	if s.Type != blobType {
		return false
	}
	if l.url != nil {
		if url := l.url(l.ctx, l.ref, l.entry, s.Blob); url != "" {
			s.Type, s.URL, s.MediaType, s.Blob = "url", url, "", transcript.Blob{}
			return true
		}
	}
	if s.MediaType != "" {
		kind += " (" + s.MediaType + ")"
	}
	data, ok := l.load(kind, s.Blob)
	s.Type, s.Data, s.Blob = "base64", base64.StdEncoding.EncodeToString(data), transcript.Blob{}
	return ok
}

// load returns the bytes of a blob, or notes their replacement, which docs/FORMAT.md
// defines.
func (l *loader) load(kind string, blob transcript.Blob) (data []byte, ok bool) {
	if data, ok = l.read(blob); !ok {
		l.missing = quote.Rest(fmt.Sprintf("[%s of %d bytes: it is not there any more]", kind, blob.Bytes))
	}
	return data, ok
}

func (l *loader) read(blob transcript.Blob) (data []byte, ok bool) {
	if l.err != nil {
		return nil, false
	}
	data, err := l.store.Get(l.ctx, l.ref, blob.SHA256)
	if l.err = l.ctx.Err(); l.err != nil {
		return nil, false
	}
	if err == nil && hashOf(data) != blob.SHA256 {
		err = errors.New("its bytes have changed")
	}
	if err != nil {
		l.logger.Warn("a blob is not shown", "agent", l.ref.Agent, "session", l.ref.ID, "sha256", blob.SHA256, "err", err)
	}
	return data, err == nil
}
