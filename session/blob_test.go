package session_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// screenshot is a PNG of n bytes by its head; the rest is grain.
func screenshot(n int, seed uint64) transcript.ImageBlock {
	data := grain(n, seed)
	copy(data, "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x05\x00\x00\x00\x03\x20")
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
}

func grain(n int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 14))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return data
}

// watched counts what is asked of a Blobs, and can fail.
type watched struct {
	session.Blobs
	puts, gets atomic.Int64
	fail       func(op string) error
}

func (w *watched) Put(ctx context.Context, ref session.Ref, hash string, data []byte) error {
	w.puts.Add(1)
	if w.fail != nil {
		if err := w.fail("put"); err != nil {
			return err
		}
	}
	return w.Blobs.Put(ctx, ref, hash, data)
}

func (w *watched) Get(ctx context.Context, ref session.Ref, hash string) ([]byte, error) {
	w.gets.Add(1)
	return w.Blobs.Get(ctx, ref, hash)
}

func (w *watched) Delete(ctx context.Context, ref session.Ref, hashes ...string) error {
	if w.fail != nil {
		if err := w.fail("delete"); err != nil {
			return err
		}
	}
	return w.Blobs.Delete(ctx, ref, hashes...)
}

// pictures returns messages with media of every kind.
func pictures() []transcript.Item {
	document := transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: base64.StdEncoding.EncodeToString(grain(90_000, 2))}, Title: "a report"}
	small := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(grain(500, 3))}}
	audio := transcript.RawBlock{JSON: json.RawMessage(`{"type":"input_audio","input_audio":{"data":"` + base64.StdEncoding.EncodeToString(grain(30_000, 4)) + `","format":"wav"}}`)}
	result := transcript.ToolResultBlock{CallID: "c1", Content: []transcript.Block{transcript.TextBlock{Text: "here"}, screenshot(40_000, 5)}}
	return []transcript.Item{
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "look"}, screenshot(60_000, 1), document, small, audio}},
		answer("I look.", "c1"),
		transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{result}},
		answer("I see."),
	}
}

// With and without blobs a model is shown the same, before and after a restart, and
// it is counted the same, audio aside.
func TestBlobsAreInvisible(t *testing.T) {
	dir := t.TempDir()
	opts := &session.Options{Blobs: blobs.New(dir)}
	st := open(t, dir, opts)
	plain := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, plain)
	s, p := load(t, st, cli), load(t, plain, cli)
	for range 2 { // the same media twice
		add(t, s, pictures()...)
		add(t, p, pictures()...)
	}
	require.NoError(t, second(s.Queue(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(50_000, 6)}})))
	want := history(t, p)
	require.Equal(t, want, history(t, s))
	found, err := opts.Blobs.List(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Len(t, found, 5)
	for e, err := range s.Entries(t.Context()) {
		require.NoError(t, err)
		require.Less(t, len(e.Line()), 3_000)
	}
	require.Empty(t, grep(t, filepath.Join(dir, "agents/main/sessions"), base64.StdEncoding.EncodeToString(grain(60_000, 1)[60:90])))
	closed(t, st)
	st = open(t, dir, opts)
	s = load(t, st, cli)
	require.Equal(t, want, history(t, s))
	full, err := s.FullHistory(t.Context())
	require.NoError(t, err)
	require.Contains(t, mustJSON(t, full.Messages), screenshot(60_000, 1).Source.Data[:100])

	// A copy of another kind has them too.
	one := session.OpenDriver(memdriver.New(nil), &session.Options{Blobs: blobs.NewMemory()})
	defer closed(t, one)
	other := load(t, one, cli)
	add(t, other, pictures()[0], answer("a"))
	two := session.OpenDriver(memdriver.New(nil), nil)
	defer closed(t, two)
	same := load(t, two, cli)
	add(t, same, pictures()[0], answer("a"))
	require.Equal(t, history(t, same), history(t, other))
	audio := len(pictures()[0].(transcript.Message).Content[4].(transcript.RawBlock).JSON)
	require.InDelta(t, same.Info().Tokens, other.Info().Tokens, float64(audio))
	closed(t, st)
}

