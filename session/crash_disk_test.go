//go:build linux && (amd64 || arm64)

package session_test

import (
	"bytes"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A disk knows which states a file system may show after a crash. It promises
// no more than POSIX: synced data is there; any part of the rest may be there,
// names in a folder independently of their files, and the size of a file
// independently of its content. A rename is atomic.
type disk struct {
	nodes   []*node
	names   map[string]int // path: node or folderNode
	folders map[string]*folder
	seq     int
	last    call
}

const (
	noNode     = -1
	folderNode = -2
)

// A node is a file, which may have several names.
type node struct {
	safe []byte // on stable storage
	todo []call // writes and truncates since
}

// A folder is the names in it.
type folder struct {
	safe map[string]int
	todo []naming
}

// A naming is one change of names that happens as a whole or not at all.
type naming struct {
	seq int
	set map[string]int
}

func newDisk() *disk {
	d := &disk{names: map[string]int{}, folders: map[string]*folder{}}
	d.folders["."] = &folder{safe: map[string]int{}}
	return d
}

// apply takes the next call.
func (d *disk) apply(c call) {
	d.last = c
	switch c.kind {
	case "mkdir":
		d.folders[c.path] = &folder{safe: map[string]int{}}
		d.name(map[string]int{c.path: folderNode})
	case "create":
		n, ok := d.names[c.path]
		if !ok {
			n = len(d.nodes)
			d.nodes = append(d.nodes, &node{})
			d.name(map[string]int{c.path: n})
		}
		if ok && c.trim {
			d.nodes[n].todo = append(d.nodes[n].todo, call{kind: "truncate"})
		}
	case "write", "truncate":
		if n, ok := d.names[c.path]; ok {
			d.nodes[n].todo = append(d.nodes[n].todo, c)
		}
	case "sync":
		if f := d.folders[c.path]; f != nil {
			for _, n := range f.todo {
				rename(f.safe, n.set)
			}
			f.todo = nil
		} else if n, ok := d.names[c.path]; ok {
			f := d.nodes[n]
			f.safe, f.todo = f.after(len(f.todo)), nil
		}
	case "rename":
		d.name(map[string]int{c.path: noNode, c.to: d.names[c.path]})
	case "link":
		d.name(map[string]int{c.to: d.names[c.path]})
	case "unlink":
		d.name(map[string]int{c.path: noNode})
	}
}

func (d *disk) name(set map[string]int) {
	rename(d.names, set)
	d.seq++
	for path := range set { // all in one folder
		f := d.folders[filepath.Dir(path)]
		f.todo = append(f.todo, naming{d.seq, set})
		return
	}
}

func rename(names, set map[string]int) {
	for path, n := range set {
		if n == noNode {
			delete(names, path)
		} else {
			names[path] = n
		}
	}
}

// after returns the content of a file after the first n changes that were not
// synced.
func (f *node) after(n int) []byte {
	b := slices.Clone(f.safe)
	for _, c := range f.todo[:n] {
		b = change(b, c)
	}
	return b
}

func change(b []byte, c call) []byte {
	end := c.off + int64(len(c.data))
	if c.kind == "truncate" {
		end = c.size
	}
	if grow := end - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if c.kind == "truncate" {
		return b[:end]
	}
	copy(b[c.off:], c.data)
	return b
}

const sector = 512

// tears reports whether a write is torn after cut bytes: a small one every
// stride bytes and near its ends, a large one at its sectors and beside them.
func tears(c call, cut, stride int) bool {
	switch {
	case cut < 3 || cut > len(c.data)-4:
		return true
	case len(c.data) <= 8*sector:
		return cut%stride == 0
	}
	at := (c.off + int64(cut)) % int64(sector*max(1, stride/16))
	return (at+1)%sector <= 2 && at < sector
}

// contents returns the possible contents of a file: the synced part, and of the
// rest all, nothing, the first changes, a prefix of the last one, some sectors
// and not others, or its size alone. Tears explains stride.
func (f *node) contents(stride int) [][]byte {
	n := len(f.todo)
	all := [][]byte{f.after(n)}
	for i := range n {
		all = append(all, f.after(i))
	}
	if n == 0 {
		return all
	}
	last := f.todo[n-1]
	before := f.after(n - 1)
	if last.kind == "write" {
		for cut := range len(last.data) {
			at := last.off + int64(cut)
			if !tears(last, cut, stride) {
				continue
			}
			torn := last
			torn.data = last.data[:cut]
			b := change(slices.Clone(before), torn)
			all = append(all, b)
			if at%sector == 0 || cut%(stride*16) == 0 || cut == len(last.data)-1 { // and the size has grown
				all = append(all, append(slices.Clone(b), make([]byte, len(last.data)-cut)...))
			}
		}
	}
	whole := all[0]
	first := int64(len(f.safe)) // of what is not synced
	if first < int64(len(whole)) {
		b := slices.Clone(whole)
		clear(b[first:])
		all = append(all, b)
		for at := first / sector * sector; at < int64(len(whole)); at += sector {
			b := slices.Clone(whole)
			clear(b[max(at, first):min(at+sector, int64(len(b)))])
			all = append(all, b)
		}
	}
	return all
}

// An image is all folders and files of one state. Folders have no content.
// Images share contents, which never change.
type image map[string][]byte

// states calls yield with the states that the disk may show after a power cut.
// If kill is set, they are those after the end of the process: everything is
// there but a part of the last write.
func (d *disk) states(kill bool, stride int, yield func(image)) {
	if kill {
		if n, ok := d.names[d.last.path]; ok && d.last.kind == "write" {
			f := d.nodes[n]
			for cut := range d.last.data {
				if c := d.last; tears(c, cut, stride) {
					c.data = c.data[:cut]
					yield(d.image(d.names, map[int][]byte{n: change(f.after(len(f.todo)-1), c)}))
				}
			}
		}
		yield(d.image(d.names, nil))
		return
	}
	for names := range d.namings {
		var open []int // files with a choice
		for n, f := range d.nodes {
			if len(f.todo) > 0 && slices.Contains(slices.Collect(maps.Values(names)), n) {
				open = append(open, n)
			}
		}
		latest := maps.Equal(names, d.names)
		for bits := range 1 << min(len(open), 4) { // of each file all or nothing
			some := map[int][]byte{}
			for i, n := range open {
				if bits>>min(i, 3)&1 == 0 {
					some[n] = d.nodes[n].safe
				}
			}
			yield(d.image(names, some))
			for i, n := range open {
				if bits>>min(i, 3)&1 == 0 {
					continue // once is enough
				}
				step := stride
				if !latest {
					step *= 32
				}
				for _, b := range d.nodes[n].contents(step) {
					some[n] = b
					yield(d.image(names, some))
				}
				delete(some, n)
			}
		}
	}
}

// namings yields the possible sets of names: any subset of the changes that
// were not synced, in order. Of many changes it yields the first n, and all but
// one.
func (d *disk) namings(yield func(names map[string]int) bool) {
	var todo []naming
	safe := map[string]int{}
	for _, f := range d.folders {
		todo = append(todo, f.todo...)
		rename(safe, f.safe)
	}
	slices.SortFunc(todo, func(a, b naming) int { return a.seq - b.seq })
	pick := func(has func(i int) bool) bool {
		names := maps.Clone(safe)
		for i, n := range todo {
			if has(i) {
				rename(names, n.set)
			}
		}
		return yield(names)
	}
	if len(todo) <= 6 {
		for bits := range 1 << len(todo) {
			if !pick(func(i int) bool { return bits>>i&1 == 1 }) {
				return
			}
		}
		return
	}
	for k := range len(todo) + 1 {
		if !pick(func(i int) bool { return i < k }) || !pick(func(i int) bool { return i != k }) {
			return
		}
	}
}

// image makes an image. Files below a missing folder are missing too. Contents
// are those of files that lack a part of their writes.
func (d *disk) image(names map[string]int, contents map[int][]byte) image {
	img := make(image, len(names))
	for path, n := range names {
		if orphan(names, path) {
			continue
		}
		if n == folderNode {
			img[path] = nil
			continue
		}
		b, ok := contents[n]
		if !ok {
			b = d.nodes[n].after(len(d.nodes[n].todo))
		}
		if b == nil {
			b = []byte{} // nil is a folder
		}
		img[path] = b
	}
	return img
}

// orphan reports whether a folder is missing that a path is in.
func orphan(names map[string]int, path string) bool {
	dir := filepath.Dir(path)
	return dir != "." && (names[dir] != folderNode || orphan(names, dir))
}

var imageSeed = maphash.MakeSeed()

// sum distinguishes images. It is not a cryptographic hash: hashing is most of
// what a state costs that is generated and not tried.
func (img image) sum() uint64 {
	var sum uint64
	for path, b := range img {
		var h maphash.Hash
		h.SetSeed(imageSeed)
		_, _ = h.WriteString(path)
		maphash.WriteComparable(&h, b == nil)
		_, _ = h.Write(b)
		sum += h.Sum64() // in any order
	}
	return sum
}

// rebooted returns the image as the next boot of the system finds it: the index
// names the one before.
func (img image) rebooted() image {
	img = maps.Clone(img)
	for path, b := range img {
		if filepath.Base(path) == "sessions.jsonl" && len(b) > 0 {
			img[path] = bytes.Replace(b, []byte(`"boot":"`), []byte(`"boot":"-`), 1)
		}
	}
	return img
}

// write puts an image into an empty folder.
func (img image) write(dir string) error {
	for _, path := range slices.Sorted(maps.Keys(img)) {
		var err error
		if b := img[path]; b == nil {
			err = os.Mkdir(filepath.Join(dir, path), 0o700)
		} else {
			err = os.WriteFile(filepath.Join(dir, path), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readImage reads one from a folder.
func readImage(dir string) (image, error) {
	img := image{}
	return img, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			img[name] = nil
			return nil
		}
		b, err := os.ReadFile(path)
		img[name] = append(make([]byte, 0, 1), b...)
		return err
	})
}

// differs names a file in which two images differ.
func (img image) differs(other image) (path string, ok bool) {
	for path := range img {
		if b, there := other[path]; !there || !bytes.Equal(b, img[path]) || (b == nil) != (img[path] == nil) {
			return path, true
		}
	}
	for path := range other {
		if _, there := img[path]; !there {
			return path, true
		}
	}
	return "", false
}
