// Package memorytest checks that a storage of memories keeps the promises of
// [memory.Storage].
package memorytest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/convolog/convolog/session/memory"
)

// TestStorage checks every rule in a subtest of its name. It calls storage once for
// each rule. The function that storage returns opens the same storage every time; at
// first it is empty.
func TestStorage(t *testing.T, storage func(t *testing.T) (open func() memory.Storage)) {
	for _, rule := range []struct {
		name, text string
		check      func(c *check)
	}{
		{"list", "List returns the files below a folder, at any depth, in the order of their names.", list},
		{"version", "Version changes with the content.", version},
		{"missing", "A name that is not there matches fs.ErrNotExist, but has nothing to list or remove.", missing},
		{"names", "Names are slash-separated, relative and clean; they never leave the storage.", names},
		{"create", "A name that is in use matches fs.ErrExist.", create},
		{"create/race", "Create makes a file: of several that make one, in any process, one does.", createRace},
		{"write", "Its content is replaced at once.", write},
		{"remove", "Remove removes a file, or a folder and all that is in it.", remove},
		{"owned", "A method keeps none of its arguments: changing them after it has returned changes nothing that is stored.", owned},
		{"lock", "The lock is exclusive between all goroutines and processes.", lock},
		{"lock/wait", "Lock waits for the lock of a folder that need not exist, and takes it.", lockWait},
		{"canceled", "A method whose context is done changes nothing.", canceled},
	} {
		t.Run(rule.name, func(t *testing.T) {
			rule.check(&check{T: t, rule: rule.text, open: storage(t)})
		})
	}
}

// A check is one run of a rule.
type check struct {
	*testing.T
	rule string
	open func() memory.Storage
}

// want reports a failure unless ok.
func (c *check) want(ok bool, format string, args ...any) {
	c.Helper()
	if !ok {
		c.Errorf("the rule %q is broken: "+format, append([]any{c.rule}, args...)...)
	}
}

// ok fails the test if err is not nil.
func (c *check) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("the rule %q is broken: %v", c.rule, err)
	}
}

func (c *check) names(s memory.Storage, folder string) (names []string) {
	c.Helper()
	files, err := s.List(c.Context(), folder)
	c.ok(err)
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

func (c *check) wantContent(s memory.Storage, name, want string) {
	c.Helper()
	data, err := s.Read(c.Context(), name)
	c.want(err == nil && string(data) == want, "%s is %.100q (%v), want %.100q", name, data, err, want)
}

func (c *check) wantNames(s memory.Storage, folder string, want ...string) {
	c.Helper()
	got := c.names(s, folder)
	c.want(slices.Equal(got, want), "%s has %v, want %v", folder, got, want)
}

func list(c *check) {
	s := c.open()
	all := []string{"a/-", "a/b.md", "a/b/c/d.md", "a/b/z.md", "a/b0", "a/é", "a0/x", "ab/x", "b/a/x"}
	for i := range all {
		name := all[(i*5+3)%len(all)]
		c.ok(s.Create(c.Context(), name, []byte(name+"\n")))
	}
	s = c.open()
	for _, name := range all {
		c.wantContent(s, name, name+"\n")
	}
	c.wantNames(s, "a", all[:6]...)
	c.wantNames(s, "a/b", all[2:4]...)
	c.wantNames(s, "ab", "ab/x")
	c.wantNames(s, "a/b/c/d")
	c.wantNames(s, "x")
}

func version(c *check) {
	s := c.open()
	c.ok(s.Create(c.Context(), "a/x", []byte("1\n")))
	c.ok(s.Create(c.Context(), "a/y", []byte("1\n")))
	before, err := s.List(c.Context(), "a")
	c.ok(err)
	c.ok(c.open().Write(c.Context(), "a/x", []byte("22\n")))
	after, err := s.List(c.Context(), "a")
	c.ok(err)
	if len(before) != 2 || len(after) != 2 {
		c.Fatalf("two files are listed as %v, and then as %v", before, after)
	}
	c.want(before[0].Version != after[0].Version, "the version of a file that was written is still %q", after[0].Version)
	c.want(before[1] == after[1], "the version of a file that nobody wrote is %v, and was %v", after[1], before[1])
}

func missing(c *check) {
	s := c.open()
	for range 2 {
		_, err := s.Read(c.Context(), "a/x")
		c.want(errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "a/x"), "Read gives %v", err)
		c.wantNames(s, "a")
		c.ok(s.Remove(c.Context(), "a/x"))
		c.ok(s.Remove(c.Context(), "a"))
		c.ok(s.Create(c.Context(), "b/x", []byte("1\n")))
		c.ok(s.Remove(c.Context(), "b/x"))
	}
}

func names(c *check) {
	s := c.open()
	for _, name := range []string{"", ".", "..", "/x", "x/", "a//b", "a/./b", "../x", "a/../../x"} {
		c.want(s.Create(c.Context(), name, []byte("1\n")) != nil, "Create takes the name %q", name)
		c.want(s.Write(c.Context(), name, []byte("1\n")) != nil, "Write takes the name %q", name)
		c.want(s.Remove(c.Context(), name) != nil, "Remove takes the name %q", name)
		_, err := s.Read(c.Context(), name)
		c.want(err != nil, "Read takes the name %q", name)
	}
	long := "a/" + strings.Repeat("x", 255) + "/" + strings.Repeat("y", 200)
	c.ok(s.Create(c.Context(), long, []byte("1\n")))
	c.wantNames(s, "a", long)
}