// Five hundred screenshots: the transcript is small, and only a request reads them.
func TestBlobsManyScreenshots(t *testing.T) {
	const size = 60_000
	shots := extent(*soakLength, 60, 500, 500)
	dir := t.TempDir()
	kept := &watched{Blobs: blobs.NewMemory()}
	opts := &session.Options{Blobs: kept, Sync: session.SyncNever}
	st := open(t, dir, opts)
	s := load(t, st, cli)
	inline := 0
	for i := range shots {
		call, shot := fmt.Sprint("call", i), screenshot(size, uint64(i))
		inline += len(shot.Source.Data)
		add(t, s, transcript.UserText(fmt.Sprint("look ", i)), answer("", call), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
			transcript.ToolResultBlock{CallID: call, Content: []transcript.Block{shot}},
		}}, answer("I see."))
	}
	closed(t, st)
	info, err := os.Stat(filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl"))
	require.NoError(t, err)
	share := float64(info.Size()) / (float64(info.Size()) + float64(inline))
	t.Logf("%d screenshots of %d bytes: the transcript has %.2f %% of what it has with them", shots, size, 100*share)
	require.Less(t, share, 0.02)

	st = open(t, dir, opts)
	defer closed(t, st)
	s = load(t, st, cli)
	require.Positive(t, s.Info().Tokens)
	require.NoError(t, second(st.List(t.Context(), nil)))
	for _, err := range st.Search(t.Context(), session.Query{Text: "look"}) {
		require.NoError(t, err)
	}
	require.NoError(t, second(s.PlanCompact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 5}})))
	require.NoError(t, second(s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 5}, Summarizer: compact.SummarizerFunc(says(whole))})))
	require.NoError(t, second(s.Health(t.Context())))
	require.Zero(t, kept.gets.Load(), "a blob was read for what needs none")
	require.Contains(t, history(t, s), screenshot(size, uint64(shots-1)).Source.Data)
	require.EqualValues(t, 5, kept.gets.Load())
}

// A blob that is missing, or changed, is a text; the conversation goes on.
func TestBlobsMissing(t *testing.T) {
	dir := t.TempDir()
	kept := blobs.New(dir)
	st := open(t, dir, &session.Options{Blobs: kept})
	defer closed(t, st)
	s := load(t, st, cli)
	add(t, s, pictures()...)
	hashes, err := kept.List(t.Context(), s.Ref())
	require.NoError(t, err)
	for i, hash := range hashes {
		if i == 0 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/blobs", s.ID(), hash), []byte("other"), 0o600))
			continue
		}
		require.NoError(t, kept.Delete(t.Context(), s.Ref(), hash))
	}
	got := history(t, s)
	for _, want := range []string{
		"[image (image/png) of 60000 bytes: it is not there any more]", "[image (image/png) of 40000 bytes", "[document (application/pdf) of 90000 bytes", "[input_audio of 30000 bytes",
	} {
		require.Contains(t, got, want)
	}
	add(t, s, transcript.UserText("go on"))
	request(t, s)
	bare := open(t, dir, nil)
	defer closed(t, bare)
	require.Equal(t, history(t, s), history(t, load(t, bare, cli)))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.History(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// A session and its blobs go together, and no other session has them.
func TestBlobsDeleteAndFork(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, &session.Options{Blobs: blobs.New(dir)})
	defer closed(t, st)
	memory := session.OpenDriver(memdriver.New(nil), &session.Options{Blobs: blobs.NewMemory()})
	defer closed(t, memory)
	for _, st := range []*session.Store{st, memory} {
		s := load(t, st, cli)
		ids := add(t, s, pictures()...)
		fork, err := s.Fork(t.Context(), ids[len(ids)-1], nil)
		require.NoError(t, err)
		want := history(t, s)
		require.Equal(t, want, history(t, fork))
		require.NoError(t, st.Delete(t.Context(), s.Ref()))
		require.Equal(t, want, history(t, fork))
		require.NoError(t, st.Delete(t.Context(), fork.Ref()))
	}
	names, err := os.ReadDir(filepath.Join(dir, "agents/main/blobs"))
	require.NoError(t, err)
	require.Empty(t, names)
}

