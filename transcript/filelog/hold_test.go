package filelog_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/filelog"
)

func TestHold(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	l, err := filelog.Create(root, "j", []byte("one\n"), &filelog.Options{Sync: filelog.SyncNever})
	require.NoError(t, err)
	other, err := filelog.Open(root, "j", nil)
	require.NoError(t, err)
	h, err := l.Hold(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Append([]byte("two\n")))
	require.NoError(t, h.Sync())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := other.Append(ctx, []byte("x\n"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("append while held = %v, want context.Canceled", err)
	}
	require.NoError(t, h.Reset([]byte("three\n")))
	if err := h.Append([]byte("no newline")); err == nil {
		t.Error("Append took half a line")
	}
	if got := h.End(); got != 6 {
		t.Errorf("End = %d, want 6", got)
	}
	h.Release()
	if start, _, err := other.Append(t.Context(), []byte("four\n"), nil); err != nil || start != 6 {
		t.Errorf("append after release at %d, %v", start, err)
	}
	for _, l := range []*filelog.Log{l, other} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	got, err := root.ReadFile("j")
	if err != nil || string(got) != "three\nfour\n" {
		t.Errorf("file = %q, %v", got, err)
	}
}

// Two Holds of one Log exclude each other.
func TestHoldExcludes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer func() { _ = root.Close() }()
		l, err := filelog.Create(root, "j", []byte("one\n"), nil)
		require.NoError(t, err)
		h, err := l.Hold(t.Context())
		require.NoError(t, err)
		got := make(chan int64)
		go func() {
			h, err := l.Hold(t.Context())
			if err != nil {
				t.Error(err)
				close(got)
				return
			}
			defer h.Release()
			got <- h.End()
		}()
		synctest.Wait()
		require.NoError(t, h.Append([]byte("two\n")))
		h.Release()
		if end := <-got; end != 8 {
			t.Errorf("the second Hold ends at %d, want 8", end)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
