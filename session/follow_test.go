package session_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A tail is a loop over Follow that a test takes one step at a time.
type tail struct {
	t    *testing.T
	next func() (transcript.Entry, error, bool)
}

func follow(t *testing.T, s *session.Session, after string) *tail {
	t.Helper()
	next, stop := iter.Pull2(s.Follow(t.Context(), after))
	t.Cleanup(stop)
	return &tail{t, next}
}

// want checks that these entries come next.
func (f *tail) want(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		e, err, _ := f.next()
		require.NoError(f.t, err)
		require.Equal(f.t, id, e.ID)
	}
}

// wantEnd checks that the loop ends with an error, and that it has these words.
func (f *tail) wantEnd(target error, words ...string) {
	f.t.Helper()
	e, err, ok := f.next()
	require.ErrorIs(f.t, err, target, "after %q", e.ID)
	require.True(f.t, ok)
	for _, w := range words {
		require.ErrorContains(f.t, err, w)
	}
	_, _, ok = f.next()
	require.False(f.t, ok)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		f := follow(t, s, "")
		f.want(s.Ref().ID)
		first := storetest.Add(t, s, transcript.UserText("one"))
		f.want(first...)
		f.want(storetest.Add(t, s, storetest.Answer("two", "a", "b"))...)
		kept := storetest.Add(t, s, transcript.ToolResult("b", "x"), transcript.ToolResult("a", "y"))
		f.want(kept...)
		f.want(storetest.Add(t, s, storetest.Answer("three"))...)
		f.want(storetest.Add(t, s, transcript.Compaction{Summary: "so far", FirstKept: kept[0], CoversTo: first[0], TurnsBefore: 1})...)
		require.NoError(t, s.Rewind(t.Context(), first[0]))
		f.want(storetest.EntryIDs(t, s)[9:]...)

		all := storetest.EntryIDs(t, s)
		for i, id := range all {
			follow(t, s, id).want(all[i+1:]...)
		}
		follow(t, s, "nobody").wantEnd(session.ErrNoEntry)

		late := follow(t, s, all[len(all)-1])
		last := storetest.Add(t, s, transcript.UserText("last"))
		late.want(last...)
		f.want(last...)
		require.NoError(t, st.Delete(t.Context(), s.Ref()))
		f.wantEnd(fs.ErrNotExist, "deleted while it was followed")
		late.wantEnd(fs.ErrNotExist)
		follow(t, s, "").wantEnd(fs.ErrNotExist)
		storetest.Close(t, st)
	})
}

// A session that was deleted and made again under its ID is not the one that was
// followed, even if it is longer and has the same header.
func TestFollowMadeAgain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	head := &transcript.Entry{ID: "same", Time: at, Body: transcript.Header{Key: storetest.CLI.String(), Created: at}}
	for _, opts := range []session.CreateOptions{{ID: "same"}, {Header: head}} {
		storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
			defer storetest.Close(t, st)
			s := storetest.Create(t, st, storetest.CLI, &opts)
			f := follow(t, s, "")
			f.want("same")
			first := storetest.Add(t, s, transcript.UserText("one"))
			f.want(first...)
			f.want(storetest.Add(t, s, storetest.Answer("two", "call"))...)
			late := follow(t, s, first[0])
			late.want(storetest.EntryIDs(t, s)[2:]...)
			require.NoError(t, st.Delete(t.Context(), s.Ref()))
			again := storetest.Create(t, st, storetest.CLI, &opts)
			for range 3 {
				storetest.Add(t, again, transcript.UserText(strings.Repeat("another conversation ", 100)))
			}
			f.wantEnd(fs.ErrNotExist)
			late.wantEnd(fs.ErrNotExist)
		})
	}
}

// A loop that waits ends with its context and with its store.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		wait := func(ctx context.Context) {
			for _, err := range s.Follow(ctx, s.Ref().ID) {
				ended <- err
			}
		}
		go wait(ctx)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)

		go wait(t.Context())
		go func() {
			for ref, err := range st.Follow(t.Context()) {
				if ref != (session.Ref{}) || err != nil {
					ended <- err
				}
			}
		}()
		require.NoError(t, st.Close())
		require.ErrorIs(t, <-ended, session.ErrClosed)
		require.ErrorIs(t, <-ended, session.ErrClosed)
	})
}

