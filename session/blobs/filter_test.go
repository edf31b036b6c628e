package blobs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// pictures returns messages with media of every kind.
func pictures() []transcript.Item {
	document := transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: base64.StdEncoding.EncodeToString(storetest.Grain(90_000, 2))}, Title: "a report"}
	small := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(storetest.Grain(500, 3))}}
	audio := transcript.RawBlock{JSON: json.RawMessage(`{"type":"input_audio","input_audio":{"data":"` + base64.StdEncoding.EncodeToString(storetest.Grain(30_000, 4)) + `","format":"wav"}}`)}
	result := transcript.ToolResultBlock{CallID: "c1", Content: []transcript.Block{transcript.TextBlock{Text: "here"}, storetest.Screenshot(40_000, 5)}}
	return []transcript.Item{
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "look"}, storetest.Screenshot(60_000, 1), document, small, audio}},
		storetest.Answer("I look.", "c1"),
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{result}},
		storetest.Answer("I see."),
	}
}

// With and without blobs a model gets the same, before and after a restart, and
// token counts are equal, audio aside.
func TestBlobsAreInvisible(t *testing.T) {
	dir := t.TempDir()
	kept := blobs.Folder(dir)
	opts := with(kept, nil)
	st := storetest.Open(t, dir, opts)
	plain := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, plain)
	s, p := storetest.Load(t, st, storetest.CLI), storetest.Load(t, plain, storetest.CLI)
	for range 2 { // the same media twice
		storetest.Add(t, s, pictures()...)
		storetest.Add(t, p, pictures()...)
	}
	require.NoError(t, storetest.ErrOf(turn.Queue(t.Context(), s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(50_000, 6)}})))
	want := storetest.History(t, p)
	require.Equal(t, want, storetest.History(t, s))
	found, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Len(t, found, 5)
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		require.Less(t, len(e.Line()), 3_000)
	}
	require.Empty(t, storetest.Grep(t, filepath.Join(dir, "agents/main/sessions"), base64.StdEncoding.EncodeToString(storetest.Grain(60_000, 1)[60:90])))
	storetest.Close(t, st)
	st = storetest.Open(t, dir, opts)
	s = storetest.Load(t, st, storetest.CLI)
	require.Equal(t, want, storetest.History(t, s))
	full, err := exchange.FullHistory(t.Context(), s)
	require.NoError(t, err)
	require.Contains(t, storetest.JSON(t, full.Messages), storetest.Screenshot(60_000, 1).Source.Data[:100])

	// Another kind of copy contains them.
	one := session.OpenDriver(memdriver.New(nil), with(blobs.Memory(), nil))
	defer storetest.Close(t, one)
	other := storetest.Load(t, one, storetest.CLI)
	storetest.Add(t, other, pictures()[0], storetest.Answer("a"))
	two := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, two)
	same := storetest.Load(t, two, storetest.CLI)
	storetest.Add(t, same, pictures()[0], storetest.Answer("a"))
	require.Equal(t, storetest.History(t, same), storetest.History(t, other))
	audio := len(pictures()[0].(transcript.Message).Content[4].(transcript.RawBlock).JSON)
	require.InDelta(t, storetest.Info(t, same).Tokens, storetest.Info(t, other).Tokens, float64(audio))
	storetest.Close(t, st)
}

