package main

import (
	"bytes"
	"context"
	"io"
	"strings"
)

// Keys that the editor leaves to console.key, as private-use characters.
const (
	keyErase   = '\ue000'
	keyStop    = '\ue001'
	keySuspend = 26 // Ctrl-Z as typed
)

// sequences maps the bytes that terminals send for a key to the editor's. Other
// keys do nothing.
var sequences = map[string]string{
	"\x1b[A": "\x1b[A", "\x1b[B": "\x1b[B", "\x1b[C": "\x1b[C", "\x1b[D": "\x1b[D", // arrows
	"\x1bOA": "\x1b[A", "\x1bOB": "\x1b[B", "\x1bOC": "\x1b[C", "\x1bOD": "\x1b[D",
	"\x1b[H": "\x1b[H", "\x1b[F": "\x1b[F", "\x1bOH": "\x1b[H", "\x1bOF": "\x1b[F", // home, end
	"\x1b[1~": "\x1b[H", "\x1b[4~": "\x1b[F", "\x1b[7~": "\x1b[H", "\x1b[8~": "\x1b[F",
	"\x1b[3~": "\x1b[3~",                                                       // delete
	"\x1bb":   "\x1b[1;3D", "\x1b[1;3D": "\x1b[1;3D", "\x1b[1;5D": "\x1b[1;3D", // by words
	"\x1bf": "\x1b[1;3C", "\x1b[1;3C": "\x1b[1;3C", "\x1b[1;5C": "\x1b[1;3C",
	"\x1b\x7f": "\x17",
	"\x1b\r":   breakMark, "\x1b\n": breakMark, // Alt-Enter
}

var (
	pasteBegin = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// keys is the input for the editor: a paste is one text, in however many lines
// and pieces.
type keys struct {
	ctx     context.Context // ends the input
	tty     io.Reader
	shelf   *shelf
	suspend func()

	raw     []byte // read but not examined
	paste   bool   // raw is in a paste
	looked  int    // examined length without the end of a paste
	ready   []byte // for the editor
	closed  bool   // after Ctrl-C
	chunks  chan chunk
	waiting bool // for a chunk
}

type chunk struct {
	data []byte
	err  error
}

func (k *keys) Read(p []byte) (int, error) {
	for len(k.ready) == 0 {
		if k.closed {
			return 0, io.EOF
		}
		if err := k.fill(); err != nil {
			return 0, err
		}
		for k.next() {
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

func (k *keys) fill() error {
	if !k.waiting {
		k.waiting = true
		go func() {
			buf := make([]byte, 4096)
			n, err := k.tty.Read(buf)
			k.chunks <- chunk{buf[:n], err}
		}()
	}
	select {
	case <-k.ctx.Done():
		return io.EOF
	case c := <-k.chunks:
		k.waiting = false
		k.raw = append(k.raw, c.data...)
		if len(c.data) > 0 {
			return nil
		}
		return c.err
	}
}

// next passes on one key, text or paste of raw. It returns false if raw is empty or
// incomplete.
func (k *keys) next() bool {
	switch {
	case len(k.raw) == 0:
		return false
	case k.paste:
		return k.nextPaste()
	case k.raw[0] == '\x1b':
		return k.nextSequence()
	}
	n := bytes.IndexFunc(k.raw, func(r rune) bool { return strings.ContainsRune("\x1b\x7f\b\x03\x1a", r) })
	switch {
	case n < 0:
		n = len(k.raw)
		fallthrough
	case n > 0:
		k.ready = append(k.ready, k.take(n)...)
		return true
	}
	switch k.take(1)[0] {
	case keySuspend:
		k.suspend()
	case '\x03':
		k.ready = append(k.ready, string(keyStop)...)
	default:
		k.ready = append(k.ready, string(keyErase)...)
	}
	return true
}

func (k *keys) take(n int) []byte {
	taken := k.raw[:n]
	k.raw = k.raw[n:]
	return taken
}

func (k *keys) nextPaste() bool {
	i := bytes.Index(k.raw[k.looked:], pasteEnd)
	if i < 0 {
		k.looked = max(0, len(k.raw)-len(pasteEnd)+1)
		return false
	}
	text := pasted(k.take(k.looked + i))
	k.take(len(pasteEnd))
	k.paste, k.looked = false, 0
	k.ready = append(k.ready, k.shelf.put(text, "pasted")...)
	return true
}

// nextSequence is next for a key that begins with an escape.
func (k *keys) nextSequence() bool {
	n := sequenceLength(k.raw)
	if n == 0 {
		return false
	}
	seq := k.take(n)
	k.paste = bytes.Equal(seq, pasteBegin)
	k.ready = append(k.ready, sequences[string(seq)]...)
	return true
}

// sequenceLength returns the length of the sequence at the beginning of raw, 0
// if its end is still missing.
func sequenceLength(raw []byte) int {
	switch {
	case len(raw) < 2:
		return 0
	case raw[1] == 'O' && len(raw) < 3:
		return 0
	case raw[1] == 'O':
		return 3
	case raw[1] == '\x1b':
		return 1
	case raw[1] != '[':
		return 2
	}
	for i := 2; i < len(raw); i++ {
		if raw[i] < 0x20 || raw[i] > 0x3f {
			return i + 1
		}
	}
	return 0
}
