package filelog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/driver"
)

const name = "a.jsonl"

var never = &filelog.Options{Sync: filelog.SyncNever}

// folder returns a new folder, as a Root and as a path.
func folder(t testing.TB) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// create makes a log that begins with first and closes it with the test.
func create(t testing.TB, root *os.Root, first string, opts *filelog.Options) *filelog.Log {
	t.Helper()
	l, err := filelog.Create(root, name, []byte(first), opts)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func open(t testing.TB, root *os.Root, opts *filelog.Options) *filelog.Log {
	t.Helper()
	l, err := filelog.Open(root, name, opts)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func add(t testing.TB, l *filelog.Log, lines string) (start, end int64) {
	t.Helper()
	start, end, err := l.Append(t.Context(), filelog.Lines([]byte(lines)))
	require.NoError(t, err)
	return start, end
}

func content(t testing.TB, root *os.Root) string {
	t.Helper()
	b, err := root.ReadFile(name)
	require.NoError(t, err)
	return string(b)
}

// reopen checks what the file holds, that it opens and that it takes a line.
func reopen(t testing.TB, root *os.Root, want string) {
	t.Helper()
	require.Equal(t, want, content(t, root))
	l, err := filelog.Open(root, name, never)
	require.NoError(t, err)
	start, _ := add(t, l, "again\n")
	require.NoError(t, l.Close())
	if got := content(t, root); got[start:] != "again\n" || start > 0 && got[start-1] != '\n' {
		t.Fatalf("after reopening and appending the file ends in %q", got[max(0, start-1):])
	}
}

func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		require.ErrorIs(t, err, target)
	}
	e, ok := errors.AsType[*filelog.Error](err)
	require.True(t, ok)
	require.NotEmpty(t, e.Op)
	require.True(t, filepath.IsAbs(e.Path))
	require.NotContains(t, err.Error(), "\n")
}

func TestAppend(t *testing.T) {
	for _, policy := range []filelog.SyncPolicy{filelog.SyncAlways, filelog.SyncNever, filelog.SyncInterval(1e9)} {
		t.Run(policy.String(), func(t *testing.T) {
			root, _ := folder(t)
			l := create(t, root, "first\n", &filelog.Options{Sync: policy})
			if start, end := add(t, l, "one\n"); start != 6 || end != 10 {
				t.Errorf("one is at %d-%d, want 6-10", start, end)
			}
			if start, end := add(t, l, "two\nthree\n"); start != 10 || end != 20 {
				t.Errorf("two and three are at %d-%d, want 10-20", start, end)
			}
			size, err := l.Size()
			require.EqualValues(t, 20, size)
			require.NoError(t, err)
			end, err := l.Settle(t.Context())
			require.EqualValues(t, 20, end)
			require.NoError(t, err)
			b, err := io.ReadAll(io.NewSectionReader(l, 6, 4))
			require.Equal(t, "one\n", string(b))
			require.NoError(t, err)
			require.NoError(t, l.Flush(t.Context()))
			require.NoError(t, l.Close())
			info, err := root.Stat(name)
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077)
			reopen(t, root, "first\none\ntwo\nthree\n")
		})
	}
}

func TestAppendRefusesWhatIsNotLines(t *testing.T) {
	root, _ := folder(t)
	l := create(t, root, "first\n", never)
	for _, lines := range []string{"", "a", "a\nb"} {
		_, _, err := l.Append(t.Context(), filelog.Lines([]byte(lines)))
		require.Equal(t, lines == "", err == nil) // no lines are no write
		_, err = filelog.Create(root, "b.jsonl", []byte(lines), nil)
		wantErr(t, err)
	}
	reopen(t, root, "first\n")
}

func TestAppendDecides(t *testing.T) {
	root, _ := folder(t)
	l := create(t, root, "first\n", never)
	refuse := errors.New("no")
	var at int64
	_, _, err := l.Append(t.Context(), func(end int64) ([]byte, error) { at = end; return nil, refuse })
	if err != refuse { //nolint:errorlint // must not be wrapped
		t.Fatalf("error %v, want that of decide", err)
	}
	require.EqualValues(t, 6, at)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = l.Append(ctx, func(int64) ([]byte, error) { cancel(); return []byte("x\n"), nil })
	wantErr(t, err, context.Canceled)
	func() {
		defer func() { _ = recover() }()
		_, _, _ = l.Append(t.Context(), func(int64) ([]byte, error) { panic("decide") })
	}()
	add(t, l, "y\n") // the lock was given back each time
	start, _, err := l.Append(t.Context(), filelog.Lines([]byte("z\n")))
	require.NoError(t, err)
	require.EqualValues(t, 8, start)
	reopen(t, root, "first\ny\nz\n")
}

