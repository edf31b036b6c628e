package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packed ends the name of a compressed file.
const packed = ".zst"

// unpacked is a folder in which compressed transcripts are decompressed: under their
// names without .zst, unless such a file is there already.
type unpacked struct {
	fs.FS

	root string
	zstd string // the program
}

// withZstd returns the files of a folder, without compressed ones if the program zstd is
// missing.
func withZstd(root string) fs.FS {
	files := os.DirFS(root)
	program, err := exec.LookPath("zstd")
	if err != nil {
		return files
	}
	return unpacked{files, root, program}
}

// ReadDir implements [fs.ReadDirFS].
func (u unpacked) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(u.FS, name)
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	for i, e := range entries {
		if plain, ok := strings.CutSuffix(e.Name(), packed); ok && strings.HasSuffix(plain, ".jsonl") && e.Type().IsRegular() && !there[plain] {
			entries[i] = entry{e, plain}
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// entry is the entry of a compressed file under its other name.
type entry struct {
	fs.DirEntry

	name string
}

func (e entry) Name() string { return e.name }

// Open implements [fs.FS].
func (u unpacked) Open(name string) (fs.File, error) {
	f, err := u.FS.Open(name)
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(name, ".jsonl") {
		return f, err
	}
	if _, missing := fs.Stat(u.FS, name+packed); missing != nil {
		return nil, err
	}
	return u.decompress(name)
}

func (u unpacked) decompress(name string) (_ fs.File, err error) {
	out, err := os.CreateTemp("", "convolog-*.jsonl")
	if err != nil {
		return nil, err
	}
	f := temporary{out}
	var said bytes.Buffer
	cmd := exec.Command(u.zstd, "-dcq", "--", filepath.Join(u.root, filepath.FromSlash(name+packed)))
	cmd.Stdout, cmd.Stderr = out, &said
	if err = cmd.Run(); err == nil {
		_, err = out.Seek(0, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("zstd -d %s: %w: %s", name+packed, err, bytes.TrimSpace(said.Bytes())), f.Close())
	}
	return f, nil
}

// temporary is a file that ends when it is closed.
type temporary struct{ *os.File }

// Close implements [fs.File].
func (t temporary) Close() error { return errors.Join(t.File.Close(), os.Remove(t.Name())) }