// Five hundred screenshots: the transcript is small, and only a request reads them.
func TestBlobsManyScreenshots(t *testing.T) {
	const size = 60_000
	shots := storetest.Extent(*storetest.Soak, 60, 500, 500)
	dir := t.TempDir()
	kept := &storetest.Watched{Blobs: blobs.Memory()}
	opts := with(kept, nil)
	opts.Sync = session.SyncNever
	st := storetest.Open(t, dir, opts)
	s := storetest.Load(t, st, storetest.CLI)
	inline := 0
	for i := range shots {
		call, shot := fmt.Sprint("call", i), storetest.Screenshot(size, uint64(i))
		inline += len(shot.Source.Data)
		storetest.Add(t, s, transcript.UserText(fmt.Sprint("look ", i)), storetest.Answer("", call), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
			transcript.ToolResultBlock{CallID: call, Content: []transcript.Block{shot}},
		}}, storetest.Answer("I see."))
	}
	storetest.Close(t, st)
	info, err := os.Stat(filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"))
	require.NoError(t, err)
	share := float64(info.Size()) / (float64(info.Size()) + float64(inline))
	t.Logf("%d screenshots of %d bytes: the transcript has %.2f %% of what it has with them", shots, size, 100*share)
	require.Less(t, share, 0.02)

	st = storetest.Open(t, dir, opts)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.Positive(t, storetest.Info(t, s).Tokens)
	require.NoError(t, storetest.ErrOf(st.List(t.Context(), nil)))
	for _, err := range search.Store(t.Context(), st, search.Query{Text: "look"}) {
		require.NoError(t, err)
	}
	require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 5}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	require.NoError(t, storetest.ErrOf(s.Health(t.Context())))
	require.Zero(t, kept.Gets.Load(), "a blob was read for what needs none")
	require.Contains(t, storetest.History(t, s), storetest.Screenshot(size, uint64(shots-1)).Source.Data)
	require.EqualValues(t, 5, kept.Gets.Load())
}

// A text replaces a missing or changed blob; the conversation continues.
func TestBlobsMissing(t *testing.T) {
	dir := t.TempDir()
	kept := blobs.Folder(dir)
	st := storetest.Open(t, dir, with(kept, nil))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, pictures()...)
	hashes, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	for i, hash := range hashes {
		if i == 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/blobs", s.Ref().ID, hash), []byte("other"), 0o600))
			continue
		}
		require.NoError(t, kept.Delete(t.Context(), s.Ref(), hash))
	}
	got := storetest.History(t, s)
	for _, want := range []string{
		"[image (image/png) of 60000 bytes: it is not there any more]", "[image (image/png) of 40000 bytes", "[document (application/pdf) of 90000 bytes", "[input_audio of 30000 bytes",
	} {
		require.Contains(t, got, want)
	}
	storetest.Add(t, s, transcript.UserText("go on"))
	storetest.Request(t, s)
	bare := storetest.Open(t, dir, with(blobs.Memory(), nil))
	defer storetest.Close(t, bare)
	require.Equal(t, storetest.History(t, s), storetest.History(t, storetest.Load(t, bare, storetest.CLI)))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.History(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// A session is deleted with its blobs, and no other session has them.
func TestBlobsDeleteAndFork(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, with(blobs.Folder(dir), nil))
	defer storetest.Close(t, st)
	memory := session.OpenDriver(memdriver.New(nil), with(blobs.Memory(), nil))
	defer storetest.Close(t, memory)
	for _, st := range []*session.Store{st, memory} {
		s := storetest.Load(t, st, storetest.CLI)
		ids := storetest.Add(t, s, pictures()...)
		fork, err := s.Fork(t.Context(), ids[len(ids)-1], nil)
		require.NoError(t, err)
		want := storetest.History(t, s)
		require.Equal(t, want, storetest.History(t, fork))
		require.NoError(t, st.Delete(t.Context(), s.Ref()))
		require.Equal(t, want, storetest.History(t, fork))
		again, err := fork.Fork(t.Context(), ids[len(ids)-1], nil)
		require.NoError(t, err)
		require.NoError(t, st.Delete(t.Context(), fork.Ref()))
		require.Equal(t, want, storetest.History(t, again))
		require.NoError(t, st.Delete(t.Context(), again.Ref()))
	}
	names, err := os.ReadDir(filepath.Join(dir, "agents/main/blobs"))
	require.NoError(t, err)
	require.Empty(t, names)
}

// A fork has the media of any session that it descends from.
func TestBlobsOfDescent(t *testing.T) {
	kept := blobs.Memory()
	st := session.OpenDriver(memdriver.New(nil), with(kept, nil))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, pictures()...)
	fork, err := s.Fork(t.Context(), ids[len(ids)-1], nil)
	require.NoError(t, err)
	hashes, err := kept.List(t.Context(), fork.Ref())
	require.NoError(t, err)
	require.NoError(t, kept.Delete(t.Context(), fork.Ref(), hashes...))
	again, err := fork.Fork(t.Context(), ids[len(ids)-1], nil)
	require.NoError(t, err)
	require.Equal(t, storetest.History(t, s), storetest.History(t, again))
}