// A loop that is left waits for nothing, and leaves nothing running.
func TestFollowLeavesNothing(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	for range 3 {
		stops := []func(){}
		for range 8 {
			next, stop := iter.Pull2(s.Follow(t.Context(), ""))
			_, err, _ := next()
			require.NoError(t, err)
			stops = append(stops, stop)
			hint, stop := iter.Pull2(st.Follow(t.Context()))
			_, err, _ = hint()
			require.NoError(t, err)
			stops = append(stops, stop)
		}
		if runtime.GOOS == "linux" {
			require.Equal(t, 1, strings.Count(stacks(), "filedriver.openNotes in goroutine"))
		}
		for _, stop := range stops {
			stop()
		}
		require.Eventually(t, func() bool { // it reports its end just before
			return !strings.Contains(stacks(), "filedriver.openNotes in goroutine")
		}, time.Minute, time.Millisecond)
	}
}

func stacks() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// Another process changes the file of a transcript: a copy takes its place, a
// write comes in parts, and one is taken back.
func TestFollowFile(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		t.Run(fmt.Sprint("readOnly=", readOnly), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			st := storetest.Open(t, dir, nil)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("one"))
			viewer := storetest.Open(t, dir, &session.Options{ReadOnly: readOnly})
			defer storetest.Close(t, viewer)
			f := followAside(t, storetest.Load(t, viewer, storetest.CLI))
			f.want(storetest.EntryIDs(t, s)...)

			path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
			require.NoError(t, os.Chmod(path, 0o600|fs.ModeSticky)) // a failed sync: the next append makes a copy
			was, err := os.Stat(path)
			require.NoError(t, err)
			f.want(storetest.Add(t, s, transcript.UserText("two"))...)
			now, err := os.Stat(path)
			require.NoError(t, err)
			if runtime.GOOS != "windows" {
				require.False(t, os.SameFile(was, now), "the transcript was not copied")
			}

			batch := func(id, text string, n int) string {
				var b strings.Builder
				for i := range n {
					place := fmt.Sprintf(`"batch":%d`, n)
					if i > 0 {
						place = fmt.Sprintf(`"part":%d`, i+1)
					}
					fmt.Fprintf(&b, `{"type":"user","id":"%s%d","ts":"2026-11-20T08:00:00Z",%s,"content":%q}`+"\n", id, i, place, text)
				}
				return b.String()
			}
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			defer file.Close()
			write := func(text string) {
				_, err := file.WriteString(text)
				require.NoError(t, err)
			}
			release := storetest.HoldAppends(t, dir, s)
			end := now.Size()
			taken := batch("t", "taken back", 3)
			write(taken[:len(taken)-20]) // two whole lines of three and a part
			pause()
			require.NoError(t, file.Truncate(end))
			whole := batch("w", "whole", 4)
			for _, part := range []string{whole[:30], whole[30 : len(whole)/2], whole[len(whole)/2 : len(whole)-1]} {
				write(part)
				pause()
			}
			write(whole[len(whole)-1:])
			release()
			f.want("w0", "w1", "w2", "w3")
			cut := batch("c", "cut", 3)
			write(cut[:strings.LastIndex(cut, "{")])
			f.want(storetest.Add(t, s, transcript.UserText("behind a cut one"))...)
		})
	}
}

// pause gives a follower the chance to see what is there.
func pause() {
	for range 1000 {
		runtime.Gosched()
	}
}

// followAside is follow in a goroutine of its own, which reads ahead.
func followAside(t *testing.T, s *session.Session) *tail {
	type pair struct {
		e   transcript.Entry
		err error
	}
	pairs := make(chan pair, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() {
		defer close(pairs)
		for e, err := range s.Follow(ctx, "") {
			pairs <- pair{e, err}
		}
	})
	t.Cleanup(func() { cancel(); loop.Wait() })
	return &tail{t, func() (transcript.Entry, error, bool) { p, ok := <-pairs; return p.e, p.err, ok }}
}

func TestStoreFollow(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		hints := make(chan session.Ref)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ref, err := range st.Follow(ctx) {
				if err != nil {
					return
				}
				hints <- ref
			}
		}()
		require.Equal(t, session.Ref{}, <-hints)
		// told waits for a hint of a session, or for one that may mean any
		// session.
		told := func(s *session.Session) {
			for {
				select {
				case ref := <-hints:
					if ref == s.Ref() || ref == (session.Ref{}) {
						return
					}
				case <-time.After(30 * time.Second):
					t.Fatalf("no hint for %v", s.Ref())
				}
			}
		}
		var all []*session.Session
		for _, agent := range []string{"main", "main", "other", strings.Repeat("long", 40)} {
			s := storetest.Create(t, st, session.Key{Agent: agent, Channel: "cli", Peer: "user"}, nil)
			all = append(all, s)
			told(s)
		}
		for _, s := range slices.Backward(all) {
			storetest.Add(t, s, transcript.UserText("one"))
			told(s)
		}
		for _, s := range all {
			require.NoError(t, st.Delete(t.Context(), s.Ref()))
			told(s)
		}
	})
}

