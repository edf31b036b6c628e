package storetest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// EachStore calls f with a store in memory and with a store in files.
func EachStore(t *testing.T, f func(t *testing.T, st *session.Store)) {
	t.Helper()
	opts := &session.Options{Sync: session.SyncNever}
	for name, st := range map[string]*session.Store{
		"memory": session.OpenDriver(memdriver.New(nil), opts), "files": Open(t, t.TempDir(), opts),
	} {
		t.Run(name, func(t *testing.T) {
			defer Close(t, st)
			f(t, st)
		})
	}
}

// Owned makes sessions in a store: one of bert by the key CLI, one of no owner, and one of
// ada, whose scope it returns.
func Owned(t *testing.T, st *session.Store) (ada *session.Store, theirs, unowned *session.Session) {
	t.Helper()
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	bert, err := st.Scope("bert")
	require.NoError(t, err)
	theirs = Load(t, bert, CLI)
	Add(t, theirs, transcript.UserText("bert says "+Word), transcript.AssistantText("Yes."))
	require.NoError(t, theirs.SetMeta(t.Context(), transcript.Meta{Title: new("bert's title")}))
	unowned = Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "unowned"})
	Add(t, unowned, transcript.UserText("without an owner: "+Word))
	Add(t, Load(t, ada, session.Key{Agent: "main", Channel: "cli", Peer: "ada"}), transcript.UserText("ada says hello"), transcript.AssistantText("Hello."))
	return ada, theirs, unowned
}

// EachFollowed calls f in parallel with stores that notice changes in different ways: from
// files, in memory, by polling, and by polling after a watch has ended.
func EachFollowed(t *testing.T, f func(t *testing.T, st *session.Store)) {
	for name, make := range followed {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, make(t)) })
	}
}

// followed makes a store for each way to notice changes.
var followed = map[string]func(t *testing.T) *session.Store{
	"files": func(t *testing.T) *session.Store {
		return Open(t, t.TempDir(), &session.Options{Sync: session.SyncNever})
	},
	"memory": func(*testing.T) *session.Store { return session.OpenDriver(memdriver.New(nil), nil) },
	"polled": func(t *testing.T) *session.Store {
		d, err := filedriver.Open(t.TempDir(), &filedriver.Options{Sync: session.SyncNever})
		require.NoError(t, err)
		return session.OpenDriver(blind{d}, nil)
	},
	"dying": func(*testing.T) *session.Store { return session.OpenDriver(dying{memdriver.New(nil)}, nil) },
}

// blind hides the Watch method of a driver, so that followers poll.
type blind struct{ driver.Driver }

// dying ends each watch with an error at once.
type dying struct{ driver.Driver }

func (dying) Watch(_ driver.Ref, changed func(driver.Ref, error)) (func(), error) {
	changed(driver.Ref{}, errors.New("no more watches"))
	return func() {}, nil
}