func TestClosed(t *testing.T) {
	root, _ := folder(t)
	l := create(t, root, "first\n", nil)
	require.NoError(t, l.Close())
	_, _, err := l.Append(t.Context(), filelog.Lines([]byte("x\n")))
	wantErr(t, err, filelog.ErrClosed)
	_, err = l.Settle(t.Context())
	wantErr(t, err, filelog.ErrClosed)
	_, err = l.Size()
	wantErr(t, err, filelog.ErrClosed)
	_, err = l.ReadAt(make([]byte, 1), 0)
	wantErr(t, err, filelog.ErrClosed)
	wantErr(t, l.Flush(t.Context()), filelog.ErrClosed)
	wantErr(t, l.Close(), filelog.ErrClosed)
	reopen(t, root, "first\n")
}

func TestReadOnly(t *testing.T) {
	root, _ := folder(t)
	w := create(t, root, "first\n", nil)
	l := open(t, root, &filelog.Options{ReadOnly: true})
	add(t, w, "one\n")
	_, _, err := l.Append(t.Context(), filelog.Lines([]byte("x\n")))
	wantErr(t, err, driver.ErrReadOnly)
	_, err = filelog.Create(root, "b.jsonl", []byte("x\n"), &filelog.Options{ReadOnly: true})
	wantErr(t, err, driver.ErrReadOnly)
	breakTail(t, root, "torn")
	size, ok, err := l.TrySize()
	require.EqualValues(t, 14, size)
	require.True(t, ok)
	require.NoError(t, err)
	_, err = l.Hold(t.Context())
	wantErr(t, err, driver.ErrReadOnly)
	require.Equal(t, "first\none\ntorn", content(t, root))
	require.NoError(t, l.Close())
	reopen(t, root, "first\none\ntorn")
}

