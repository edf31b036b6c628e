package blockgzip_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/blockgzip"
)

// mixed returns n bytes of which some can be compressed.
func mixed(seed uint64, n int) []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := 0; i < n; i += 8 {
		word := rnd.Uint64() & (1<<(i>>10&0x3f) - 1)
		for j := i; j < min(i+8, n); j++ {
			data[j] = byte(word >> (8 * (j - i)))
		}
	}
	return data
}

func write(t testing.TB, content, note []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, blockgzip.Write(&file, bytes.NewReader(content), note))
	return file.Bytes()
}

func open(t testing.TB, file []byte) *blockgzip.Reader {
	t.Helper()
	z, err := blockgzip.Open(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	return z
}

// Content comes back byte for byte: from this package, from any other program
// that unpacks gzip, and at every place.
func TestContent(t *testing.T) {
	const block = blockgzip.BlockSize
	for _, n := range []int{0, 1, 1000, block - 1, block, block + 1, 3*block + 7} {
		content, note := mixed(uint64(n), n), []byte("a note")
		file := write(t, content, note)
		z := open(t, file)
		require.Equal(t, int64(n), z.Size())
		got, err := io.ReadAll(io.NewSectionReader(z, 0, z.Size()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), "%d bytes", n)

		plain, err := gzip.NewReader(bytes.NewReader(file))
		require.NoError(t, err)
		got, err = io.ReadAll(plain)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), "%d bytes", n)

		read, err := blockgzip.ReadNote(bytes.NewReader(file))
		require.NoError(t, err)
		require.Equal(t, note, read)
		rnd := rand.New(rand.NewPCG(uint64(n), 2))
		for range 20 {
			from := rnd.IntN(n + 1)
			p := make([]byte, rnd.IntN(min(n-from+1, 2*block)+1))
			n, err := z.ReadAt(p, int64(from))
			want := content[from:min(from+len(p), len(content))]
			require.Equal(t, len(want), n)
			require.True(t, bytes.Equal(want, p[:n]))
			if n < len(p) {
				require.ErrorIs(t, err, io.EOF)
			}
		}
	}
}

// A note is as long as there is room for, or refused, and may be missing.
func TestNote(t *testing.T) {
	for _, n := range []int{0, 1, blockgzip.MaxNote} {
		note, err := blockgzip.ReadNote(bytes.NewReader(write(t, []byte("content"), mixed(1, n))))
		require.NoError(t, err)
		require.Len(t, note, n)
	}
	require.Error(t, blockgzip.Write(io.Discard, bytes.NewReader(nil), make([]byte, blockgzip.MaxNote+1)))
}

// A file that was cut or changed anywhere is never read as other content.
func TestDamage(t *testing.T) {
	content := mixed(3, blockgzip.BlockSize+100)
	file := write(t, content, []byte("note"))
	rnd := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		bad := bytes.Clone(file)
		if at := rnd.IntN(len(bad)); rnd.IntN(3) == 0 {
			bad = bad[:at]
		} else {
			bad[at] ^= 1 << rnd.IntN(8)
		}
		z, err := blockgzip.Open(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			continue
		}
		got, err := io.ReadAll(io.NewSectionReader(z, 0, z.Size()))
		whole := err == nil && z.Size() == int64(len(content)) // a changed bit of a time, say
		require.Equal(t, whole, bytes.Equal(content, got))
	}
}

func TestFailingSource(t *testing.T) {
	require.ErrorIs(t, blockgzip.Write(io.Discard, iotest.ErrReader(io.ErrClosedPipe), nil), io.ErrClosedPipe)
}

// Whatever a file holds, the reader never panics, and it never yields more than
// it has said.
func FuzzOpen(f *testing.F) {
	f.Add(write(f, []byte("content"), []byte("note")))
	f.Add(write(f, nil, nil))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _ = blockgzip.ReadNote(bytes.NewReader(file)) // any error is good
		z, err := blockgzip.Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		got, err := io.ReadAll(io.NewSectionReader(z, 0, z.Size()))
		if err == nil && int64(len(got)) != z.Size() {
			t.Errorf("%d bytes, of %d", len(got), z.Size())
		}
	})
}

func FuzzContent(f *testing.F) {
	f.Add([]byte("content"), []byte("note"))
	f.Fuzz(func(t *testing.T, content, note []byte) {
		note = note[:min(len(note), blockgzip.MaxNote)]
		file := write(t, content, note)
		got, err := io.ReadAll(io.NewSectionReader(open(t, file), 0, int64(len(content))))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		read, err := blockgzip.ReadNote(bytes.NewReader(file))
		require.NoError(t, err)
		require.True(t, bytes.Equal(note, read))
	})
}
