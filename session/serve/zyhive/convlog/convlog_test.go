package convlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve/zyhive/convlog"
	"github.com/convolog/convolog/transcript"
)

func writer(t *testing.T, dir string) *convlog.Writer {
	t.Helper()
	w, err := convlog.OpenWriter(dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func reader(t *testing.T, dir string) *convlog.Log {
	t.Helper()
	l, err := convlog.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func texts(t *testing.T, l *convlog.Log, c convlog.Channel, q convlog.Query) (list []string) {
	t.Helper()
	for e, err := range l.Entries(t.Context(), c, q) {
		require.NoError(t, err)
		list = append(list, e.Content)
	}
	return list
}

// An entry comes back as it was written, and channels whose names look alike do
// not share a log.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	w, l := writer(t, dir), reader(t, dir)
	want := convlog.Entry{
		Time: time.Date(2026, 11, 22, 8, 0, 0, 5000, time.UTC), Role: "user", Content: "你好 \u2028 \"x\"\n", Sender: "Zoe (42)",
		MessageID: "m1", Extra: transcript.Extra{"media": json.RawMessage(`["photo.jpg"]`)},
	}
	channels := []convlog.Channel{
		{Agent: "main", Type: "a-b", Chat: "c"},
		{Agent: "main", Type: "a", Chat: "b-c"},
		{Agent: "main", Type: "A", Chat: "b-c"},
		{Agent: "Main", Type: "a", Chat: "b/c"},
		{Agent: "main", Type: "telegram", Chat: "-100123/7"},
		{Agent: "main", Type: "telegram", Chat: "-100123-7"},
		{Agent: "main", Type: "web", Chat: strings.Repeat("long", 100)},
		{Agent: "main", Type: "web", Chat: "../../x"},
	}
	for i, c := range channels {
		e := want
		e.MessageID = fmt.Sprint("m", i)
		require.NoError(t, w.Append(t.Context(), c, e))
	}
	for i, c := range channels {
		var got []convlog.Entry
		for f, err := range l.Entries(t.Context(), c, convlog.Query{}) {
			require.NoError(t, err)
			got = append(got, f.Entry)
		}
		want.MessageID = fmt.Sprint("m", i)
		require.Equal(t, []convlog.Entry{want}, got, "%+v", c)
	}
	infos, err := l.Channels(t.Context(), "", "")
	require.NoError(t, err)
	require.Len(t, infos, len(channels))
	for _, info := range infos {
		require.Contains(t, channels, info.Channel)
	}
	infos, err = l.Channels(t.Context(), "main", "web")
	require.NoError(t, err)
	require.Len(t, infos, 2)
}

// A message that is delivered twice is written once, even by two writers at once.
func TestRedelivery(t *testing.T) {
	dir := t.TempDir()
	l := reader(t, dir)
	c := convlog.Channel{Agent: "main", Type: "telegram", Chat: "42"}
	var wg sync.WaitGroup
	for range 4 {
		w := writer(t, dir)
		wg.Go(func() {
			for i := range 50 {
				a, b := fmt.Sprint("m", i), fmt.Sprint("m", i+1)
				err := w.Append(context.Background(), c, convlog.Entry{Content: a, MessageID: a}, convlog.Entry{Content: b, MessageID: b}, convlog.Entry{Content: b, MessageID: b})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := texts(t, l, c, convlog.Query{})
	require.Len(t, got, 51)
	w := writer(t, dir)
	require.NoError(t, w.Append(t.Context(), c, convlog.Entry{Content: "again", MessageID: "m7"}, convlog.Entry{Content: "no ID"}, convlog.Entry{Content: "no ID"}))
	require.Equal(t, []string{"no ID", "no ID"}, texts(t, l, c, convlog.Query{})[:2])
}

func TestQuery(t *testing.T) {
	dir := t.TempDir()
	w, l := writer(t, dir), reader(t, dir)
	c := convlog.Channel{Agent: "main", Type: "web", Chat: "x"}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10 {
		require.NoError(t, w.Append(t.Context(), c, convlog.Entry{Time: at.Add(time.Duration(i) * time.Hour), Content: fmt.Sprint("Text ", i), Sender: []string{"anna", "bert"}[i%2]}))
	}
	require.Equal(t, []string{"Text 8", "Text 6"}, texts(t, l, c, convlog.Query{Sender: "anna", Since: at.Add(5 * time.Hour)}))
	require.Equal(t, []string{"Text 3"}, texts(t, l, c, convlog.Query{Text: "tEXT ③"}))
	require.Equal(t, []string{"Text 1", "Text 0"}, texts(t, l, c, convlog.Query{Until: at.Add(2 * time.Hour)}))
	var paged []string
	for before := ""; ; {
		n := 0
		for e, err := range l.Entries(t.Context(), c, convlog.Query{Before: before}) {
			require.NoError(t, err)
			paged, before = append(paged, e.Content), e.Place
			if n++; n == 3 {
				break
			}
		}
		if n == 0 {
			break
		}
	}
	require.Equal(t, texts(t, l, c, convlog.Query{}), paged)
	for _, err := range l.Entries(t.Context(), c, convlog.Query{Before: "x"}) {
		require.Error(t, err)
	}
	for _, bad := range []convlog.Channel{{}, {Agent: "a", Type: "t"}} {
		require.Error(t, w.Append(t.Context(), bad, convlog.Entry{}))
	}
	require.Error(t, w.Append(t.Context(), c, convlog.Entry{Extra: transcript.Extra{"role": json.RawMessage(`1`)}}))
	require.Len(t, texts(t, l, c, convlog.Query{}), 10)
	require.Empty(t, texts(t, l, convlog.Channel{Agent: "main", Type: "web", Chat: "nobody"}, convlog.Query{}))
}

// ZyHive's own logs are read, under its names and with several chats in one file;
// so are whole lines around torn ones.
func TestZyHive(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "agents", "main", "convlogs")
	require.NoError(t, os.MkdirAll(logs, 0o700))
	data := `{"ts":"2026-02-19T08:00:00Z","role":"user","content":"one","channelId":"telegram--100/7","channelType":"telegram","sender":"Zoe (42)"}
{"ts":"2026-02-19T08:00:05Z","role":"assistant","content":"two","channelId":"telegram--100/7","channelType":"telegram"}
{"ts":"2026-02-19T08:00:06Z","role":"user","content":"other","channelId":"telegram--100-7","channelType":"telegram"}
{"ts":"2026-02-19T08:00:07Z","role":"user","con`
	require.NoError(t, os.WriteFile(filepath.Join(logs, "telegram--100-7.jsonl"), []byte(data), 0o600))
	l := reader(t, dir)
	c := convlog.Channel{Agent: "main", Type: "telegram", Chat: "-100/7"}
	require.Equal(t, []string{"two", "one"}, texts(t, l, c, convlog.Query{}))
	require.Equal(t, []string{"other"}, texts(t, l, convlog.Channel{Agent: "main", Type: "telegram", Chat: "-100-7"}, convlog.Query{}))
	w := writer(t, dir)
	require.NoError(t, w.Append(t.Context(), c, convlog.Entry{Role: "user", Content: "three"}))
	require.Equal(t, []string{"three", "two", "one"}, texts(t, l, c, convlog.Query{}))
}

// A writer gives no data back: its methods return only errors, and it exports no
// field.
func TestWriterCannotRead(t *testing.T) {
	w := reflect.TypeFor[*convlog.Writer]()
	for m := range w.Methods() {
		require.Equal(t, 1, m.Type.NumOut(), m.Name)
		require.Equal(t, reflect.TypeFor[error](), m.Type.Out(0), m.Name)
	}
	for _, f := range reflect.VisibleFields(w.Elem()) {
		require.False(t, f.IsExported(), f.Name)
	}
}

// Logs are neither written nor read over a link to another agent.
func TestPlantedLink(t *testing.T) {
	dir := t.TempDir()
	w, l := writer(t, dir), reader(t, dir)
	a := convlog.Channel{Agent: "a", Type: "web", Chat: "1"}
	b := convlog.Channel{Agent: "b", Type: "web", Chat: "1"}
	require.NoError(t, w.Append(t.Context(), a, convlog.Entry{Role: "user", Content: "a's"}))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "agents/b")))
	require.ErrorContains(t, w.Append(t.Context(), b, convlog.Entry{Role: "user", Content: "b's"}), "agents/b is a symbolic link")
	for _, err := range l.Entries(t.Context(), b, convlog.Query{}) {
		require.ErrorContains(t, err, "agents/b is a symbolic link")
	}
	require.Equal(t, []string{"a's"}, texts(t, l, a, convlog.Query{}))
}

// More chats than stay open, and appends after Close.
func TestManyChats(t *testing.T) {
	dir := t.TempDir()
	w, err := convlog.OpenWriter(dir, nil)
	require.NoError(t, err)
	for round := range 2 {
		for i := range 80 {
			c := convlog.Channel{Agent: "main", Type: "web", Chat: fmt.Sprint(i)}
			require.NoError(t, w.Append(t.Context(), c, convlog.Entry{Content: "x", MessageID: fmt.Sprint(round)}))
		}
	}
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Append(t.Context(), convlog.Channel{Agent: "a", Type: "b", Chat: "c"}, convlog.Entry{}), os.ErrClosed)
	l := reader(t, dir)
	for i := range 80 {
		require.Len(t, texts(t, l, convlog.Channel{Agent: "main", Type: "web", Chat: fmt.Sprint(i)}, convlog.Query{}), 2)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Channels(ctx, "", "")
	require.True(t, errors.Is(err, context.Canceled))
}
