package session_test

import (
	"context"
	"io/fs"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// eraseWord writes the records of a transcript without storetest.Word.
func eraseWord(recs iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error {
	for rec, err := range recs {
		if err != nil {
			return err
		}
		e := rec.Entry
		if m, ok := e.Body.(transcript.MessageLine); ok && storetest.HasWord(e) {
			e.Body = m.WithContent(transcript.TextBlock{Text: "erased"})
			e = e.WithLine(nil)
		}
		if err := write(e); err != nil {
			return err
		}
	}
	return nil
}

// repeatFirst starts an Update that repeats the text of the first message.
func repeatFirst(t *testing.T, s *session.Session) <-chan error {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		end <- storetest.ErrOf(s.Update(t.Context(), "repeat", func(v *session.View) ([]transcript.Item, error) {
			text := v.Fold().History().Messages[0].Text()
			return []transcript.Item{transcript.UserText("he said: " + text)}, nil
		}))
	}()
	synctest.Wait()
	return end
}

// A call that waits during an erase of the session is written before it, or decided over
// the new lines: it brings no erased word back.
func TestErasedWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := memdriver.New(nil)
		h := &held{Driver: drv}
		rewriter, _ := drv.(driver.Rewriter)
		st := session.OpenDriver(struct {
			*held
			driver.Rewriter
		}{h, rewriter}, nil)
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText(storetest.Word))
		h.holds = make(chan error)
		before := h.start(t.Context(), s, session.Cond{}, "before")
		first := repeatFirst(t, s)
		erased := make(chan error, 1)
		go func() { erased <- s.Rewrite(t.Context(), eraseWord) }()
		synctest.Wait()
		repeated := repeatFirst(t, s)
		after := h.start(t.Context(), s, session.Cond{Idem: "key"}, "after")
		close(h.holds)
		require.NoError(t, (<-before).err)
		require.NoError(t, <-first)
		require.NoError(t, <-erased)
		require.NoError(t, <-repeated)
		require.NoError(t, (<-after).err)
		require.NotContains(t, strings.Join(storetest.Lines(t, s), "\n"), storetest.Word)
		require.Equal(t, 7, storetest.Info(t, s).Messages)
	})
}

// The same if another process erases.
func TestErasedByAnotherWhileOthersWait(t *testing.T) {
	dir := storetest.Scratch(t)
	synctest.Test(t, func(t *testing.T) {
		files, err := filedriver.Open(dir, &filedriver.Options{})
		require.NoError(t, err)
		h := &held{Driver: files}
		st, other := session.OpenDriver(h, nil), storetest.Open(t, dir, nil)
		defer storetest.Close(t, st)
		defer storetest.Close(t, other)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText(storetest.Word))
		h.holds = make(chan error)
		before := h.start(t.Context(), s, session.Cond{}, "before")
		stopped := h.start(t.Context(), s, session.Cond{}, "stopped")
		repeated := repeatFirst(t, s)
		require.NoError(t, storetest.Load(t, other, storetest.CLI).Rewrite(t.Context(), eraseWord))
		close(h.holds)
		require.NoError(t, (<-before).err)
		require.ErrorIs(t, (<-stopped).err, session.ErrReplaced)
		require.NoError(t, <-repeated)
		require.NotContains(t, strings.Join(storetest.Lines(t, s), "\n"), storetest.Word)
	})
}

// deleting is a driver: another process makes a session of bert's under each ID that was
// deleted.
type deleting struct {
	*held
	t *testing.T
}

func (d deleting) Delete(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
	if err := d.held.Delete(ctx, at, refs...); err != nil {
		return err
	}
	other := session.OpenDriver(memdriver.Reopen(d.Driver), nil)
	defer storetest.Close(d.t, other)
	_, err := other.Create(ctx, storetest.CLI, &session.CreateOptions{ID: refs[0].ID, Owner: "bert"})
	return err
}

// A call that waits while the session is deleted does not write to another owner's
// session with its ID.
func TestDeletedWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{Driver: memdriver.New(nil)}
		st := session.OpenDriver(deleting{h, t}, nil)
		defer storetest.Close(t, st)
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		s := storetest.Load(t, ada, storetest.CLI)
		h.holds = make(chan error)
		before := h.start(t.Context(), s, session.Cond{}, "before")
		old := h.start(t.Context(), s, session.Cond{}, "old")
		deleted := make(chan error, 1)
		go func() { deleted <- ada.Delete(t.Context(), s.Ref()) }()
		synctest.Wait()
		plain, keyed := h.start(t.Context(), s, session.Cond{}, "plain"), h.start(t.Context(), s, session.Cond{Idem: "key"}, "keyed")
		close(h.holds)
		require.NoError(t, (<-before).err)
		require.NoError(t, (<-old).err)
		require.NoError(t, <-deleted)
		require.ErrorIs(t, (<-plain).err, fs.ErrNotExist)
		require.ErrorIs(t, (<-keyed).err, fs.ErrNotExist)
		theirs := mustGet(t, st, s.Ref())
		require.Len(t, storetest.Lines(t, theirs), 1)
	})
}

// replacedScans returns a driver whose next scans fail as if the transcript was replaced.
func replacedScans(fail *atomic.Int32) driver.Driver {
	return &storetest.Between{Driver: memdriver.New(nil), BeforeScan: func(session.Ref) error {
		if fail.Add(-1) < 0 {
			return nil
		}
		return driver.ErrReplaced
	}}
}

// A loop that follows a session reads again if another process replaces the transcript
// while it looks whether the session is still the same.
func TestFollowReplacedTwice(t *testing.T) {
	var fail atomic.Int32
	s := storetest.Load(t, session.OpenDriver(replacedScans(&fail), nil), storetest.CLI)
	want := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
	var got []string
	for e, err := range s.Follow(t.Context(), "") {
		require.NoError(t, err)
		if e.ID == s.Ref().ID {
			continue
		}
		if got = append(got, e.ID); len(got) == 3 {
			break
		}
		if len(got) == 2 {
			want = append(want, storetest.Add(t, s, transcript.UserText("three"))...)
			fail.Store(2)
		}
	}
	require.Equal(t, want, got)
}

// A loop begins however often that happens, up to a limit, after which the transcript
// counts as cut.
func TestFollowReplacedAtFirst(t *testing.T) {
	var fail atomic.Int32
	s := storetest.Load(t, session.OpenDriver(replacedScans(&fail), nil), storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two"))
	for _, after := range []string{"", ids[0]} {
		for fails := range int32(8) {
			fail.Store(fails)
			f := follow(t, s, after)
			if fails >= 4 {
				f.wantEnd(session.ErrReplaced)
				continue
			}
			if after == "" {
				f.want(s.Ref().ID, ids[0])
			}
			f.want(ids[1])
		}
	}
}