func create(c *check) {
	s := c.open()
	c.ok(s.Create(c.Context(), "a/b/x", []byte("1\n")))
	err := c.open().Create(c.Context(), "a/b/x", []byte("2\n"))
	c.want(errors.Is(err, fs.ErrExist), "a second Create gives %v", err)
	c.wantContent(s, "a/b/x", "1\n")
	c.ok(s.Write(c.Context(), "a/b/y", []byte("3\n")))
	c.want(errors.Is(s.Create(c.Context(), "a/b/y", []byte("4\n")), fs.ErrExist), "Create replaces what Write has written")
	c.ok(s.Remove(c.Context(), "a/b/x"))
	c.ok(s.Create(c.Context(), "a/b/x", []byte("5\n")))
	c.wantContent(s, "a/b/x", "5\n")
}

func createRace(c *check) {
	stores := []memory.Storage{c.open(), c.open()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var made []string
	for i := range 16 {
		all.Go(func() {
			text := strings.Repeat(string(rune('a'+i)), 5000) + "\n"
			switch err := stores[i%2].Create(c.Context(), "a/x", []byte(text)); {
			case err == nil:
				mu.Lock()
				made = append(made, text)
				mu.Unlock()
			case !errors.Is(err, fs.ErrExist):
				c.want(false, "Create gives %v", err)
			}
		})
	}
	all.Wait()
	c.want(len(made) == 1, "%d of 16 have made the file", len(made))
	c.wantContent(stores[0], "a/x", made[0])
}

func write(c *check) {
	one, two := strings.Repeat("1", 300_000)+"\n", strings.Repeat("2", 200_000)+"\n"
	s := c.open()
	c.ok(s.Write(c.Context(), "a/x", []byte(one)))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, r := range []memory.Storage{s, c.open()} {
		readers.Go(func() {
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				default:
				}
				data, err := r.Read(c.Context(), "a/x")
				c.want(err == nil && (string(data) == one || string(data) == two), "a reader gets %d bytes (%v)", len(data), err)
			}
		})
	}
	for i := range 20 {
		c.ok(s.Write(c.Context(), "a/x", []byte([]string{two, one}[i%2])))
	}
	close(done)
	readers.Wait()
	c.wantContent(s, "a/x", one)
}

func remove(c *check) {
	s := c.open()
	for _, name := range []string{"a/b/x", "a/b/c/y", "a/b0", "a/b-/z", "a/bc/z"} {
		c.ok(s.Create(c.Context(), name, []byte("1\n")))
	}
	c.ok(s.Remove(c.Context(), "a/b"))
	c.wantNames(c.open(), "a", "a/b-/z", "a/b0", "a/bc/z")
	c.ok(s.Remove(c.Context(), "a/bc/z"))
	c.ok(s.Create(c.Context(), "a/bc", []byte("a file where a folder was\n")))
	c.ok(s.Remove(c.Context(), "a"))
	c.wantNames(c.open(), "a")
}

func owned(c *check) {
	s := c.open()
	data := []byte("1\n")
	c.ok(s.Create(c.Context(), "a/x", data))
	data[0] = '2'
	c.ok(s.Write(c.Context(), "a/y", data))
	data[0] = '3'
	c.wantContent(s, "a/x", "1\n")
	c.wantContent(s, "a/y", "2\n")
}

func lock(c *check) {
	stores := []memory.Storage{c.open(), c.open()}
	var all sync.WaitGroup
	var mu sync.Mutex
	n, holders := 0, 0
	for i := range 4 {
		all.Go(func() {
			for range 3 {
				unlock, err := stores[i%2].Lock(c.Context(), "owners/anna")
				if err != nil {
					c.want(false, "Lock gives %v", err)
					return
				}
				mu.Lock()
				n++
				holders++
				c.want(holders == 1, "%d hold the lock", holders)
				mu.Unlock()
				c.want(stores[i%2].Write(c.Context(), "owners/anna/x", []byte("1\n")) == nil, "the holder cannot write")
				mu.Lock()
				holders--
				mu.Unlock()
				unlock()
			}
		})
	}
	all.Wait()
	c.want(n == 12, "the lock was taken %d times of 12", n)
}

func lockWait(c *check) {
	s := c.open()
	unlock, err := s.Lock(c.Context(), "owners/anna")
	c.ok(err)
	other, err := c.open().Lock(c.Context(), "agents/main")
	c.ok(err)
	other()
	short, cancel := context.WithTimeout(c.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.open().Lock(short, "owners/anna")
	c.want(errors.Is(err, context.DeadlineExceeded), "a wait that is given up gives %v", err)
	taken := make(chan error, 1)
	go func() {
		unlock, err := c.open().Lock(c.Context(), "owners/anna")
		if err == nil {
			unlock()
		}
		taken <- err
	}()
	unlock()
	c.ok(<-taken)
	c.wantNames(s, "owners")
}

func canceled(c *check) {
	s := c.open()
	c.ok(s.Create(c.Context(), "a/x", []byte("1\n")))
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	_, readErr := s.Read(ctx, "a/x")
	_, listErr := s.List(ctx, "a")
	_, lockErr := s.Lock(ctx, "a")
	for i, err := range []error{
		readErr, listErr, lockErr,
		s.Create(ctx, "a/y", []byte("2\n")), s.Write(ctx, "a/x", []byte("2\n")), s.Remove(ctx, "a/x"),
	} {
		c.want(errors.Is(err, context.Canceled), "call %d gives %v", i, err)
	}
	c.wantNames(s, "a", "a/x")
	data, err := s.Read(c.Context(), "a/x")
	c.want(err == nil && bytes.Equal(data, []byte("1\n")), "the file is %q (%v)", data, err)
}
