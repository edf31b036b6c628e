package filelog

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// A tape records what a log does to its files and its folder, and when it
// acknowledged what, and says which states a crash at each moment may leave.
type tape struct {
	root    *os.Root
	moments []moment
	drop    func(op string) bool // operations that a naive writer leaves out
	failAt  int                  // the sync that fails; what it was to save is lost
	syncs   int
	files   []*tapeFile
}

// A tapeFile is one file, whatever its name.
type tapeFile struct {
	n      int // its place in tape.files
	id     fs.FileInfo
	named  bool
	losses int // syncs of it that failed
}

// A moment is an operation or an acknowledgement.
type moment struct {
	op    string // write, truncate, sync, lose, move, sync folder, ack
	file  int    // which
	off   int64  // of a write; the size of a truncate
	data  []byte // of a write or of what was acknowledged
	atEnd int64  // where what was acknowledged ends
}

func (p *tape) add(m moment) {
	if p.drop == nil || !p.drop(m.op) {
		p.moments = append(p.moments, m)
	}
}

// ack records that lines were acknowledged, at the offsets that Append gave.
func (p *tape) ack(start, end int64, lines string) {
	p.add(moment{op: "ack", off: start, atEnd: end, data: []byte(lines)})
}

func (p *tape) seam(mutate func(file) file) *seam {
	return &seam{
		step: func(op string) error {
			last := len(p.files) - 1 // the one that was made last is moved
			if op == "move" {
				p.files[last].named = true
			}
			if op == "move" || op == "sync folder" {
				p.add(moment{op: op, file: last})
			}
			return nil
		},
		wrap: func(inner file) file {
			t := p.file(inner)
			var f file = &tapedFile{inner, p, t, t.losses}
			if mutate != nil {
				f = mutate(f)
			}
			return f
		},
	}
}

// file returns what is known of a file. One that has no name yet is new,
// whatever had its number before.
func (p *tape) file(f file) *tapeFile {
	id, err := f.Stat()
	if err != nil {
		panic(err)
	}
	for _, t := range slices.Backward(p.files) {
		if t.named && os.SameFile(t.id, id) {
			return t
		}
	}
	t := &tapeFile{n: len(p.files), id: id}
	p.files = append(p.files, t)
	return t
}

type tapedFile struct {
	file
	p     *tape
	t     *tapeFile
	knows int // of how many losses
}

func (f *tapedFile) Write(b []byte) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	n, err := f.file.Write(b)
	f.p.add(moment{op: "write", file: f.t.n, off: info.Size(), data: slices.Clone(b[:n])})
	return n, err
}

func (f *tapedFile) Truncate(size int64) error {
	f.p.add(moment{op: "truncate", file: f.t.n, off: size})
	return f.file.Truncate(size)
}

func (f *tapedFile) Sync() error {
	f.p.syncs++
	if f.p.syncs == f.p.failAt {
		f.t.losses++
		f.p.add(moment{op: "lose", file: f.t.n})
	}
	if f.knows < f.t.losses { // every open file is told once
		f.knows = f.t.losses
		return errFault
	}
	f.p.add(moment{op: "sync", file: f.t.n})
	return nil
}

// A disk is what is on it after some moments, and what is only in memory.
type disk struct {
	safe [][]byte   // on stable storage, of each file
	todo [][]moment // writes and truncates since
	name [2]int     // the file that has the name, plus one: in memory, and on stable storage
}

func (d *disk) take(m moment) {
	for len(d.safe) <= m.file {
		d.safe, d.todo = append(d.safe, nil), append(d.todo, nil)
	}
	switch n := m.file; m.op {
	case "move":
		d.name[0] = n + 1
	case "sync folder":
		d.name[1] = d.name[0]
	case "sync":
		d.safe[n], d.todo[n] = d.content(n), nil
	case "lose": // the kernel believes that it is saved, and it is not
		now := d.content(n)
		for _, w := range d.todo[n] {
			if w.op == "write" {
				lost := now[min(w.off, int64(len(now))):min(w.off+int64(len(w.data)), int64(len(now)))]
				clear(lost)
				copy(lost, d.safe[n][min(w.off, int64(len(d.safe[n]))):])
			}
		}
		d.safe[n], d.todo[n] = now, nil
	case "write", "truncate":
		d.todo[n] = append(d.todo[n], m)
	}
}

