package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// A workload uses one log while d injects faults, and notes every broken
// promise.
type workload struct {
	d      *faultDisk
	root   *os.Root
	log    *Log
	acked  []string
	maybe  []string // of calls whose outcome is unknown
	doomed bool     // a sync has failed
	broken []string
}

const (
	workName  = "a.jsonl"
	workFirst = `{"first":0}` + "\n"
	workTorn  = `{"torn":`
)

func (w *workload) errorf(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *workload) content() []byte {
	b, err := w.root.ReadFile(workName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.errorf("reading: %v", err)
	}
	return b
}

// judge compares the file with its content before a call that returned err.
func (w *workload) judge(call string, lines string, before []byte, err error) {
	after := w.content()
	settled := before
	if len(before) > 0 && before[len(before)-1] != '\n' {
		settled = append(slices.Clone(before), '\n')
	}
	notDurable, isNotDurable := errors.AsType[*driver.NotDurableError](err)
	switch {
	case !bytes.HasPrefix(after, before):
		w.errorf("%s changed bytes that were committed: %q became %q", call, before, after)
	case err == nil:
		if w.doomed {
			w.errorf("%s was acknowledged after a failed sync", call)
		}
		if string(after) != string(settled)+lines {
			w.errorf("%s was acknowledged, but %q became %q", call, before, after)
		}
		if lines != "" {
			w.acked = append(w.acked, lines)
		}
	case isNotDurable && !notDurable.Refused:
		w.doomed = true
		if lines != "" && string(after[notDurable.Start:notDurable.End]) != lines {
			w.errorf("%s names the bytes %q", call, after[notDurable.Start:notDurable.End])
		}
		w.maybe = append(w.maybe, lines)
	case isNotDurable:
		if !w.doomed || !bytes.Equal(before, after) {
			w.errorf("%s was refused (%v), and %q became %q", call, err, before, after)
		}
	case errors.Is(err, driver.ErrFragment):
		w.maybe = append(w.maybe, lines)
	default:
		if !bytes.Equal(after, before) && !bytes.Equal(after, settled) {
			w.errorf("%s says nothing was written (%v), but %q became %q", call, err, before, after)
		}
	}
}

func (w *workload) create() {
	l, err := Create(w.root, workName, []byte(workFirst), &Options{seam: w.d.seam()})
	after := string(w.content())
	if err == nil {
		w.log = l
		w.acked = append(w.acked, workFirst)
	} else if _, ok := errors.AsType[*driver.NotDurableError](err); ok {
		w.maybe = append(w.maybe, workFirst)
	}
	if err == nil && after != workFirst || err != nil && after != "" && after != workFirst {
		w.errorf("Create returned %v and left %q", err, after)
	}
	if err != nil && after == "" {
		w.d.dirty, w.d.lost = nil, nil // with the temporary file
	}
	if err != nil && after == "" && !w.d.sticky {
		if l, err = Create(w.root, workName, []byte(workFirst), &Options{seam: w.d.seam()}); err != nil {
			w.errorf("Create still fails after the fault: %v", err)
		} else {
			w.log = l
			w.acked = append(w.acked, workFirst)
		}
	}
	if w.log == nil {
		// The next steps need a log, made without the tested code.
		if err := w.root.WriteFile(workName, []byte(workFirst), 0o600); err != nil {
			w.errorf("%v", err)
		}
		if w.log, err = Open(w.root, workName, &Options{seam: w.d.seam()}); err != nil {
			w.errorf("Open: %v", err)
		}
	}
}

// append appends lines, again if it fails for a good reason, and once more if
// the fault is over.
func (w *workload) append(lines string) {
	for try := range 2 {
		before := w.content()
		_, _, err := w.log.Append(context.Background(), Lines([]byte(lines)))
		w.judge(fmt.Sprintf("Append %q", lines), lines, before, err)
		_, notDurable := errors.AsType[*driver.NotDurableError](err)
		if err == nil || notDurable || errors.Is(err, driver.ErrFragment) || w.d.sticky {
			return
		}
		if try == 1 {
			w.errorf("Append %q fails although the fault has cleared: %v", lines, err)
		}
	}
}

func (w *workload) settle() {
	before := w.content()
	_, err := w.log.Settle(context.Background())
	w.judge("Settle", "", before, err)
}

// tear adds the bytes that another process leaves when it dies in a write.
func (w *workload) tear() {
	torn := workTorn
	if b := w.content(); len(b) > 0 && b[len(b)-1] != '\n' {
		torn = "\n" + torn // it had settled the tail first
	}
	f, err := w.root.OpenFile(workName, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(torn)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.errorf("%v", err)
	}
}

func (w *workload) run() {
	w.create()
	w.append(`{"n":1}` + "\n")
	w.tear()
	w.append(`{"n":2}` + "\n" + `{"n":3}` + "\n")
	w.tear()
	w.settle()
	w.append(`{"n":4}` + "\n")
	if err := w.log.Flush(context.Background()); err == nil && w.doomed {
		w.errorf("Flush was fine after a failed sync")
	}
	if err := w.log.Close(); err == nil && w.doomed {
		w.errorf("Close was fine after a failed sync")
	}
	w.check(w.content())

	// The state after a power cut holds all acknowledged lines, and appends
	// continue.
	disk := w.d.powerCut(w.content())
	if err := w.root.WriteFile(workName, disk, 0o600); err != nil {
		w.errorf("%v", err)
	}
	l, err := Open(w.root, workName, nil)
	if err != nil {
		w.errorf("reopening: %v", err)
		return
	}
	w.doomed = false
	w.log = l
	w.d.sticky = false
	w.append(`{"n":5}` + "\n")
	if err := l.Close(); err != nil {
		w.errorf("closing again: %v", err)
	}
	final := w.content()
	if !bytes.HasPrefix(final, disk) {
		w.errorf("reopening changed %q to %q", disk, final)
	}
	for _, lines := range w.acked {
		if bytes.Count(final, []byte(lines)) != 1 {
			w.errorf("acknowledged %q is not in %q after a power cut", lines, final)
		}
	}
}

// check looks for glued lines and for lines that were never written.
func (w *workload) check(content []byte) {
	known := slices.Concat(w.acked, w.maybe)
	for line := range strings.Lines(string(content)) {
		text := strings.TrimSuffix(line, "\n")
		ok := text == workTorn || text == strings.TrimSuffix(workFirst, "\n")
		for _, lines := range known {
			for whole := range strings.Lines(lines) {
				part := slices.Contains(w.maybe, lines) && strings.HasPrefix(whole, text)
				ok = ok || whole == line || part
			}
		}
		if !ok {
			w.errorf("the file holds the line %q", line)
		}
	}
}

func newWorkload(t *testing.T, d *faultDisk) *workload {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &workload{d: d, root: root}
}

// reopen opens the log without faults, appends to it and closes it.
func (w *workload) reopen(t *testing.T) {
	t.Helper()
	before := w.content()
	w.d.sticky = false
	l, err := Open(w.root, workName, nil)
	require.NoError(t, err)
	start, _, err := l.Append(t.Context(), Lines([]byte("again\n")))
	require.NoError(t, errors.Join(err, l.Close()))
	after := w.content()
	if !bytes.HasPrefix(after, before) || string(after[start:]) != "again\n" || start > 0 && after[start-1] != '\n' {
		t.Fatalf("reopening and appending made %q of %q", after, before)
	}
}
