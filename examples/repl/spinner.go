package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const eraseLine = "\r\x1b[K"

const (
	spinEvery = 100 * time.Millisecond
	spinAfter = 300 * time.Millisecond // without output
)

// spin shows activity and its duration while no text is printed for a moment
// and no line is unfinished. The returned function ends it.
func (t *terminal) spin() (stop func()) {
	if !t.moves {
		return func() {}
	}
	start := time.Now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(spinEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				t.unspin()
				return
			case now := <-tick.C:
				t.turnSpinner(now.Sub(start))
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func (t *terminal) turnSpinner(elapsed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inLine || time.Since(t.last) < spinAfter {
		return
	}
	t.spun = true
	frame := `|/-\`[elapsed/spinEvery%4]
	_, _ = fmt.Fprintf(t.w, "%s%c working %ds, Ctrl-C stops", eraseLine, frame, int(elapsed.Seconds()))
}

func (t *terminal) unspin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spun {
		_, _ = io.WriteString(t.w, eraseLine)
		t.spun = false
	}
}
