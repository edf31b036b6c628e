package filedriver

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

const (
	copySize = 256 << 10

	// The row of an archive is the only subfield of its Extra, whose length has 16 bits.
	rowID     = "CN"
	rowAt     = len(rowID) + 2
	maxRowLen = 1<<16 - 1 - rowAt
)

// hasArchive reports whether there is an archive of a session. While there is a
// transcript too, it does not count.
func (a *agent) hasArchive(id string) (bool, error) {
	info, err := a.root.Lstat(archiveName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, a.d.wrap("find session "+id, filepath.Join(a.dir, archiveName(id)), err, "check that this user may read it")
	}
	return info.Mode().IsRegular(), nil
}

func (a *agent) archivedError(id string) error {
	return a.d.wrap("write session "+id, filepath.Join(a.dir, archiveName(id)), driver.ErrArchived, "nothing was written; restore it first")
}

// archivedSize returns the size of the transcript in an archive.
func (a *agent) archivedSize(f found) (int64, error) {
	o, err := a.open(f)
	if err != nil {
		return 0, err
	}
	o.close()
	return o.size, nil
}

// A packed is the archive of a transcript, in the making until it is installed.
type packed struct {
	*filelog.Draft
	row  driver.Row
	file fs.FileInfo // of the transcript, when nothing was being appended
}

// newPacked begins the archive of a session with a row and a file. The caller holds the
// lock of the index, so that a deletion or an erase finds the archive.
func (a *agent) newPacked(row driver.Row, file fs.FileInfo) (*packed, error) {
	if err := a.d.folder("agents/"+filepath.Base(a.dir)+"/"+archiveFolder, true); err != nil {
		return nil, err
	}
	if err := cmp.Or(a.syncFolders(), filelog.SyncDir(a.root, ".")); err != nil { // the latter for the archives
		return nil, err
	}
	name := archiveName(row.ID)
	if err := filelog.RemoveTemps(a.root, name); err != nil {
		return nil, err
	}
	draft, err := filelog.NewDraft(a.root, name)
	if err != nil {
		return nil, err
	}
	row.Archived = true
	return &packed{Draft: draft, row: row, file: file}, nil
}

// holds reports whether an archive can be installed that holds a transcript as it is: no
// committed byte of a file changes, and a copy that cures a failed sync is another file.
// The caller holds the lock of the index and the append lock.
func (p *packed) holds(now fs.FileInfo) bool {
	return now.Size() == p.row.Size && p.file.Size() == p.row.Size && now.ModTime().Equal(p.file.ModTime()) &&
		os.SameFile(now, p.file) && p.Named()
}

// pack writes the archive of a transcript up to the size in its row. When the error
// is nil, the archive holds the same bytes and is on stable storage, except for its
// name.
func (a *agent) pack(p *packed, r io.ReaderAt) error {
	a.d.at("archive: write")
	out := bufio.NewWriterSize(p, copySize)
	zip := gzip.NewWriter(out)
	if note, _ := json.Marshal(storable(p.row)); len(note) <= maxRowLen { // else the index is made again from the content
		zip.Extra = append([]byte{rowID[0], rowID[1], byte(len(note)), byte(len(note) >> 8)}, note...)
	}
	sum, err := copySum(zip, r, p.row.Size)
	a.d.at("archive: written")
	if err = cmp.Or(err, zip.Close(), out.Flush()); err != nil {
		return err
	}
	size, err := p.Sync()
	if err != nil {
		return err
	}
	a.d.at("archive: verify")
	z, err := openZip(p, size)
	if err != nil {
		return err
	}
	return same(z, z.size, sum.Sum(nil))
}

// unpack writes the transcript of an archive. When the error is nil the transcript
// is on stable storage and has the same bytes.
func (a *agent) unpack(f found) error {
	z, err := a.open(f)
	if err != nil {
		return err
	}
	defer z.close()
	out, err := filelog.NewDraft(a.sess, fileName(f.id))
	if err != nil {
		return err
	}
	defer out.Discard()
	a.d.at("restore: write")
	sum, err := copySum(out, z, z.size)
	a.d.at("restore: written")
	if err != nil {
		return err
	}
	size, err := out.Sync()
	if err != nil {
		return err
	}
	a.d.at("restore: verify")
	if err := same(out, size, sum.Sum(nil)); err != nil {
		return err
	}
	a.d.at("restore: rename")
	return out.Install()
}

