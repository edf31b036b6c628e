package filelog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

// The kernel's own short write: it writes up to the size limit of a file, and
// fails only when asked to write the rest.
func TestFileSizeLimit(t *testing.T) {
	const lines = "{\"n\":1}\n{\"n\":2}\n"
	if isChild() {
		dir, _ := childArgs()
		root := must(os.OpenRoot(dir))
		l := must(filelog.Open(root, name, nil))
		size := must(l.Size())
		for room := range len(lines) {
			setLimit(uint64(size) + uint64(room))
			_, _, err := l.Append(t.Context(), filelog.Lines([]byte(lines)))
			after := must(l.Size())
			setLimit(unix.RLIM_INFINITY)
			if !errors.Is(err, syscall.EFBIG) || after != size {
				must(0, fmt.Errorf("room for %d bytes: %w, %d bytes more", room, err, after-size))
			}
			if room == len(lines)/2 { // it works again in between
				must(0, appendTo(t, l, lines))
				size = must(l.Size())
			}
		}
		// A tail that cannot be ended keeps lines out until there is room.
		breakTail(t, root, "torn")
		setLimit(uint64(size) + 4)
		if err := appendTo(t, l, lines); !errors.Is(err, syscall.EFBIG) || must(l.Size()) != size+4 {
			must(0, fmt.Errorf("with a torn tail: %w", err))
		}
		setLimit(unix.RLIM_INFINITY)
		must(0, appendTo(t, l, lines))
		must(0, l.Close())
		os.Exit(0)
	}
	root, dir := folder(t)
	create(t, root, "first\n", nil)
	require.NoError(t, start(t, dir).Wait())
	reopen(t, root, "first\n"+lines+"torn\n"+lines)
}

// Opening without a free descriptor reports that.
func TestOpenWithoutDescriptors(t *testing.T) {
	if isChild() {
		dir, _ := childArgs()
		root := must(os.OpenRoot(dir))
		var limit unix.Rlimit
		must(0, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		limit.Cur = 3
		must(0, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		if _, err := filelog.Open(root, name, nil); !errors.Is(err, syscall.EMFILE) {
			must(0, fmt.Errorf("without descriptors: %w", err))
		}
		os.Exit(0)
	}
	root, dir := folder(t)
	create(t, root, "first\n", nil)
	require.NoError(t, start(t, dir).Wait())
}

func appendTo(t *testing.T, l *filelog.Log, lines string) error {
	_, _, err := l.Append(t.Context(), filelog.Lines([]byte(lines)))
	return err
}

// setLimit sets the soft limit on the size of a file, in bytes.
func setLimit(n uint64) {
	var limit unix.Rlimit
	must(0, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	limit.Cur = min(n, limit.Max)
	must(0, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
}

func TestOpenRefusesSpecialFiles(t *testing.T) {
	root, dir := folder(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, readOnly := range []bool{false, true} {
		_, err := filelog.Open(root, "fifo", &filelog.Options{ReadOnly: readOnly})
		wantErr(t, err)
		if !strings.Contains(err.Error(), "not a regular file") {
			t.Error(err)
		}
	}
	dev, err := os.OpenRoot("/dev")
	require.NoError(t, err)
	defer dev.Close()
	_, err = filelog.Open(dev, "null", nil)
	wantErr(t, err)
}

func TestCheckFS(t *testing.T) {
	root, _ := folder(t)
	if err := filelog.CheckFS(root); err != nil {
		t.Logf("the folder for temporary files: %v", err)
		wantErr(t, err, driver.ErrNetworkFS)
	}
	proc, err := os.OpenRoot("/proc")
	require.NoError(t, err)
	defer proc.Close()
	err = filelog.CheckFS(proc)
	wantErr(t, err, driver.ErrNetworkFS)
	require.ErrorContains(t, err, fmt.Sprintf("%#x", unix.PROC_SUPER_MAGIC))
}

// A copy belongs to the owner of the file, if its maker may give files away.
func TestCopyKeepsTheOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs a user who may give files away")
	}
	root, dir := folder(t)
	l := create(t, root, "first\n", nil)
	path := filepath.Join(dir, name)
	require.NoError(t, os.Chown(path, 12, 34))
	require.NoError(t, os.Chmod(path, 0o640|os.ModeSticky))
	require.NoError(t, l.Flush(t.Context()))
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	require.EqualValues(t, []uint32{12, 34, unix.S_IFREG | 0o640}, []uint32{st.Uid, st.Gid, st.Mode})
	reopen(t, root, "first\n")
}