// An upload whose append fails stays until something is erased. A fork is made with its
// media or not at all, and then leaves nothing.
func TestBlobsLeftovers(t *testing.T) {
	drv := memdriver.New(nil)
	kept := &storetest.Watched{Blobs: blobs.Memory()}
	opts := with(kept, nil)
	st := session.OpenDriver(drv, opts)
	s := storetest.Load(t, st, storetest.CLI)
	image := func(seed uint64) transcript.Message {
		return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(20_000, seed)}}
	}
	count := func(ref session.Ref) int {
		all, err := kept.List(t.Context(), ref)
		require.NoError(t, err)
		return len(all)
	}
	ids := storetest.Add(t, s, image(1), storetest.Answer("a"))
	kept.Fail = func(string) error { return fs.ErrPermission }
	_, err := s.Append(t.Context(), image(2))
	require.ErrorIs(t, err, fs.ErrPermission)
	kept.Fail = nil
	require.Equal(t, 1, count(s.Ref()))
	_, err = s.AppendIf(t.Context(), session.Cond{Head: "another"}, image(2))
	require.ErrorIs(t, err, session.ErrConflict)
	require.Equal(t, 2, count(s.Ref()), "an upload whose append is refused stays")
	require.NoError(t, kept.Put(t.Context(), s.Ref(), strings.Repeat("ab", 32), []byte("orphan")))
	more := storetest.Add(t, s, image(3), transcript.UserText("text alone"))
	require.Equal(t, 4, count(s.Ref()))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: more[1:]}}})
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
	require.Equal(t, 2, count(s.Ref()), "the uploads without a line are there")

	puts := 0
	kept.Fail = func(op string) error {
		if puts++; op == "put" && puts == 2 {
			return fs.ErrPermission
		}
		return nil
	}
	create := &session.CreateOptions{ID: "fork"}
	_, err = s.Fork(t.Context(), more[0], create)
	require.ErrorIs(t, err, fs.ErrPermission)
	kept.Fail = nil
	ref := session.Ref{Agent: "main", ID: "fork"}
	require.Zero(t, count(ref))
	require.ErrorIs(t, storetest.ErrOf(st.Get(t.Context(), ref)), fs.ErrNotExist)
	current, err := storetest.Current(t.Context(), st, storetest.CLI)
	require.NoError(t, err)
	require.Equal(t, s.Ref().ID, current.Ref().ID)

	fork, err := s.Fork(t.Context(), more[0], create)
	require.NoError(t, err)
	require.Equal(t, 2, count(ref))
	_, err = s.Fork(t.Context(), ids[1], create)
	require.ErrorIs(t, err, fs.ErrExist)
	require.Equal(t, 2, count(ref), "of the session that has the ID")
	storetest.Close(t, st)
	st = session.OpenDriver(memdriver.Reopen(drv), opts)
	defer storetest.Close(t, st)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	fork, err = st.Get(t.Context(), fork.Ref())
	require.NoError(t, err)
	require.NotContains(t, storetest.History(t, fork), "not there")
}

