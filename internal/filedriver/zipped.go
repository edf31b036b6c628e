package filedriver

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash"
	"io"

	"github.com/convolog/convolog/session/driver"
)

const (
	copySize = 256 << 10

	// The Extra of an archive has two subfields: the sum of the mark of its content, and
	// the row. The length of a subfield has 16 bits, and so has the length of the Extra.
	sumID     = "CE"
	rowID     = "CN"
	sumAt     = len(sumID) + 2
	sumEnd    = sumAt + 8
	rowAt     = sumEnd + len(rowID) + 2
	maxRowLen = 1<<16 - 1 - rowAt
)

// A zipped reads the content of an archive. Going back, it unpacks from the beginning
// again.
type zipped struct {
	file *io.SectionReader
	zip  *gzip.Reader
	at   int64 // the place that zip is at: moved by ReadAt and rewind; below 0 it must be rewound

	row  driver.Row // of the header; the ID is empty if it does not hold one
	mark            // of the content
}

// openZip opens an archive that has a size.
func openZip(r io.ReaderAt, size int64) (*zipped, error) {
	z := &zipped{file: io.NewSectionReader(r, 0, size)}
	if err := z.rewind(); err != nil {
		return nil, err
	}
	extra := z.zip.Extra
	if len(extra) < sumEnd || string(extra[:len(sumID)]) != sumID {
		return nil, errors.New("its header is not the header of an archive")
	}
	z.sum = binary.LittleEndian.Uint64(extra[sumAt:])
	if len(extra) > rowAt {
		if err := json.Unmarshal(extra[rowAt:], &z.row); err != nil {
			return nil, err
		}
		z.row.Archived = true
	}
	if z.size = z.row.Size; z.row.ID == "" || z.size <= 0 {
		z.row, z.at = driver.Row{}, -1
		var err error
		if z.size, err = io.Copy(io.Discard, z.zip); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// extra returns the Extra of the archive of a transcript.
func extra(row driver.Row, r io.ReaderAt) ([]byte, error) {
	m, err := markOf(r, row.Size)
	if err != nil {
		return nil, err
	}
	data := append([]byte(sumID), 8, 0)
	data = binary.LittleEndian.AppendUint64(data, m.sum)
	if note, _ := json.Marshal(storable(row)); len(note) <= maxRowLen { // else the content gives the row
		data = append(data, rowID...)
		data = binary.LittleEndian.AppendUint16(data, uint16(len(note)))
		data = append(data, note...)
	}
	return data, nil
}

func (z *zipped) rewind() (err error) {
	if _, err = z.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z.zip, err = gzip.NewReader(bufio.NewReaderSize(z.file, copySize))
	z.at = 0
	return err
}

// ReadAt implements [io.ReaderAt] on the content.
func (z *zipped) ReadAt(p []byte, off int64) (n int, err error) {
	want := min(int64(len(p)), z.size-off)
	if want <= 0 {
		return 0, io.EOF
	}
	if z.at < 0 || z.at > off {
		if err := z.rewind(); err != nil {
			return 0, err
		}
	}
	skipped, err := io.CopyN(io.Discard, z.zip, off-z.at)
	if err == nil {
		n, err = io.ReadFull(z.zip, p[:want])
	}
	z.at += skipped + int64(n)
	if err == nil && z.at == z.size { // the checksum follows all content
		if _, err = io.ReadFull(z.zip, make([]byte, 1)); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("it is longer than its header says")
		}
		z.at = -1
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 0, errors.New("it is cut short")
	case err != nil:
		return 0, err // with n bytes a reader would ignore it
	case n < len(p):
		err = io.EOF
	}
	return n, err
}

// load returns all of the content, for reading it backward.
func (z *zipped) load() (*bytes.Reader, error) {
	var all bytes.Buffer
	_, err := io.Copy(&all, io.NewSectionReader(z, 0, z.size))
	return bytes.NewReader(all.Bytes()), err
}

// copySum copies the first size bytes of r, and returns their hash.
func copySum(w io.Writer, r io.ReaderAt, size int64) (hash.Hash, error) {
	sum := sha256.New()
	_, err := io.CopyBuffer(io.MultiWriter(w, sum), io.NewSectionReader(r, 0, size), make([]byte, copySize))
	return sum, err
}

// same returns an error unless the first size bytes of r have the hash sum.
func same(r io.ReaderAt, size int64, sum []byte) error {
	again, err := copySum(io.Discard, r, size)
	if err == nil && !bytes.Equal(again.Sum(nil), sum) {
		err = errors.New("other bytes were written than are there")
	}
	return err
}