func TestCreateNeverOverwrites(t *testing.T) {
	root, dir := folder(t)
	create(t, root, "first\n", nil)
	_, err := filelog.Create(root, name, []byte("other\n"), nil)
	wantErr(t, err, fs.ErrExist)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	_, err = filelog.Create(root, "sub", []byte("other\n"), nil)
	wantErr(t, err, fs.ErrExist)
	_, err = filelog.Create(root, filepath.Join("none", name), []byte("other\n"), nil)
	wantErr(t, err, fs.ErrNotExist)

	// One of many creators wins, and nothing is left of the others.
	const creators = 8
	won := make(chan int, creators)
	var wg sync.WaitGroup
	for i := range creators {
		wg.Go(func() {
			l, err := filelog.Create(root, filepath.Join("sub", name), fmt.Appendf(nil, "%d\n", i), never)
			if err == nil {
				won <- i
				_ = l.Close()
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, won, 1)
	b, err := root.ReadFile(filepath.Join("sub", name))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d\n", <-won), string(b))
	left, err := os.ReadDir(filepath.Join(dir, "sub"))
	require.Len(t, left, 1)
	require.NoError(t, err)
	reopen(t, root, "first\n")
}

func TestWriteFileAtomic(t *testing.T) {
	root, dir := folder(t)
	for _, data := range []string{"one\n", "two, longer", ""} {
		require.NoError(t, filelog.WriteFileAtomic(root, name, []byte(data), 0o600, data == "one\n"))
		if got := content(t, root); got != data {
			t.Errorf("the file holds %q, want %q", got, data)
		}
	}
	wantErr(t, filelog.WriteFileAtomic(root, filepath.Join("none", name), nil, 0o600, true), fs.ErrNotExist)
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	require.NoError(t, filelog.SyncDir(root, "."))
	err := filelog.SyncDir(root, "none")
	wantErr(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "try again once the cause is gone")
	reopen(t, root, "")
}

func TestSyncPolicy(t *testing.T) {
	require.Equal(t, filelog.SyncAlways, filelog.SyncInterval(0))
	require.Equal(t, filelog.SyncPolicy{}, filelog.SyncInterval(-1))
	for policy, want := range map[filelog.SyncPolicy]string{
		{}:                        "always",
		filelog.SyncNever:         "never",
		filelog.SyncInterval(2e9): "interval 2s",
	} {
		if policy.String() != want {
			t.Errorf("%q, want %q", policy, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	root, dir := folder(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	create(t, root, "first\n", nil)
	if err := root.Symlink(name, "link"); err != nil {
		t.Skip(err)
	}
	_, err := filelog.Open(root, "none", nil)
	wantErr(t, err, fs.ErrNotExist)
	for _, name := range []string{"sub", ".", "link", "../" + filepath.Base(dir) + "/" + name} {
		for _, readOnly := range []bool{false, true} {
			_, err := filelog.Open(root, name, &filelog.Options{ReadOnly: readOnly})
			wantErr(t, err)
		}
	}
	reopen(t, root, "first\n")
}

func TestPermissions(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("this user may do everything, or the system has no modes")
	}
	root, dir := folder(t)
	create(t, root, "first\n", nil)
	path := filepath.Join(dir, name)
	require.NoError(t, os.Chmod(path, 0o400))
	_, err := filelog.Open(root, name, nil)
	wantErr(t, err, fs.ErrPermission)
	l := open(t, root, &filelog.Options{ReadOnly: true})
	size, err := l.Size()
	require.EqualValues(t, 6, size)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err = filelog.Create(root, "b.jsonl", []byte("x\n"), nil)
	wantErr(t, err, fs.ErrPermission)
	wantErr(t, filelog.WriteFileAtomic(root, name, nil, 0o600, false), fs.ErrPermission)
	add(t, open(t, root, nil), "one\n") // the file itself can be written
	require.NoError(t, os.Chmod(dir, 0o700))
	reopen(t, root, "first\none\n")
}

func TestReplaced(t *testing.T) {
	for what, change := range map[string]func(root *os.Root) error{
		"removed": func(root *os.Root) error { return root.Remove(name) },
		"renamed": func(root *os.Root) error { return root.Rename(name, "b.jsonl") },
		"replaced": func(root *os.Root) error {
			return filelog.WriteFileAtomic(root, name, []byte("new\n"), 0o600, false)
		},
		"copied": func(root *os.Root) error {
			return errors.Join(root.Rename(name, "b.jsonl"), root.WriteFile(name, []byte("new\n"), 0o600))
		},
	} {
		for _, shared := range []bool{false, true} { // a folder for the look-up
			t.Run(fmt.Sprint(what, "/folder=", shared), func(t *testing.T) { checkReplaced(t, shared, change) })
		}
	}
}

// checkReplaced holds that a log notices that its name refers to another file,
// or to none.
func checkReplaced(t *testing.T, shared bool, change func(root *os.Root) error) {
	root, _ := folder(t)
	opts := new(filelog.Options)
	if shared {
		f, err := root.Open(".")
		require.NoError(t, err)
		defer f.Close()
		opts.Folder = f
	}
	l := create(t, root, "first\n", opts)
	add(t, l, "second\n")
	if size, err := l.Size(); size != 13 || err != nil {
		t.Errorf("Size = %d, %v", size, err)
	}
	require.NoError(t, change(root))
	_, _, err := l.Append(t.Context(), filelog.Lines([]byte("x\n")))
	wantErr(t, err, filelog.ErrReplaced)
	_, err = l.Settle(t.Context())
	wantErr(t, err, filelog.ErrReplaced)
	_, err = l.Size()
	wantErr(t, err, filelog.ErrReplaced)
	if b, err := io.ReadAll(io.NewSectionReader(l, 0, 100)); string(b) != "first\nsecond\n" || err != nil {
		t.Errorf("the open file reads %q, %v", b, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := root.Stat(name); err == nil {
		reopen(t, root, "new\n")
	}
}

// A Log without observers allocates nothing for them.
func TestAppendAllocatesNothing(t *testing.T) {
	if storetest.Brief {
		t.Skip("the race detector allocates too")
	}
	for _, policy := range []filelog.SyncPolicy{filelog.SyncNever, filelog.SyncAlways} {
		root, _ := folder(t)
		folder, err := root.Open(".")
		require.NoError(t, err)
		l, err := filelog.Create(root, name, []byte("first\n"), &filelog.Options{Sync: policy, Folder: folder})
		require.NoError(t, err)
		decide := filelog.Lines([]byte(`{"n":1}` + "\n"))
		got := testing.AllocsPerRun(200, func() {
			if _, _, err := l.Append(t.Context(), decide); err != nil {
				t.Error(err)
			}
		})
		const most = 1 // the name that is looked up, for the kernel
		if got > most {
			t.Errorf("%v: %v allocations an append", policy, got)
		}
		require.NoError(t, errors.Join(l.Close(), folder.Close()))
	}
}