// A Put during the deletion of its session leaves nothing, and a session that never had
// blobs gets a folder for them.
func TestFolderOfADeletedSession(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	f, hash := blobs.Folder(dir), strings.Repeat("ab", 32)
	require.NoError(t, f.Put(t.Context(), s.Ref(), hash, []byte("data")))
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	require.NoError(t, f.Delete(t.Context(), s.Ref(), hash))
	require.NoError(t, f.Put(t.Context(), s.Ref(), hash, []byte("data")))
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.ErrorIs(t, f.Put(t.Context(), s.Ref(), hash, []byte("data")), fs.ErrNotExist)
	folder := filepath.Join(dir, "agents/main/blobs", s.Ref().ID) // by a Put that was killed
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.ErrorIs(t, f.Put(t.Context(), s.Ref(), hash, []byte("data")), fs.ErrNotExist)
	left, err := os.ReadDir(filepath.Join(dir, "agents/main/blobs"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A retry is the same append, and a URL can replace the bytes.
func TestBlobsRetryAndURL(t *testing.T) {
	kept := &storetest.Watched{Blobs: blobs.Memory()}
	st := session.OpenDriver(memdriver.New(nil), with(kept, &blobs.Options{URL: func(_ context.Context, ref session.Ref, entry string, blob transcript.Blob) string {
		return "https://example.com/" + ref.ID + "/" + entry + "/" + blob.SHA256
	}}))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	var ids []string
	for i := range 2 {
		done, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(20_000, 1)}})
		require.NoError(t, err)
		require.Equal(t, i > 0, done.Repeated)
		ids = done.IDs
	}
	require.EqualValues(t, 2, kept.Puts.Load(), "a repeat stores the same media")
	require.Contains(t, storetest.History(t, s), `{"type":"url","url":"https://example.com/`+s.Ref().ID+"/"+ids[0]+"/")
	require.Zero(t, kept.Gets.Load())
}

// Several processes that append media to one session lose none of it.
func TestBlobsConcurrent(t *testing.T) {
	dir := t.TempDir()
	opts := with(blobs.Folder(dir), nil)
	opts.Sync = session.SyncNever
	first := storetest.Open(t, dir, opts)
	s := storetest.Load(t, first, storetest.CLI)
	stores := []*session.Store{first, storetest.Open(t, dir, opts), storetest.Open(t, dir, opts)}
	t.Run("appends", func(t *testing.T) {
		for i, st := range stores {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				s, err := st.Get(t.Context(), s.Ref())
				require.NoError(t, err)
				for k := range 5 {
					storetest.Add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(20_000, uint64(i%2*10+k))}})
				}
			})
		}
	})
	h := storetest.History(t, s)
	require.NotContains(t, h, "not there")
	for i := range 2 {
		for k := range 5 {
			require.Contains(t, h, storetest.Screenshot(20_000, uint64(i*10+k)).Source.Data)
		}
	}
	for _, st := range stores {
		storetest.Close(t, st)
	}
}

// Names that could lead elsewhere are refused.
func TestBlobFolderNames(t *testing.T) {
	dir := t.TempDir()
	f := blobs.Folder(dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents/%2e%2e%2f%41/sessions"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/%2e%2e%2f%41/sessions/%42.jsonl"), nil, 0o600))
	for _, hash := range []string{"x", "../../../etc/passwd", strings.Repeat("A", 64), strings.Repeat("a", 63) + "/"} {
		require.Error(t, f.Put(t.Context(), driver.Ref{Agent: "a", ID: "b"}, hash, nil))
		require.Error(t, f.Delete(t.Context(), driver.Ref{Agent: "a", ID: "b"}, hash))
		_, err := f.Get(t.Context(), driver.Ref{Agent: "a", ID: "b"}, hash)
		require.Error(t, err)
	}
	require.Error(t, f.Put(t.Context(), driver.Ref{Agent: "a"}, strings.Repeat("a", 64), nil))
	ref, hash := driver.Ref{Agent: "../A", ID: "B"}, strings.Repeat("a", 64)
	require.NoError(t, f.Put(t.Context(), ref, hash, []byte("data")))
	got, err := f.Get(t.Context(), ref, hash)
	require.NoError(t, err)
	require.True(t, bytes.Equal(got, []byte("data")))
	_, err = f.Get(t.Context(), ref, strings.Repeat("b", 64))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, f.Delete(t.Context(), ref, hash, strings.Repeat("b", 64)))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// A link in the place of any folder is refused, even if it leads to another session: no
