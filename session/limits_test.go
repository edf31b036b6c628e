package session_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Texts that the index would hold for all sessions are refused, and written at their limit.
func TestLimitsOfMetadata(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	long, label := strings.Repeat("t", 1025), strings.Repeat("l", 257)
	labels := strings.Split(strings.Repeat("x,", 64), ",") // and an empty one
	refused := func(member string, err error) {
		t.Helper()
		e, ok := errors.AsType[*session.InputError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, member, e.Member)
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
	for member, m := range map[string]transcript.Meta{"title": {Title: &long}, "labels": {Labels: labels}, "labels/1": {Labels: []string{"", label}}} {
		refused(member, s.SetMeta(t.Context(), m))
		refused(member, storetest.ErrOf(s.Append(t.Context(), m)))
		opts := &session.CreateOptions{Labels: m.Labels}
		if m.Title != nil {
			opts.Title = *m.Title
		}
		refused(member, storetest.ErrOf(st.Create(t.Context(), storetest.CLI, opts)))
	}
	refused("", s.SetMeta(t.Context(), transcript.Meta{}))
	refused("key", storetest.ErrOf(st.Load(t.Context(), session.Key{Channel: "c", Peer: strings.Repeat("p", 1024)})))
	refused("ttl", storetest.ErrOf(st.Create(t.Context(), storetest.CLI, &session.CreateOptions{TTL: -1})))

	most := long[1:]
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &most, Labels: append(labels[:63:63], label[1:])}))
	info := storetest.Info(t, s)
	require.Equal(t, []int{1024, 64}, []int{len(info.Title), len(info.Labels)})
}
