package filedriver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// A writer that was killed inside a failing sync took the report of the failure
// with it. Every call that says something is durable looks closely at the bytes
// that the writer may have left before it does, also beside a damaged index.
func TestDeadWriterIsSuspected(t *testing.T) {
	promises := map[string]func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error{
		"append": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error {
			_, err := d.Append(ctx, ref, []driver.Line{note("next")}, driver.Anywhere)
			return err
		},
		"flush":   func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Flush(ctx, ref, false) },
		"recover": func(ctx context.Context, d *filedriver.Driver, ref driver.Ref) error { return d.Flush(ctx, ref, true) },
	}
	for name, promise := range promises {
		for _, damage := range []string{"", `{"by":1,"row":{"id`} {
			t.Run(fmt.Sprint(name, " damage ", damage != ""), func(t *testing.T) {
				dir, ctx := t.TempDir(), t.Context()
				d := open(t, dir, &filedriver.Options{Sync: driver.SyncAlways})
				row := create(t, d, "a", "k")
				ref := row.Ref()
				res, err := d.Append(ctx, ref, keyed("key", 2), driver.Anywhere)
				require.NoError(t, err)
				row.Size = int64(res.End)
				require.NoError(t, d.Put(ctx, row))
				require.NoError(t, d.Close())
				info, err := os.Stat(d.Path(ref))
				require.NoError(t, err)
				appendRaw(t, d.Path(ref), note("left").Data)
				left := int64(len(note("left").Data)) + 1
				addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, info.Size()))
				if damage != "" {
					addLine(t, dir, damage)
				}

				var synced []int64
				d = open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
					if s, ok := e.(filelog.Synced); ok {
						synced = append(synced, s.Bytes)
					}
				}})
				require.NoError(t, promise(ctx, d, ref))
				require.NotEmpty(t, synced)
				require.Equal(t, left, synced[0], "the bytes that were left are synced and compared")
				require.NoError(t, d.Close())
			})
		}
	}
}

// Only another boot that is known clears a dead writer: an index that was made again
// names none, and a damaged first line neither.
func TestDeadWriterUnderAnUnknownBoot(t *testing.T) {
	for _, first := range []string{`{"index":2,"agent":"main"}`, `{"index":2,"boot`} {
		dir, ctx := t.TempDir(), t.Context()
		d := open(t, dir, nil)
		row := create(t, d, "a", "k")
		row.Size = int64(add(t, d, row.Ref(), "1").End)
		require.NoError(t, d.Put(ctx, row))
		require.NoError(t, d.Close())
		appendRaw(t, d.Path(row.Ref()), note("left").Data)
		addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, row.Size))
		_, rest, _ := strings.Cut(indexText(t, dir), "\n")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(first+"\n"+rest), 0o600))

		var synced []int64
		d = open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
			if s, ok := e.(filelog.Synced); ok {
				synced = append(synced, s.Bytes)
			}
		}})
		require.NoError(t, d.Flush(ctx, row.Ref(), false))
		require.Equal(t, int64(len(note("left").Data))+1, synced[0], first)
		require.NoError(t, d.Close())
	}
}

// A writer that appends first after a boot and is killed is suspected: what it has left
// may be in the page cache alone, whatever the index was before.
func TestDeadWriterAfterABoot(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	ref := row.Ref()
	add(t, d, ref, "1")
	other := create(t, d, "b", "k2").Ref()
	require.NoError(t, d.Close()) // killed, as it puts no row
	_, rest, _ := strings.Cut(indexText(t, dir), "\n")
	text := `{"index":2,"boot":"another","agent":"main"}` + "\n" + rest
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.jsonl"), []byte(text), 0o600))

	d = open(t, dir, &filedriver.Options{})
	left := add(t, d, ref, "2")
	require.NotContains(t, indexText(t, dir), "another")
	require.Equal(t, 1, strings.Count(indexText(t, dir), `"busy":"a"`), "the bytes of the boot before are safe")
	require.NoError(t, d.Close()) // killed, too

	var synced []int64
	d = open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
		if s, ok := e.(filelog.Synced); ok {
			synced = append(synced, s.Bytes)
		}
	}})
	require.NoError(t, d.Flush(ctx, ref, false))
	require.Equal(t, int64(left.End-left.Start), synced[0])
	require.NoError(t, d.Put(ctx, row))
	require.Contains(t, indexText(t, dir), `"boot"`)
	rows := list(t, d)
	require.Len(t, rows, 2)
	require.NoError(t, d.Delete(ctx, driver.Anywhere, other))
	require.NoError(t, d.Close())
}