// picture of that session is shown, replaced or deleted.
func TestBlobFolderLinks(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for _, place := range []string{"agents", "agents/a", "agents/a/blobs", "agents/a/blobs/s"} {
		t.Run(place, func(t *testing.T) {
			dir := t.TempDir()
			ref := driver.Ref{Agent: "a", ID: "s"}
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents/a/sessions"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/a/sessions/s.jsonl"), nil, 0o600))
			require.NoError(t, blobs.Folder(dir).Put(t.Context(), ref, hash, []byte("data")))
			link := filepath.Join(dir, place)
			require.NoError(t, os.Rename(link, link+".moved"))
			require.NoError(t, os.Symlink(filepath.Base(link)+".moved", link))
			f := blobs.Folder(dir)
			_, got := f.Get(t.Context(), ref, hash)
			_, listed := f.List(t.Context(), ref)
			for _, err := range []error{got, listed, f.Put(t.Context(), ref, hash, []byte("other")), f.Delete(t.Context(), ref, hash)} {
				require.ErrorContains(t, err, link+" is a symbolic link")
			}
			require.NoError(t, os.Remove(link))
			require.NoError(t, os.Rename(link+".moved", link))
			data, err := f.Get(t.Context(), ref, hash)
			require.NoError(t, err)
			require.Equal(t, "data", string(data))
		})
	}
}

// A model sees the same with blobs and without, for all entries, even texts that
// look like a blob or like base64.
func FuzzBlobs(f *testing.F) {
	long := base64.StdEncoding.EncodeToString(storetest.Grain(13_000, 8))
	for _, data := range []string{"", long, long[:len(long)-4] + "=\n==", long[1:], strings.Repeat("-_", 9000), "x"} {
		f.Add(data, `{"type":"input_audio","input_audio":{"data":"DATA","n":[1,{"data":"DATA"}]}}`)
		f.Add(data, `{"type":"x","data":{"sha256":"DATA","bytes":1},"data":"DATA"}`)
	}
	f.Fuzz(func(t *testing.T, data, raw string) {
		raw = strings.ReplaceAll(raw, "DATA", data)
		content := []transcript.Block{
			transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: data}},
			transcript.DocumentBlock{Source: transcript.Source{Type: "base64", Data: data}, Title: "t"},
			transcript.RawBlock{JSON: json.RawMessage(raw)},
		}
		var want string
		for i, opts := range []*session.Options{{}, with(blobs.Memory(), nil)} {
			opts.NoChecksum = true
			st := session.OpenDriver(memdriver.New(nil), opts)
			s := storetest.Load(t, st, storetest.CLI)
			_, err := s.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: content})
			if err != nil {
				storetest.Close(t, st)
				return // no block, with blobs or without
			}
			var got bytes.Buffer
			require.NoError(t, json.Compact(&got, []byte(storetest.History(t, s))))
			if i == 0 {
				want = got.String()
			}
			if want != got.String() {
				t.Errorf("with blobs %.300q, without %.300q", got.String(), want)
			}
			storetest.Close(t, st)
		}
	})
}

// If a process has copied the blobs of a fork and was closed, the index does not
// take it for one that died while it appended.
func TestForkBlobsRow(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, with(blobs.Folder(dir), nil))
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{storetest.Screenshot(15_000, 1)}}, transcript.AssistantText("hi"))
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	index, err := os.ReadFile(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	last := ""
	for line := range strings.Lines(string(index)) {
		if strings.Contains(line, fork.Ref().ID) {
			last = line
		}
	}
	require.Contains(t, last, `"row"`)
}

// A text that is queued across a compaction keeps its media in the state of the
// compaction: by hash in the store, whole in an export.
func TestBlobsOfQueuedTexts(t *testing.T) {
	kept := blobs.Memory()
	st := session.OpenDriver(memdriver.New(nil), with(kept, nil))
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 20)
	shot := storetest.Screenshot(50_000, 6)
	require.NoError(t, storetest.ErrOf(turn.Queue(t.Context(), s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{shot}})))
	require.NoError(t, storetest.ErrOf(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})))
	var last transcript.Entry
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		last = e
	}
	require.Len(t, last.Standing(), 1)
	require.NotContains(t, string(last.Line()), shot.Source.Data)
	n := 0
	for range transcript.Blobs(last) {
		n++
	}
	require.Equal(t, 1, n)
	whole, err := s.FilterExport(t.Context(), []transcript.Entry{last})
	require.NoError(t, err)
	require.Contains(t, string(whole[0].Line()), shot.Source.Data)
	require.True(t, checksum.Intact(whole[0].Line()))
}
