package exchange_test

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A source without an owner adds nothing to an owner's session. It becomes a session of its
// own if it contains more.
func TestImportWithoutOwner(t *testing.T) {
	st := inMemory()
	source := func(owner string, texts ...string) exchange.Imported {
		one := textSource{info: dialect.Session{Dialect: "app", ID: "chat", Owner: owner}, texts: texts}
		report, err := exchange.Import(t.Context(), st, slices.Values([]textSource{one}), nil)
		require.NoError(t, err)
		return report[0]
	}
	ada := source("ada", "hello")
	same := source("", "hello")
	require.Equal(t, ada.Session, same.Session)
	require.Zero(t, same.Appended)
	require.Equal(t, 1, same.Records)
	for _, texts := range [][]string{{"hello", "more"}, {"hello", "more", "still more"}} {
		other := source("", texts...)
		require.NotEqual(t, ada.Session, other.Session)
		require.Equal(t, texts, textsIn(t, st, other.Session))
		s, err := st.Get(t.Context(), other.Session)
		require.NoError(t, err)
		require.Empty(t, storetest.Info(t, s).Owner)
	}
	require.Equal(t, []string{"hello"}, textsIn(t, st, ada.Session))
	require.Equal(t, ada.Session, source("ada", "hello", "of ada").Session)
	require.Equal(t, []string{"hello", "of ada"}, textsIn(t, st, ada.Session))
}

// New records without words are refused as well.
func TestImportWithoutOwnerOfAsides(t *testing.T) {
	st := inMemory()
	report := importAll(t, st, sessionsIn(t, flatFolder(flatSource)), &exchange.ImportOptions{For: "ada"})
	grown := flatSource + `{"type":"session_note","content":"aside","ts":"2026-02-24T10:00:03Z"}` + "\n"
	_, err := exchange.Import(t.Context(), st, sessionsIn(t, flatFolder(grown)), nil)
	require.ErrorIs(t, err, fs.ErrPermission)
	im := importAll(t, st, sessionsIn(t, flatFolder(grown)), &exchange.ImportOptions{For: "ada"})[0]
	require.Equal(t, report[0].Session, im.Session)
	require.Equal(t, 1, im.Appended)
}

// The header of a native file names its owner and its creation: a session of the same ID
// with another header is not the session of the file.
func TestImportOfNativeOwners(t *testing.T) {
	for _, c := range []struct {
		here, there, to string
		apart           time.Duration
	}{
		{"ada", "bob", "", 0}, {"", "bob", "", 0}, {"ada", "", "", 0}, {"ada", "ada", "", time.Second}, {"", "", "", time.Second}, {"", "bob", "eve", 0},
	} {
		st, theirs := inMemory(), inMemory()
		for n, at := range []*session.Store{st, theirs} {
			created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(n) * c.apart)
			h := transcript.Header{Created: created, Owner: []string{c.here, c.there}[n]}
			s, err := at.Create(t.Context(), cli, &session.CreateOptions{Header: &transcript.Entry{ID: "k1", Time: created, Body: h}})
			require.NoError(t, err)
			add(t, s, transcript.UserText([]string{"of this store", "of the file"}[n]))
		}
		s := get(t, theirs, session.Ref{Agent: "main", ID: "k1"})
		var lines bytes.Buffer
		require.NoError(t, exchange.Lines(t.Context(), s, &lines))
		files := fstest.MapFS{"agents/main/sessions/k1.jsonl": {Data: lines.Bytes()}}
		for n := range 2 {
			im := importAll(t, st, sessionsIn(t, files), &exchange.ImportOptions{For: c.to})[0]
			require.Equal(t, n == 0, im.Created, "%v", c)
			require.Equal(t, []string{"of the file"}, textsIn(t, st, im.Session))
			require.Equal(t, cmp.Or(c.to, c.there), storetest.Info(t, get(t, st, im.Session)).Owner)
		}
		require.Equal(t, []string{"of this store"}, textsIn(t, st, s.Ref()))
	}
}

// An owner or an agent that does not come back from the files of a program is a loss of
// the export, and no other is.
func TestExportOwnersAndAgents(t *testing.T) {
	for _, to := range writable {
		for owner, agent := range map[string]string{"ada": "main", "bert": "support", "": "help er"} {
			st, other := inMemory(), inMemory()
			s, err := st.Create(t.Context(), session.Key{Agent: agent, Channel: "cli", Peer: "x"}, &session.CreateOptions{Owner: owner})
			require.NoError(t, err)
			add(t, s, transcript.UserText("hi"))
			files := fstest.MapFS{}
			w, err := dialect.NewWriter(to, func(name string) (io.WriteCloser, error) {
				files[name] = &fstest.MapFile{}
				return file{files[name]}, nil
			})
			require.NoError(t, err)
			lost, err := exchange.Export(t.Context(), s, w, dialect.Session{})
			require.NoError(t, err)
			require.NoError(t, w.Close())
			im := importAll(t, other, sessionsIn(t, files), nil)[0]
			back, err := other.Get(t.Context(), im.Session)
			require.NoError(t, err)
			require.Equal(t, storetest.Info(t, back).Owner != owner, lost["owner"] == 1, "%s: owner %q", to, owner)
			require.Equal(t, im.Session.Agent != agent, lost["agent"] == 1, "%s: agent %q", to, agent)
		}
	}
}