// copySum copies the first size bytes of r, and returns their hash.
func copySum(w io.Writer, r io.ReaderAt, size int64) (hash.Hash, error) {
	sum := sha256.New()
	_, err := io.CopyBuffer(io.MultiWriter(w, sum), io.NewSectionReader(r, 0, size), make([]byte, copySize))
	return sum, err
}

// same returns an error unless the first size bytes of r have a hash.
func same(r io.ReaderAt, size int64, sum []byte) error {
	again, err := copySum(io.Discard, r, size)
	if err == nil && !bytes.Equal(again.Sum(nil), sum) {
		err = errors.New("other bytes were written than are there")
	}
	return err
}

// removeBeside removes the archive of a session that has a transcript, if the transcript
// begins with all its lines. Otherwise, as after a partial restore from a backup, the
// archive may be the only copy of some lines.
func (a *agent) removeBeside(id string) error {
	f, err := a.stat(id)
	if err != nil || f.archived {
		return nil // the transcript was not announced
	}
	has, err := a.hasArchive(id)
	if has {
		archive := found{file: archiveName(id), id: id, archived: true}
		err = a.d.wrap("remove archive", a.path(archive), a.continues(f, archive), "the transcript beside it counts; inspect both and move one of them away")
		if err == nil {
			err = filelog.SyncDir(a.sess, ".") // the process that made the transcript may have been killed before it
		}
	}
	if err != nil {
		return err
	}
	return a.removeArchive(id)
}

// continues returns an error unless a transcript begins with all lines of an archive.
func (a *agent) continues(transcript, archive found) error {
	was, err := a.open(archive)
	if err != nil {
		return err
	}
	defer was.close()
	now, err := a.open(transcript)
	if err != nil {
		return err
	}
	defer now.close()
	sum, err := copySum(io.Discard, was, was.size)
	if err == nil && (now.size < was.size || same(now, was.size, sum.Sum(nil)) != nil) {
		err = errors.New("it has lines that the transcript lacks")
	}
	return err
}

// removeArchive removes the archive of a session, if there is one, and any other one
// in the making. It syncs nothing: an archive that returns after a power cut does not
// count next to a transcript. The caller holds the lock of the index: a process that
// makes an archive finds out before it installs it.
func (a *agent) removeArchive(id string) error {
	name := archiveName(id)
	for _, err := range []error{a.root.Remove(name), filelog.RemoveDrafts(a.root, name)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.d.wrap("remove archive", filepath.Join(a.dir, name), err, "")
		}
	}
	return nil
}

// A zipped reads the content of an archive, which is unpacked from the beginning again for
// a place before the last one.
type zipped struct {
	file *io.SectionReader
	zip  *gzip.Reader
	at   int64 // the place that zip is at
	size int64 // of the content

	row driver.Row // of the header; the ID is empty if it does not hold one
}

// openZip opens an archive that has a size.
func openZip(r io.ReaderAt, size int64) (*zipped, error) {
	z := &zipped{file: io.NewSectionReader(r, 0, size)}
	if err := z.rewind(); err != nil {
		return nil, err
	}
	if extra := z.zip.Extra; len(extra) > rowAt && string(extra[:len(rowID)]) == rowID {
		if err := json.Unmarshal(extra[rowAt:], &z.row); err != nil {
			return nil, err
		}
		z.row.Archived = true
	}
	if z.size = z.row.Size; z.row.ID != "" && z.size > 0 {
		return z, nil
	}
	z.row, z.at = driver.Row{}, -1
	var err error
	z.size, err = io.Copy(io.Discard, z.zip)
	return z, err
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
	if err == nil && z.at == z.size { // the checksum is behind all of it
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
		return 0, err // after n bytes a reader would ignore it
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
