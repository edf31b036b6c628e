// Package blockgzip writes gzip files that can be read from any place: the
// content is compressed in blocks, each a gzip member of its own with its
// length. Every program that unpacks gzip reads the whole content of one.
package blockgzip

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

const (
	// BlockSize is how many bytes of the content a block has at most.
	BlockSize = 256 << 10
	// MaxNote is the length of the longest note, in bytes. The Extra field of
	// gzip has room for 65,535.
	MaxNote = 60_000

	// A member begins with ten bytes, the length of its Extra field, and the
	// first subfield: the length of the member. The note is the second one.
	fieldsAt  = 12
	lengthAt  = fieldsAt + 4
	headSize  = lengthAt + 4
	noteAt    = headSize + 4
	tailSize  = 8 // CRC-32 and length of the content
	hasFields = 4 // flag: there is an Extra field and nothing else
)

var (
	lengthID = [2]byte{'C', 'L'}
	noteID   = [2]byte{'C', 'N'}

	errFormat = errors.New("not a gzip file of blocks, or a damaged one")
)

// Write compresses what r has into w, with a note in the header of the first
// block.
func Write(w io.Writer, r io.Reader, note []byte) error {
	if len(note) > MaxNote {
		return fmt.Errorf("a note of %d bytes: at most %d have room", len(note), MaxNote)
	}
	var block bytes.Buffer
	zip := gzip.NewWriter(&block)
	content := make([]byte, BlockSize)
	for first := true; ; first = false {
		n, err := io.ReadFull(r, content)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if n == 0 && !first {
			return nil
		}
		block.Reset()
		zip.Reset(&block)
		zip.Extra = subfield(nil, lengthID, make([]byte, 4))
		if first && len(note) > 0 {
			zip.Extra = subfield(zip.Extra, noteID, note)
		}
		if _, err := zip.Write(content[:n]); err != nil {
			return err
		}
		if err := zip.Close(); err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(block.Bytes()[lengthAt:], uint32(block.Len()))
		if _, err := w.Write(block.Bytes()); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

func subfield(extra []byte, id [2]byte, data []byte) []byte {
	extra = append(extra, id[0], id[1])
	extra = binary.LittleEndian.AppendUint16(extra, uint16(len(data)))
	return append(extra, data...)
}

// A Reader reads the content of a file that [Write] has written. It keeps at
// most two blocks in memory. It is safe for several goroutines.
type Reader struct {
	r      io.ReaderAt
	blocks []block
	size   int64

	mu    sync.Mutex // guards the fields below
	zip   *gzip.Reader
	cache [2]cached // the one read last comes first
}

// A block is a place in the file and in the content.
type block struct {
	at, length   int64 // in the file
	start, holds int64 // in the content
}

type cached struct {
	block   int // its number from 1; 0 for none
	content []byte
}

// Open reads the places of the blocks of a file of size bytes.
func Open(r io.ReaderAt, size int64) (*Reader, error) {
	z := &Reader{r: r}
	for at := int64(0); at < size || at == 0; {
		b, err := readBlock(r, at, size)
		if err != nil {
			return nil, err
		}
		b.start = z.size
		z.blocks = append(z.blocks, b)
		z.size += b.holds
		at += b.length
	}
	return z, nil
}

// readBlock reads the ends of the member that begins at a place.
func readBlock(r io.ReaderAt, at, size int64) (block, error) {
	var head [headSize]byte
	var tail [4]byte
	if err := readFull(r, head[:], at); err != nil {
		return block{}, err
	}
	length := int64(binary.LittleEndian.Uint32(head[lengthAt:]))
	switch {
	case !bytes.Equal(head[:4], []byte{0x1f, 0x8b, 8, hasFields}), !bytes.Equal(head[fieldsAt:lengthAt], []byte{lengthID[0], lengthID[1], 4, 0}):
		return block{}, errFormat
	case length < headSize+tailSize || at+length > size:
		return block{}, errFormat
	}
	if err := readFull(r, tail[:], at+length-int64(len(tail))); err != nil {
		return block{}, err
	}
	content := int64(binary.LittleEndian.Uint32(tail[:]))
	if content > BlockSize {
		return block{}, errFormat
	}
	return block{at: at, length: length, holds: content}, nil
}

// readFull reads all of p; a file that ends before is not a file of blocks.
func readFull(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errFormat
	}
	return err
}

// ReadNote returns the note of a file, or nil.
func ReadNote(r io.ReaderAt) ([]byte, error) {
	var head [noteAt]byte
	if err := readFull(r, head[:headSize], 0); err != nil {
		return nil, err
	}
	fields := int(binary.LittleEndian.Uint16(head[10:]))
	if fields <= headSize-fieldsAt {
		return nil, nil
	}
	if err := readFull(r, head[headSize:], headSize); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint16(head[headSize+2:]))
	if head[headSize] != noteID[0] || head[headSize+1] != noteID[1] || fields != noteAt-fieldsAt+n {
		return nil, errFormat
	}
	note := make([]byte, n)
	return note, readFull(r, note, noteAt)
}

// Size returns the length of the content in bytes.
func (z *Reader) Size() int64 { return z.size }

// ReadAt implements [io.ReaderAt] on the content. Damage of a block is an error
// of each read in it.
func (z *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("a negative offset")
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for n < len(p) {
		if off >= z.size {
			return n, io.EOF
		}
		i, found := slices.BinarySearchFunc(z.blocks, off, func(b block, off int64) int { return cmp.Compare(b.start, off) })
		if !found {
			i--
		}
		for z.blocks[i].holds == 0 {
			i++ // an empty block has the start of the next one
		}
		content, err := z.content(i)
		if err != nil {
			return n, err
		}
		m := copy(p[n:], content[off-z.blocks[i].start:])
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// content returns the content of a block. The caller holds z.mu.
func (z *Reader) content(i int) ([]byte, error) {
	if z.cache[0].block == i+1 {
		return z.cache[0].content, nil
	}
	z.cache[0], z.cache[1] = z.cache[1], z.cache[0]
	if z.cache[0].block == i+1 {
		return z.cache[0].content, nil
	}
	b := z.blocks[i]
	content := slices.Grow(z.cache[0].content[:0], int(b.holds))[:b.holds]
	z.cache[0] = cached{}
	if err := z.unpack(content, io.NewSectionReader(z.r, b.at, b.length)); err != nil {
		return nil, fmt.Errorf("block %d at byte %d: %w", i, b.at, err)
	}
	z.cache[0] = cached{i + 1, content}
	return content, nil
}

// unpack fills content with the content of a member, whose length must match.
func (z *Reader) unpack(content []byte, member io.Reader) (err error) {
	if z.zip == nil {
		z.zip = new(gzip.Reader)
	}
	if err := z.zip.Reset(member); err != nil {
		return err
	}
	z.zip.Multistream(false)
	if _, err := io.ReadFull(z.zip, content); err != nil && len(content) > 0 {
		return err
	}
	var more [1]byte
	if n, err := z.zip.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return cmp.Or(err, errFormat)
	}
	return nil
}