// The next append of media puts in order what a kill has left: blobs without a
// line go, and a fork gets those that it lacks.
func TestBlobsLeftovers(t *testing.T) {
	drv := memdriver.New(nil)
	kept := &watched{Blobs: blobs.NewMemory()}
	opts := &session.Options{Blobs: kept}
	st := session.OpenDriver(drv, opts)
	s := load(t, st, cli)
	image := func(seed uint64) transcript.Message {
		return transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(20_000, seed)}}
	}
	count := func(ref session.Ref) int {
		all, err := kept.List(t.Context(), ref)
		require.NoError(t, err)
		return len(all)
	}
	ids := add(t, s, image(1), answer("a"))
	kept.fail = func(string) error { return fs.ErrPermission }
	_, err := s.Append(t.Context(), image(2))
	require.ErrorIs(t, err, fs.ErrPermission)
	kept.fail = nil
	require.Equal(t, 1, count(s.Ref()))
	_, err = s.AppendIf(t.Context(), session.Cond{Head: "another"}, image(2))
	require.ErrorIs(t, err, session.ErrConflict)
	require.Equal(t, 2, count(s.Ref()), "an upload whose append is refused stays")
	require.NoError(t, kept.Put(t.Context(), s.Ref(), strings.Repeat("ab", 32), []byte("orphan")))
	add(t, s, transcript.UserText("text alone"))
	require.Equal(t, 3, count(s.Ref()))

	kept.fail = func(string) error { return errors.New("killed") }
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	kept.fail = nil
	require.Zero(t, count(fork.Ref()))
	require.NotContains(t, history(t, fork), "not there")
	closed(t, st)
	st = session.OpenDriver(drv.Reopen(), opts)
	defer closed(t, st)
	s, err = st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	add(t, s, image(3))
	require.Equal(t, 2, count(s.Ref()), "the orphan is there")
	fork, err = st.Get(t.Context(), fork.Ref())
	require.NoError(t, err)
	add(t, fork, image(4))
	require.Equal(t, 2, count(fork.Ref()))
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.NotContains(t, history(t, fork), "not there")
}

// A retry is the same append, and a URL can take the place of the bytes.
func TestBlobsRetryAndURL(t *testing.T) {
	kept := &watched{Blobs: blobs.NewMemory()}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Blobs: kept, BlobURL: func(_ context.Context, ref session.Ref, entry string, blob transcript.Blob) string {
		return "https://example.com/" + ref.ID + "/" + entry + "/" + blob.SHA256
	}})
	defer closed(t, st)
	s := load(t, st, cli)
	var ids []string
	for i := range 2 {
		done, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(20_000, 1)}})
		require.NoError(t, err)
		require.Equal(t, i > 0, done.Repeated)
		ids = done.IDs
	}
	require.EqualValues(t, 2, kept.puts.Load(), "a repeat stores the same media")
	require.Contains(t, history(t, s), `{"type":"url","url":"https://example.com/`+s.ID()+"/"+ids[0]+"/")
	require.Zero(t, kept.gets.Load())
}

// Several processes that append media to one session lose none of it.
func TestBlobsConcurrent(t *testing.T) {
	dir := t.TempDir()
	opts := &session.Options{Blobs: blobs.New(dir), Sync: session.SyncNever}
	first := open(t, dir, opts)
	s := load(t, first, cli)
	stores := []*session.Store{first, open(t, dir, opts), open(t, dir, opts)}
	t.Run("appends", func(t *testing.T) {
		for i, st := range stores {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				s, err := st.Get(t.Context(), s.Ref())
				require.NoError(t, err)
				for k := range 5 {
					add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(20_000, uint64(i%2*10+k))}})
				}
			})
		}
	})
	h := history(t, s)
	require.NotContains(t, h, "not there")
	for i := range 2 {
		for k := range 5 {
			require.Contains(t, h, screenshot(20_000, uint64(i*10+k)).Source.Data)
		}
	}
	for _, st := range stores {
		closed(t, st)
	}
}

// Names that could lead elsewhere are refused.
func TestBlobFolderNames(t *testing.T) {
	dir := t.TempDir()
	f := blobs.New(dir)
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

// Whatever is appended, a model is shown the same with blobs and without, also if it
// looks like a blob or like base64.
func FuzzBlobs(f *testing.F) {
	long := base64.StdEncoding.EncodeToString(grain(13_000, 8))
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
		for i, kept := range []session.Blobs{nil, blobs.NewMemory()} {
			st := session.OpenDriver(memdriver.New(nil), &session.Options{Blobs: kept, NoChecksum: true})
			s := load(t, st, cli)
			_, err := s.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: content})
			if err != nil {
				closed(t, st)
				return // no block, with blobs or without
			}
			var got bytes.Buffer
			require.NoError(t, json.Compact(&got, []byte(history(t, s))))
			if i == 0 {
				want = got.String()
			}
			if want != got.String() {
				t.Errorf("with blobs %.300q, without %.300q", got.String(), want)
			}
			closed(t, st)
		}
	})
}

// The index does not take a process that has copied the blobs of a fork, and was
// closed, for one that died while it appended.
func TestForkBlobsRow(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, &session.Options{Blobs: blobs.New(dir)})
	s := load(t, st, cli)
	ids := add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(15_000, 1)}}, transcript.AssistantText("hi"))
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	index, err := os.ReadFile(filepath.Join(dir, "agents/main/sessions.jsonl"))
	require.NoError(t, err)
	last := ""
	for line := range strings.Lines(string(index)) {
		if strings.Contains(line, fork.ID()) {
			last = line
		}
	}
	require.Contains(t, last, `"row"`)
}
