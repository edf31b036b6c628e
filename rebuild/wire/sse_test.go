package wire_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire"
)

func TestReadSSE(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"one", "event: ping\ndata: {\"type\": \"ping\"}\n\n", []string{`{"type": "ping"}`}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"many lines", "data: a\ndata:b\ndata\ndata:  c\n\n", []string{"a\nb\n\n c"}},
		{"comments and fields", ": keep-alive\n\nid: 1\nretry: 2\ndatum: x\nfoo\ndata: a\n\n", []string{"a"}},
		{"no data", "event: x\n\ndata:\n\ndata\n\n", nil},
		{"no last blank line", "data: a\n", []string{"a"}},
		{"no last line end", "data: a\n\ndata: b", []string{"a", "b"}},
		{"byte order mark", "\uFEFFdata: a\n\n", []string{"a"}},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", []string{"a"}},
		{"long line", "data: " + long + "\n\n", []string{long}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text)), iotest.DataErrReader(strings.NewReader(tt.text))} {
				var got []string
				err := wire.ReadSSE(r, func(event []byte) error {
					got = append(got, string(event))
					return nil
				})
				if err != nil || !slices.Equal(got, tt.want) {
					t.Errorf("events %.100q, error %v", got, err)
				}
			}
		})
	}
}

func TestReadSSEErrors(t *testing.T) {
	stop := errors.New("stop")
	require.ErrorIs(t, wire.ReadSSE(strings.NewReader("data: a\n\ndata: b\n\n"), func([]byte) error { return stop }), stop)
	n := 0
	r := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := wire.ReadSSE(r, func([]byte) error { n++; return nil }); !errors.Is(err, io.ErrUnexpectedEOF) || n != 1 {
		t.Errorf("error of r: %v after %d events", err, n)
	}
	both := []string{"x", "data: " + strings.Repeat("x", 1<<20) + "\n"}
	for _, text := range amount(both[:0], both, both) {
		if err := wire.ReadSSE(endless(text), func([]byte) error { return nil }); err == nil {
			t.Errorf("endless %.10q: no error", text)
		}
	}
}

// After the last event of a provider nothing more is read: no later event, no error,
// and no byte of a connection that stays open.
func TestReadSSELast(t *testing.T) {
	for _, last := range []string{
		"[DONE]", `{"type":"message_stop"}`, `{"response":{"output":[]},"type": "response.completed"}`,
		`{"type":"response.incomplete"}`, `{"type":"response.failed"}`,
	} {
		for _, end := range []string{"\n", "\r\n", "\r"} {
			r := io.MultiReader(strings.NewReader("data: a"+end+end+"data: "+last+end+end), iotest.ErrReader(io.ErrUnexpectedEOF))
			var got []string
			err := wire.ReadSSE(iotest.OneByteReader(r), func(event []byte) error {
				got = append(got, string(event))
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, []string{"a", last}, got)
		}
	}
	stop := errors.New("stop")
	require.ErrorIs(t, wire.ReadSSE(strings.NewReader("data: [DONE]\n\n"), func([]byte) error { return stop }), stop)
	n := 0
	err := wire.ReadSSE(strings.NewReader("data: {\"type\":\"message_delta\"}\n\ndata: {\"text\":\"[DONE]\"}\n\ndata: x\n\n"), func([]byte) error { n++; return nil })
	require.NoError(t, err)
	require.Equal(t, 3, n, "events that are not the last one")
}

// Each event arrives at once, without waiting for more data.
func TestReadSSEIncremental(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		r, w := io.Pipe()
		got := make(chan string)
		done := make(chan error)
		go func() {
			done <- wire.ReadSSE(r, func(event []byte) error { got <- string(event); return nil })
		}()
		for _, want := range []string{"a", "b"} {
			_, err := io.WriteString(w, "data: "+want+end+end[:1])
			require.NoError(t, err)
			if event := <-got; event != want {
				t.Errorf("event %q, want %q", event, want)
			}
			if len(end) == 2 {
				_, err := io.WriteString(w, end[1:])
				require.NoError(t, err)
			}
		}
		require.NoError(t, w.Close())
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// endless returns a reader of more text than an event may have, 64 MiB.
func endless(text string) io.Reader {
	part := strings.Repeat(text, 1<<20/len(text)+1)
	return io.MultiReader(slices.Collect(func(yield func(io.Reader) bool) {
		for n := 0; n <= 128<<20; n += 1 << 20 {
			if !yield(strings.NewReader(part)) {
				return
			}
		}
	})...)
}
