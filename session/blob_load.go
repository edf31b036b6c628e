package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Inline returns entries with the bytes of blobs in their lines, as they would be
// without [Options].Blobs. It is for programs that pass entries on, such as the
// exports of package exchange. A text that says so stands for a blob that is missing.
// The error is that of ctx, or says that an entry cannot be written as a line. Inline
// does not modify entries, and returns them if none names a blob.
func (s *Session) Inline(ctx context.Context, entries []transcript.Entry) (out []transcript.Entry, err error) {
	l := loader{ctx: ctx, s: s}
	if out, err = s.store.mapEntries(entries, l.block, nil); l.err != nil {
		err = l.err
	}
	if err != nil {
		return nil, s.store.wrap("read blobs", s.ref, err)
	}
	return out, nil
}

// inlineHistory puts the bytes of blobs, or URLs of them, into a history.
func (s *Session) inlineHistory(ctx context.Context, h *rebuild.History) error {
	l := loader{ctx: ctx, s: s, url: s.store.opts.BlobURL}
	for i := range h.Messages {
		m, own := &h.Messages[i], false // whether the content is not that of the fold
		for j, b := range m.Content {
			if !namesBlob(b) {
				continue
			}
			l.entry = ""
			if j < len(m.Origins) {
				l.entry = m.Origins[j].Entry
			}
			got, changed := mapBlocks([]transcript.Block{b}, l.block)
			if l.err != nil {
				return s.store.wrap("read blobs", s.ref, l.err)
			}
			if !changed {
				continue
			}
			if !own {
				m.Content, own = slices.Clone(m.Content), true
			}
			m.Content[j] = got[0]
		}
	}
	return nil
}

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
	ctx   context.Context
	s     *Session
	url   func(ctx context.Context, ref Ref, entryID string, blob transcript.Blob) string
	entry string // that the block is of
	err   error  // of ctx

	missing string // what stands for the block at hand
}

// block returns a block with its bytes.
func (l *loader) block(b transcript.Block) (transcript.Block, bool) {
	l.missing = ""
	got, changed := mapMedia(b, l.source, func(v []byte) []byte {
		blob := blobIn(v)
		if blob.SHA256 == "" {
			return v
		}
		data, ok := l.load(b.BlockType(), blob)
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
		if url := l.url(l.ctx, l.s.ref, l.entry, s.Blob); url != "" {
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

// load returns the bytes of a blob, or notes what stands for them, which FORMAT.md
// fixes.
func (l *loader) load(kind string, blob transcript.Blob) (data []byte, ok bool) {
	if data, ok = l.read(blob); !ok {
		l.missing = fmt.Sprintf("[%s of %d bytes: it is not there any more]", kind, blob.Bytes)
	}
	return data, ok
}

// read returns the bytes of a blob. A fork that a kill has left without its copies
// reads those of its base.
func (l *loader) read(blob transcript.Blob) (data []byte, ok bool) {
	st := l.s.store
	if l.err != nil || st.opts.Blobs == nil {
		return nil, false
	}
	data, err := st.opts.Blobs.Get(l.ctx, l.s.ref, blob.SHA256)
	if errors.Is(err, fs.ErrNotExist) {
		if base := l.s.base(l.ctx); base.ID != "" {
			data, err = st.opts.Blobs.Get(l.ctx, base, blob.SHA256)
		}
	}
	if l.err = l.ctx.Err(); l.err != nil {
		return nil, false
	}
	if err == nil && hashOf(data) != blob.SHA256 {
		err = errors.New("its bytes have changed")
	}
	if err != nil {
		st.opts.Logger.Warn("a blob is not shown", "agent", l.s.ref.Agent, "session", l.s.ref.ID, "sha256", blob.SHA256, "err", err)
	}
	return data, err == nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// base returns the session that this one is a fork of; the zero value if it is none.
func (s *Session) base(ctx context.Context) (base Ref) {
	_ = s.View(ctx, func(v *View) error {
		base = linked(v.t.row.Base)
		return nil
	})
	return base
}
