package filelog

import (
	"bytes"
	"fmt"
	"slices"
)

// A tape records what one log does to its file and its folder, and when it
// acknowledged what, and says which states a crash at each moment may leave.
type tape struct {
	moments []moment
	drop    func(op string) bool // operations that a naive writer leaves out
	failAt  int                  // the sync that fails; what it was to save is lost
	syncs   int
	losses  int // syncs that failed
}

// A moment is an operation or an acknowledgement.
type moment struct {
	op    string // write, truncate, sync, lose, move, sync folder, ack
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
			if op == "move" || op == "sync folder" {
				p.add(moment{op: op})
			}
			return nil
		},
		wrap: func(inner file) file {
			var f file = &tapedFile{inner, p, p.losses}
			if mutate != nil {
				f = mutate(f)
			}
			return f
		},
	}
}

type tapedFile struct {
	file
	p     *tape
	knows int // of how many losses
}

func (f *tapedFile) Write(b []byte) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	n, err := f.file.Write(b)
	f.p.add(moment{op: "write", off: info.Size(), data: slices.Clone(b[:n])})
	return n, err
}

func (f *tapedFile) Truncate(size int64) error {
	f.p.add(moment{op: "truncate", off: size})
	return f.file.Truncate(size)
}

func (f *tapedFile) Sync() error {
	if f.p.syncs++; f.p.syncs == f.p.failAt {
		f.p.losses++
		f.p.add(moment{op: "lose"})
	}
	if f.knows < f.p.losses { // every open file is told once
		f.knows = f.p.losses
		return errFault
	}
	f.p.add(moment{op: "sync"})
	return nil
}

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
		safe  []byte   // on stable storage
		todo  []moment // writes and truncates since
		named int      // 0 no, 1 in memory, 2 on stable storage
		acked []moment
	)
	for i, m := range p.moments {
		switch m.op {
		case "move":
			named = max(named, 1)
		case "sync folder":
			named = 2
		case "sync":
			safe, todo = replay(safe, todo), nil
		case "lose": // the kernel believes that it is saved, and it is not
			now := replay(safe, todo)
			for at := len(safe); at < len(now); at++ {
				now[at] = 0
			}
			safe, todo = now, nil
		case "ack":
			acked = append(acked, m)
		default:
			todo = append(todo, m)
		}
		left := func(content []byte, gone bool) {
			yield(leftover{content, gone, acked, i})
		}
		whole := replay(safe, todo)
		if named == 0 {
			left(nil, true)
			continue
		}
		left(whole, false)
		if named == 1 && !kill {
			left(nil, true)
		}
		if len(todo) == 0 || m.op == "ack" && kill {
			continue
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
				left(append(torn, make([]byte, len(last.data)-cut)...), false)
			}
		}
		if kill {
			continue
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