// If a slow loop misses too many changes, it gets one hint for all of them.
func TestStoreFollowSlow(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	next, stop := iter.Pull2(st.Follow(t.Context()))
	defer stop()
	_, err, _ := next()
	require.NoError(t, err)
	for range 3000 {
		_ = storetest.Create(t, st, storetest.CLI, nil)
	}
	ref, err, _ := next()
	require.NoError(t, err)
	require.Equal(t, session.Ref{}, ref)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"))
	ref, err, _ = next()
	require.NoError(t, err)
	require.Equal(t, s.Ref(), ref)
}

// Entries of an append that a dead writer has cut are not yielded. Its retry is.
func TestFollowPastACutAppend(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	first := storetest.Add(t, s, transcript.UserText("first"))
	storetest.Close(t, st)
	items := []transcript.Item{transcript.UserText("one"), transcript.UserText("two"), transcript.UserText("three")}
	storetest.CutAppend(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), "key", 2, items...)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	cut := storetest.EntryIDs(t, s)[2:]
	require.Len(t, cut, 2)
	all, late := follow(t, s, ""), follow(t, s, first[0])
	all.want(s.Ref().ID, first[0])
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	require.False(t, done.Repeated)
	all.want(done.IDs...)
	late.want(done.IDs...)
	for _, id := range cut {
		follow(t, s, id).want(done.IDs...)
	}
	last := storetest.Add(t, s, transcript.UserText("last"))
	all.want(last...)
	follow(t, s, done.IDs[1]).want(append(done.IDs[2:], last...)...)
}

// An entry whose append has lost a line is not yielded.
func TestFollowPastADamagedAppend(t *testing.T) {
	for _, later := range []bool{false, true} {
		dir := t.TempDir()
		st := storetest.Open(t, dir, storetest.Unsynced)
		s := storetest.Load(t, st, storetest.CLI)
		cut := storetest.Add(t, s, transcript.UserText("lost"), transcript.UserText("left"))
		var last []string
		if later {
			last = storetest.Add(t, s, transcript.UserText("last"))
		}
		storetest.Close(t, st)
		path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, bytes.Replace(data, []byte("lost"), []byte("\xff\xff\xff\xff"), 1), 0o600))
		st = storetest.Open(t, dir, storetest.Unsynced)
		s = storetest.Load(t, st, storetest.CLI)
		all := follow(t, s, "")
		all.want(append([]string{s.Ref().ID}, last...)...)
		more := storetest.Add(t, s, transcript.UserText("more"))
		all.want(more...)
		follow(t, s, cut[1]).want(append(last, more...)...)
		storetest.Close(t, st)
		all.wantEnd(session.ErrClosed)
	}
}

// If the driver cannot watch, a loop over the store looks again and again, and yields
// only the changed sessions.
func TestStoreFollowByLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := session.OpenDriver(bare{memdriver.New(nil)}, nil)
		defer storetest.Close(t, st)
		a, b := storetest.Load(t, st, storetest.CLI), storetest.Load(t, st, session.Key{Channel: "cli", Peer: "b"})
		ctx, cancel := context.WithCancel(t.Context())
		hints, end := make(chan session.Ref, 100), make(chan error)
		go func() {
			for ref, err := range st.Follow(ctx) {
				if err != nil {
					end <- err
					return
				}
				hints <- ref
			}
		}()
		told := func(want ...session.Ref) {
			t.Helper()
			time.Sleep(5 * time.Second)
			var got []session.Ref
			for len(hints) > 0 {
				got = append(got, <-hints)
			}
			require.Equal(t, want, got)
		}
		told(session.Ref{})
		told()
		storetest.Add(t, a, transcript.UserText("one"))
		told(a.Ref())
		told()
		c := storetest.Load(t, st, session.Key{Channel: "cli", Peer: "c"})
		told(c.Ref())
		require.NoError(t, st.Delete(t.Context(), b.Ref()))
		told(b.Ref())
		cancel()
		require.ErrorIs(t, <-end, context.Canceled)
	})
}
