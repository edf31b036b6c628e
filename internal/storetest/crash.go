//go:build linux && (amd64 || arm64)

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// Observe runs a workload and returns its moments in order.
func Observe(t testing.TB, wl Workload, policy session.SyncPolicy, m Mutant) []Moment {
	t.Helper()
	dir := Scratch(t)
	s := &Spy{Dir: dir, Judge: m.Judge}
	var all []Moment
	flush := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.calls {
			all = append(all, Moment{call: c})
		}
		s.calls = nil
	}
	w := &Worker{Dir: dir, sync: policy, Open: m.Open, Clock: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	if w.Open == nil {
		w.Open = session.Open
	}
	known := World{}
	w.begin = func(name string) { flush(); all = append(all, Moment{begin: name}) }
	w.end = func(name string, err error) error {
		flush()
		if err == nil && w.Store != nil {
			known, err = Look(Background, w.Store, false)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Moment{end: name, world: known})
		return nil
	}
	var err error
	Spied(t, s.Run(func() { err = wl.Run(w) }))
	require.NoError(t, err, wl.Name)
	return all
}

// A Moment is a system call, or the beginning or the end of a step.
type Moment struct {
	call  Call
	begin string
	end   string
	world World // at the end of a step
}

// A Mutant makes a writer faulty: the crash tests must find the fault.
type Mutant struct {
	Judge func(c Call) Verdict
	Open  Opener
	Early bool // a step is acknowledged when it begins
}

// Crashes calls yield with every state after the moments of a sample. It ignores the N of
// the sample.
func Crashes(moments []Moment, kill bool, which Sample, early bool, yield func(Crash)) {
	d := NewDisk()
	none := World{}
	c := Crash{Before: none, After: none}
	type key struct {
		sum  uint64
		step int
	}
	done := map[key]bool{}
	for i, m := range moments {
		switch {
		case m.begin != "":
			c.In = m.begin
			for _, n := range moments[i:] {
				if n.end != "" {
					c.After = n.world
					break
				}
			}
			if early {
				c.Before = c.After
			}
			continue
		case m.end != "":
			c.Before, c.After, c.In = m.world, m.world, "after "+m.end
			d.last = Call{} // the call has returned, so a kill tears nothing
		default:
			d.Apply(m.call)
		}
		if i%which.Moment != 0 {
			continue
		}
		step := 0
		for _, n := range moments[:i+1] {
			if n.begin != "" || n.end != "" {
				step++
			}
		}
		d.States(kill, which.Stride, func(img Image) {
			if !kill {
				img = img.Rebooted()
			}
			k := key{img.Sum(), step}
			if done[k] {
				return
			}
			done[k] = true
			c := c
			c.Image, c.Deep = img, len(done)%7 == 0
			yield(c)
		})
	}
}

// A Crash is a state of the disk and the worlds that a store may show on it.
type Crash struct {
	Image         Image
	Before, After World
	In            string // the interrupted step
	Deep          bool   // the test also appends, and loses the index
}

// A Sample selects the states of a workload to try: every N-th of the states after every
// Moment-th moment, with writes torn every Stride bytes.
type Sample struct{ Moment, Stride, N int }
