package serve_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/transcript"
)

// A URI names one session, and the parser accepts only URIs.
func TestURI(t *testing.T) {
	for uri, want := range map[string]session.Ref{
		"viking://session/a1b2c3d4/":            {Agent: "main", ID: "a1b2c3d4"},
		"viking://session/a%2Fb%3Fc%25/":        {Agent: "main", ID: "a/b?c%"},
		"viking://session/s1/?agent=a%26b+c":    {Agent: "a&b c", ID: "s1"},
		"viking://session/%E4%BC%9A/?agent=%23": {Agent: "#", ID: "会"},
		"viking://session/":                     {},
		"viking://session/?agent=main":          {Agent: "main"},
	} {
		got, err := openviking.ParseURI(uri)
		if err != nil || got != want {
			t.Errorf("ParseURI(%q) = %+v, %v, want %+v", uri, got, err, want)
		}
		if back := openviking.URI(want); back != uri {
			t.Errorf("URI(%+v) = %q, want %q", want, back, uri)
		}
	}
	ref, err := openviking.ParseURI("viking://session/a1b2c3d4")
	require.NoError(t, err)
	require.Equal(t, "a1b2c3d4", ref.ID)
	for _, uri := range []string{
		"", "a1b2c3d4", "http://session/a/", "viking:/session/a/", "Viking://session/a/", "viking://", "viking://sessions/a/",
		"viking://user/memories/", "viking://resources/docs/", "viking://session/a/history/archive_001/", "viking://session/a//",
		"viking://session//", "viking://session/%zz/", "viking://session/a/?agent=", "viking://session/a/?agent=main", "viking://session/a/?user=x",
		"viking://session/a/?agent=b&agent=c", "viking://session/a?agent=b", "viking://session/a b/", "viking://session/a/#top", " viking://session/a/",
	} {
		if ref, err := openviking.ParseURI(uri); !errors.Is(err, fs.ErrInvalid) || ref != (session.Ref{}) {
			t.Errorf("ParseURI(%q) = %+v, %v", uri, ref, err)
		}
	}
}

func FuzzURI(f *testing.F) {
	f.Add("main", "a1b2c3d4", "viking://session/a1b2c3d4/")
	f.Add("a?b&c=d", "../x", "viking://session/%2E%2E/?agent=%3D")
	f.Fuzz(func(t *testing.T, agent, id, uri string) {
		ref := session.Ref{Agent: agent, ID: id}
		if agent == "" && id != "" {
			ref.Agent = "main"
		}
		if back, err := openviking.ParseURI(openviking.URI(ref)); err != nil || back != ref {
			t.Errorf("%+v became %q and then %+v, %v", ref, openviking.URI(ref), back, err)
		}
		if got, err := openviking.ParseURI(uri); err == nil && openviking.URI(got) != uri && openviking.URI(got) != uri+"/" {
			t.Errorf("%q is %+v, which is %q", uri, got, openviking.URI(got))
		}
	})
}

// A URI can replace an ID wherever sessions are listed, loaded and deleted.
func TestURIOfSession(t *testing.T) {
	ctx := t.Context()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { require.NoError(t, st.Close()) }()
	for _, agent := range []string{"main", "helper"} {
		s, err := st.Create(ctx, session.Key{Agent: agent, Channel: "cli", Peer: "ana"}, &session.CreateOptions{ID: "a1b2c3d4"})
		require.NoError(t, err)
		_, err = s.Append(ctx, transcript.UserText("I am the session of "+agent))
		require.NoError(t, err)
	}
	all, err := openviking.ParseURI("viking://session/")
	require.NoError(t, err)
	infos, err := st.List(ctx, &session.ListOptions{Key: session.Key{Agent: all.Agent}})
	require.NoError(t, err)
	require.Len(t, infos, 2)
	for _, info := range infos {
		ref, err := openviking.ParseURI(openviking.URI(info.Ref))
		require.NoError(t, err)
		s, err := st.Get(ctx, ref)
		require.NoError(t, err)
		require.Equal(t, info.Ref, s.Ref())
	}
	ref, err := openviking.ParseURI("viking://session/a1b2c3d4/")
	require.NoError(t, err)
	require.NoError(t, st.Delete(ctx, ref))
	_, err = st.Get(ctx, ref)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Error(t, st.Delete(ctx, all), "deleted all sessions at once")
	if infos, err = st.List(ctx, nil); err != nil || len(infos) != 1 || infos[0].Agent != "helper" {
		t.Errorf("left: %+v, %v", infos, err)
	}
}