// A dead writer's busy line stays while nobody knows that its bytes are safe.
func TestDeadWriterIsNotForgotten(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Size = int64(add(t, d, row.Ref(), "1").End)
	require.NoError(t, d.Put(ctx, row))
	require.NoError(t, d.Close())
	busy := fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, row.Size)
	addLine(t, dir, busy)

	d = open(t, dir, &filedriver.Options{})
	info, err := os.Stat(d.Path(row.Ref()))
	require.NoError(t, err)
	// Another process is appending: this one cannot look at the transcript yet.
	root, err := os.OpenRoot(filepath.Dir(d.Path(row.Ref())))
	require.NoError(t, err)
	writer, err := filelog.Open(root, filepath.Base(d.Path(row.Ref())), nil)
	require.NoError(t, err)
	held, err := writer.Hold(ctx)
	require.NoError(t, err)
	_, err = d.Append(hang(t, 20*time.Millisecond), row.Ref(), []driver.Line{note("no")}, driver.Anywhere)
	require.Error(t, err)
	row.Size = info.Size()
	require.NoError(t, d.Put(ctx, row))
	require.NotContains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter))
	held()
	require.NoError(t, writer.Close())
	require.NoError(t, root.Close())

	add(t, d, row.Ref(), "2")
	require.NoError(t, d.Put(ctx, row)) // the row does not cover the transcript
	require.NotContains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter))
	f, err := os.Stat(d.Path(row.Ref()))
	require.NoError(t, err)
	row.Size = f.Size()
	require.NoError(t, d.Put(ctx, row))
	require.Contains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter))
	require.NoError(t, d.Close())
}

// Even a process that never syncs its own lines syncs what a writer left that it finds
// dead, whose busy line would stay for ever otherwise. The row of a session ends no busy line of one that has
// died since: the next process that promises something compares the bytes.
func TestDeadWriterBesideSyncNever(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{})
	row := create(t, d, "a", "k")
	ref := row.Ref()
	require.NoError(t, d.Close())
	dies := func(by int64, l driver.Line) {
		t.Helper()
		info, err := os.Stat(d.Path(ref))
		require.NoError(t, err)
		appendRaw(t, d.Path(ref), l.Data)
		addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, by, info.Size()))
	}
	var synced []int64
	observed := func(sync driver.SyncPolicy) *filedriver.Options {
		synced = nil
		return &filedriver.Options{Sync: sync, Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
			if s, ok := e.(filelog.Synced); ok {
				synced = append(synced, s.Bytes)
			}
		}}
	}

	dies(deadWriter, note("before"))
	never := open(t, dir, observed(driver.SyncNever))
	row.Size = int64(add(t, never, ref, "1").End)
	require.NoError(t, never.Put(ctx, row))
	require.NotEmpty(t, synced)
	require.Contains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter))
	before, err := os.Stat(d.Path(ref))
	require.NoError(t, err)
	left := before.Size()
	dies(deadWriter+1, keyed("key", 1)[0])
	for i := range 2 {
		row.Size = int64(add(t, never, ref, fmt.Sprint("after", i)).End)
		require.NoError(t, never.Put(ctx, row))
	}
	require.NotContains(t, indexText(t, dir), fmt.Sprintf(`"ends":[%d]`, deadWriter+1))
	require.NoError(t, never.Close())

	d = open(t, dir, observed(driver.SyncAlways))
	require.NoError(t, d.Flush(ctx, ref, false))
	info, err := os.Stat(d.Path(ref))
	require.NoError(t, err)
	require.Equal(t, info.Size()-left, synced[0])
	require.NoError(t, d.Close())
}