// content is what readers see of a file.
func (d *disk) content(n int) []byte { return replay(d.safe[n], d.todo[n]) }

// A leftover is a state of the file, and what must be in it.
type leftover struct {
	content []byte
	gone    bool // it has no name
	acked   []moment
	after   int // the number of the moment it was left by
}

// leftovers yields every state that a crash may leave: the end of a process,
// after which a part of the last write may be missing, or a power cut, after
// which of what was not synced any part may.
func (p *tape) leftovers(kill bool, yield func(leftover)) {
	var (
		d     disk
		acked []moment
	)
	for i, m := range p.moments {
		if m.op == "ack" {
			acked = append(acked, m)
		} else {
			d.take(m)
		}
		left := func(content []byte, gone bool) {
			yield(leftover{content, gone, acked, i})
		}
		if d.name[0] == 0 {
			left(nil, true)
			continue
		}
		d.leftovers(d.name[0]-1, kill, m, left)
		switch {
		case kill || d.name[0] == d.name[1]:
		case d.name[1] == 0:
			left(nil, true)
		default: // the file that had the name before may have it again
			d.leftovers(d.name[1]-1, kill, m, left)
		}
	}
}

// leftovers yields the states of one file after the moment m.
func (d *disk) leftovers(n int, kill bool, m moment, left func(content []byte, gone bool)) {
	safe, todo := d.safe[n], d.todo[n]
	whole := replay(safe, todo)
	left(whole, false)
	if len(todo) == 0 || m.op == "ack" && kill {
		return
	}
	last := todo[len(todo)-1]
	before := replay(safe, todo[:len(todo)-1])
	for cut := 0; last.op == "write" && cut < len(last.data); cut++ {
		if len(last.data) > 8<<10 && (last.off+int64(cut)+1)%512 > 2 {
			continue // only at its sectors and beside them
		}
		torn := replay(before, []moment{{op: "write", off: last.off, data: last.data[:cut]}})
		left(torn, false)
		if !kill { // the size came before the data
			left(append(torn, make([]byte, max(0, len(whole)-len(torn)))...), false)
		}
	}
	if kill {
		return
	}
	for k := range todo { // only the first ones
		left(replay(safe, todo[:k]), false)
	}
	for at := int64(len(safe)) / 512 * 512; at < int64(len(whole)); at += 512 { // a sector is missing
		hole := slices.Clone(whole)
		clear(hole[max(at, int64(len(safe))):min(at+512, int64(len(hole)))])
		left(hole, false)
	}
}

// replay returns content after some changes; it leaves the slice alone.
func replay(content []byte, todo []moment) []byte {
	content = slices.Clone(content)
	for _, m := range todo {
		size := m.off + int64(len(m.data))
		if grow := size - int64(len(content)); grow > 0 {
			content = append(content, make([]byte, grow)...)
		}
		if m.op == "truncate" {
			content = content[:m.off]
		}
		copy(content[min(m.off, int64(len(content))):], m.data)
	}
	return content
}

// holds says what of the acknowledged lines is not in content where it was
// said to be, or is there more than once.
func (l leftover) holds(content []byte) error {
	for _, m := range l.acked {
		if m.atEnd > int64(len(content)) || !bytes.Equal(content[m.off:m.atEnd], m.data) {
			return fmt.Errorf("acknowledged %.40q is not at %d", m.data, m.off)
		}
		if m.off > 0 && content[m.off-1] != '\n' {
			return fmt.Errorf("acknowledged %.40q is glued to what is before it", m.data)
		}
		if bytes.Count(content, m.data) != 1 {
			return fmt.Errorf("acknowledged %.40q is there %d times", m.data, bytes.Count(content, m.data))
		}
	}
	return nil
}
