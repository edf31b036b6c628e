package filedriver

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// A packed is an archive that is not installed yet.
type packed struct {
	*filelog.Draft
	row  driver.Row
	file fs.FileInfo // of the transcript, at a time without an append
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

// holds reports whether an archive holds the present transcript and can be installed:
// committed bytes of a file never change, and a copy that cures a failed sync is another
// file. The caller holds the lock of the index and the append lock.
func (p *packed) holds(now fs.FileInfo) bool {
	return now.Size() == p.row.Size && p.file.Size() == p.row.Size && now.ModTime().Equal(p.file.ModTime()) &&
		os.SameFile(now, p.file) && p.Named()
}

// pack writes the archive of a transcript up to the size in its row. When the error
// is nil, the archive holds the same bytes and is on stable storage, except for its
// name.
func (a *agent) pack(p *packed, r io.ReaderAt) error {
	a.d.at("archive: write")
	header, err := extra(p.row, r)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(p, copySize)
	zip := gzip.NewWriter(out)
	zip.Extra = header
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

// removeBeside removes the archive beside a transcript that begins with all the lines of
// the archive. It fails if one does not: after a partial restore from a backup, the archive
// may be the only copy of some lines.
func (a *agent) removeBeside(id string) error {
	f, err := a.stat(id)
	if err != nil || f.archived {
		return nil // no transcript was found
	}
	has, err := a.hasArchive(id)
	if has {
		archive := found{file: archiveName(id), id: id, archived: true}
		err = a.d.wrap("remove archive", a.path(archive), a.continues(f, archive), "the transcript beside it counts; inspect both and move one of them away")
		if err == nil {
			err = filelog.SyncDir(a.sess, ".") // the maker of the transcript may not have done so
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