// A row does not end the busy line of a writer that has died since its bytes were last
// asked for: whoever opens the transcript next must compare them before it repeats
// that they are durable.
func TestWriterDiesBehindALook(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{})
	row := create(t, d, "a", "k")
	ref := row.Ref()
	row.Size = int64(add(t, d, ref, "1").End)
	require.NoError(t, d.Put(ctx, row))
	left := keyed("key", 1)[0].Data
	appendRaw(t, d.Path(ref), left)
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, row.Size))
	row.Size += int64(len(left)) + 1
	ends := fmt.Sprintf(`"ends":[%d]`, deadWriter)
	require.NoError(t, d.Put(ctx, row))
	require.NotContains(t, indexText(t, dir), ends)

	var synced []int64
	next := open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
		if s, ok := e.(filelog.Synced); ok {
			synced = append(synced, s.Bytes)
		}
	}})
	require.NoError(t, next.Flush(ctx, ref, false))
	require.Equal(t, int64(len(left))+1, synced[0])
	require.NoError(t, next.Close())

	row.Size = int64(add(t, d, ref, "2").End) // which compares them, too
	require.NoError(t, d.Put(ctx, row))
	require.Contains(t, indexText(t, dir), ends)
	require.NoError(t, d.Close())
}

// Nothing is said to be durable while the index cannot be read: it says whose bytes
// are in doubt. They are compared once it can.
func TestDeadWriterInAnUnreadableIndex(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, &filedriver.Options{})
	row := create(t, d, "a", "k")
	ref := row.Ref()
	require.NoError(t, d.Close())
	left := keyed("key", 1)[0].Data
	appendRaw(t, d.Path(ref), left)
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a","from":%d}`, deadWriter, row.Size))

	var synced []int64
	d = open(t, dir, &filedriver.Options{Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
		if s, ok := e.(filelog.Synced); ok {
			synced = append(synced, s.Bytes)
		}
	}})
	_, err := d.Get(ctx, ref)
	require.NoError(t, err)
	path := filepath.Join(dir, "agents/main/sessions.jsonl")
	require.NoError(t, os.Rename(path, path+".away"))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.ErrorContains(t, d.Flush(ctx, ref, false), "read index")
	_, err = d.Append(ctx, ref, notes(1), driver.Anywhere)
	require.ErrorContains(t, err, "read index")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(path+".away", path))
	synced = nil
	require.NoError(t, d.Flush(ctx, ref, false))
	require.Equal(t, int64(len(left))+1, synced[0])
	require.NoError(t, d.Close())
}

// A process does not suspect itself of what it wrote before it closed a
// transcript.
func TestNobodySuspectsHimself(t *testing.T) {
	dir := t.TempDir()
	syncs := 0
	d := open(t, dir, &filedriver.Options{OpenFiles: 1, Observe: func(_ context.Context, _ driver.Ref, e filelog.Event) {
		if _, ok := e.(filelog.Synced); ok {
			syncs++
		}
	}})
	a, b := create(t, d, "a", "k").Ref(), create(t, d, "b", "k").Ref()
	for i := range 3 {
		add(t, d, a, fmt.Sprint("a", i))
		add(t, d, b, fmt.Sprint("b", i))
	}
	require.Equal(t, 6, syncs)
	require.NoError(t, d.Close())
}

// A transcript that is none any more, of a session that a dead writer was busy with,
// keeps nobody from writing.
func TestDeadWriterOfNoTranscript(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	require.NoError(t, os.Remove(d.Path(ref)))
	require.NoError(t, os.Mkdir(d.Path(ref), 0o700))
	addLine(t, dir, fmt.Sprintf(`{"by":%d,"busy":"a"}`, deadWriter))
	d = open(t, dir, nil)
	create(t, d, "b", "other")
	require.NoError(t, d.Close())
}
