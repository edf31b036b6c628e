//go:build linux && (amd64 || arm64)

package storetest

import (
	"maps"
	"path/filepath"
	"slices"
)

// A Disk yields the states that a file system may have after a crash. It promises no more
// than POSIX: synced data is there, and any part of other data may be there. Names in a
// folder are independent of their files, and the size of a file is independent of its
// content. A rename is atomic.
type Disk struct {
	nodes   []*node
	names   map[string]int // the node of each path, or folderNode
	folders map[string]*folder
	seq     int
	last    Call
}

const (
	noNode     = -1
	folderNode = -2
)

// A node is a file, which may have several names.
type node struct {
	safe []byte // the content on stable storage
	todo []Call // later writes and truncates
}

// A folder holds the names in it.
type folder struct {
	safe map[string]int
	todo []naming
}

// A naming is an atomic change of names.
type naming struct {
	seq int
	set map[string]int
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	d := &Disk{names: map[string]int{}, folders: map[string]*folder{}}
	d.folders["."] = &folder{safe: map[string]int{}}
	return d
}

// Apply applies the next call to the disk.
func (d *Disk) Apply(c Call) {
	d.last = c
	switch c.Kind {
	case "mkdir":
		d.folders[c.Path] = &folder{safe: map[string]int{}}
		d.name(map[string]int{c.Path: folderNode})
	case "create":
		n, ok := d.names[c.Path]
		if !ok {
			n = len(d.nodes)
			d.nodes = append(d.nodes, &node{})
			d.name(map[string]int{c.Path: n})
		}
		if ok && c.trim {
			d.nodes[n].todo = append(d.nodes[n].todo, Call{Kind: "truncate"})
		}
	case "write", "truncate":
		if n, ok := d.names[c.Path]; ok {
			d.nodes[n].todo = append(d.nodes[n].todo, c)
		}
	case "sync":
		if f := d.folders[c.Path]; f != nil {
			for _, n := range f.todo {
				rename(f.safe, n.set)
			}
			f.todo = nil
		} else if n, ok := d.names[c.Path]; ok {
			f := d.nodes[n]
			f.safe, f.todo = f.after(len(f.todo)), nil
		}
	case "rename":
		d.name(map[string]int{c.Path: noNode, c.to: d.names[c.Path]})
	case "link":
		d.name(map[string]int{c.to: d.names[c.Path]})
	case "unlink":
		d.name(map[string]int{c.Path: noNode})
	}
}

func (d *Disk) name(set map[string]int) {
	rename(d.names, set)
	d.seq++
	for path := range set { // all paths are in one folder
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

// after returns the content of a file after the first n unsynced changes.
func (f *node) after(n int) []byte {
	b := slices.Clone(f.safe)
	for _, c := range f.todo[:n] {
		b = change(b, c)
	}
	return b
}

func change(b []byte, c Call) []byte {
	end := c.off + int64(len(c.data))
	if c.Kind == "truncate" {
		end = c.size
	}
	if grow := end - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if c.Kind == "truncate" {
		return b[:end]
	}
	copy(b[c.off:], c.data)
	return b
}

const sector = 512

// tears reports whether to tear a write after cut bytes. A small write is torn every stride
// bytes and near its ends, a large write near its ends and at and next to some sectors.
func tears(c Call, cut, stride int) bool {
	switch {
	case cut < 3 || cut > len(c.data)-4:
		return true
	case len(c.data) <= 8*sector:
		return cut%stride == 0
	}
	at := (c.off + int64(cut)) % int64(sector*max(1, stride/16))
	return (at+1)%sector <= 2 && at < sector
}

// contents returns possible contents of a file: the synced part, and of the unsynced part
// everything, nothing, the first changes, a prefix of the last change, all but a sector,
// or only the size. See tears for stride.
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
	if last.Kind == "write" {
		for cut := range len(last.data) {
			at := last.off + int64(cut)
			if !tears(last, cut, stride) {
				continue
			}
			torn := last
			torn.data = last.data[:cut]
			b := change(slices.Clone(before), torn)
			all = append(all, b)
			if at%sector == 0 || cut%(stride*16) == 0 || cut == len(last.data)-1 { // the same with the full size
				all = append(all, append(slices.Clone(b), make([]byte, len(last.data)-cut)...))
			}
		}
	}
	whole := all[0]
	first := int64(len(f.safe)) // the beginning of unsynced data
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

// States calls yield with the states that the disk may have after a power cut. If kill is
// set, it calls yield with the states after the end of the process, in which only a part of
// the last write may be missing.
func (d *Disk) States(kill bool, stride int, yield func(Image)) {
	if kill {
		if n, ok := d.names[d.last.Path]; ok && d.last.Kind == "write" {
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
		var open []int // files with unsynced changes
		for n, f := range d.nodes {
			if len(f.todo) > 0 && slices.Contains(slices.Collect(maps.Values(names)), n) {
				open = append(open, n)
			}
		}
		latest := maps.Equal(names, d.names)
		for bits := range 1 << min(len(open), 4) { // all or no changes of each file
			some := map[int][]byte{}
			for i, n := range open {
				if bits>>min(i, 3)&1 == 0 {
					some[n] = d.nodes[n].safe
				}
			}
			yield(d.image(names, some))
			for i, n := range open {
				if bits>>min(i, 3)&1 == 0 {
					continue // the other value of the bit tries these contents
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

// namings yields the possible sets of names: those after any subset of the unsynced
// changes, in order. If there are many changes, the subsets are the first n changes, and
// all changes but one.
func (d *Disk) namings(yield func(names map[string]int) bool) {
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

// image makes an image. Files below a missing folder are also missing. contents holds the
// contents of files that lack a part of their writes.
func (d *Disk) image(names map[string]int, contents map[int][]byte) Image {
	img := make(Image, len(names))
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

// orphan reports whether a folder on a path is missing.
func orphan(names map[string]int, path string) bool {
	dir := filepath.Dir(path)
	return dir != "." && (names[dir] != folderNode || orphan(names, dir))
}
