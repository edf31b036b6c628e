package filelog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/filelog"
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
	start, end, err := l.Append(t.Context(), []byte(lines), nil)
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
	if got := content(t, root); got != want {
		t.Fatalf("the file holds %q, want %q", got, want)
	}
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
		if !errors.Is(err, target) {
			t.Fatalf("error %v, want one that matches %q", err, target)
		}
	}
	e, ok := errors.AsType[*filelog.Error](err)
	if !ok || e.Op == "" || !filepath.IsAbs(e.Path) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %q is not one line that names operation and file", err)
	}
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
			if size, err := l.Size(); size != 20 || err != nil {
				t.Errorf("Size = %d, %v", size, err)
			}
			if end, err := l.Settle(t.Context()); end != 20 || err != nil {
				t.Errorf("Settle = %d, %v", end, err)
			}
			if b, err := io.ReadAll(io.NewSectionReader(l, 6, 4)); string(b) != "one\n" || err != nil {
				t.Errorf("read %q, %v", b, err)
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if info, err := root.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("mode %v, %v: others may read the log", info.Mode(), err)
			}
			reopen(t, root, "first\none\ntwo\nthree\n")
		})
	}
}

func TestAppendRefusesWhatIsNotLines(t *testing.T) {
	root, _ := folder(t)
	l := create(t, root, "first\n", never)
	for _, lines := range []string{"", "a", "a\nb"} {
		_, _, err := l.Append(t.Context(), []byte(lines), nil)
		wantErr(t, err)
		_, err = filelog.Create(root, "b.jsonl", []byte(lines), nil)
		wantErr(t, err)
	}
	reopen(t, root, "first\n")
}

func TestCheck(t *testing.T) {
	root, _ := folder(t)
	l := create(t, root, "first\n", never)
	refuse := errors.New("no")
	var at int64
	_, _, err := l.Append(t.Context(), []byte("x\n"), func(end int64) error { at = end; return refuse })
	if err != refuse { //nolint:errorlint // must not be wrapped
		t.Fatalf("error %v, want the check's own", err)
	}
	if at != 6 {
		t.Errorf("check was given %d, want 6", at)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = l.Append(ctx, []byte("x\n"), func(int64) error { cancel(); return nil })
	wantErr(t, err, context.Canceled)
	func() {
		defer func() { _ = recover() }()
		_, _, _ = l.Append(t.Context(), []byte("x\n"), func(int64) error { panic("check") })
	}()
	add(t, l, "y\n") // the lock was given back each time
	reopen(t, root, "first\ny\n")
}

func TestClosed(t *testing.T) {
	root, _ := folder(t)
	l := create(t, root, "first\n", nil)
	require.NoError(t, l.Close())
	_, _, err := l.Append(t.Context(), []byte("x\n"), nil)
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
	_, _, err := l.Append(t.Context(), []byte("x\n"), nil)
	wantErr(t, err, filelog.ErrReadOnly)
	_, err = filelog.Create(root, "b.jsonl", []byte("x\n"), &filelog.Options{ReadOnly: true})
	wantErr(t, err, filelog.ErrReadOnly)
	breakTail(t, root, "torn")
	if end, err := l.Settle(t.Context()); end != 14 || err != nil {
		t.Errorf("Settle = %d, %v, want 14", end, err)
	}
	if got := content(t, root); got != "first\none\ntorn" {
		t.Errorf("a read-only log changed the file to %q", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
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
	if len(won) != 1 {
		t.Fatalf("%d creators won", len(won))
	}
	b, err := root.ReadFile(filepath.Join("sub", name))
	if err != nil || string(b) != fmt.Sprintf("%d\n", <-won) {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "sub")); len(left) != 1 || err != nil {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	reopen(t, root, "first\n")
}

func TestWriteFileAtomic(t *testing.T) {
	root, dir := folder(t)
	for _, data := range []string{"one\n", "two, longer", ""} {
		require.NoError(t, filelog.WriteFileAtomic(root, name, []byte(data), data == "one\n"))
		if got := content(t, root); got != data {
			t.Errorf("the file holds %q, want %q", got, data)
		}
	}
	wantErr(t, filelog.WriteFileAtomic(root, filepath.Join("none", name), nil, true), fs.ErrNotExist)
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	if err := filelog.SyncDir(root, "."); err != nil {
		t.Error(err)
	}
	err := filelog.SyncDir(root, "none")
	wantErr(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "try again once the cause is gone")
	reopen(t, root, "")
}

func TestSyncPolicy(t *testing.T) {
	if filelog.SyncInterval(0) != filelog.SyncAlways || filelog.SyncInterval(-1) != (filelog.SyncPolicy{}) {
		t.Error("an interval that is not positive is not SyncAlways")
	}
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
	if size, err := l.Size(); size != 6 || err != nil {
		t.Errorf("Size = %d, %v", size, err)
	}
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err = filelog.Create(root, "b.jsonl", []byte("x\n"), nil)
	wantErr(t, err, fs.ErrPermission)
	wantErr(t, filelog.WriteFileAtomic(root, name, nil, false), fs.ErrPermission)
	add(t, open(t, root, nil), "one\n") // the file itself can be written
	require.NoError(t, os.Chmod(dir, 0o700))
	reopen(t, root, "first\none\n")
}

func TestReplaced(t *testing.T) {
	for what, change := range map[string]func(root *os.Root) error{
		"removed": func(root *os.Root) error { return root.Remove(name) },
		"renamed": func(root *os.Root) error { return root.Rename(name, "b.jsonl") },
		"replaced": func(root *os.Root) error {
			return filelog.WriteFileAtomic(root, name, []byte("new\n"), false)
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
	_, _, err := l.Append(t.Context(), []byte("x\n"), nil)
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
