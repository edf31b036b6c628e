package session_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A store in a folder that may not be written.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := session.Open(file, nil)
	require.Error(t, err)
	require.Contains(t, err.Error(), file)
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("hi"))
	storetest.Close(t, st)
	cmd := storetest.Child(t, "nobody", dir)
	_, err = cmd.Output()
	require.NoError(t, err)
}

// unwritable checks the errors of a store as a user who may not write dir.
func unwritable(dir string) error {
	empty := filepath.Join(dir, "empty")
	_, err := session.Open(empty, nil)
	if fe, ok := errors.AsType[*filelog.Error](err); !ok || fe.Fix == "" || !strings.Contains(err.Error(), empty) {
		return errors.Join(errors.New("Open of a folder that cannot be written or does not say so"), err)
	}
	_, err = session.Open(dir, nil)
	if err == nil {
		st, err := session.Open(dir, nil)
		if err != nil {
			return err
		}
		if _, err := st.Load(storetest.Background, storetest.CLI); err == nil {
			return errors.New("Load of a session that cannot be written succeeded")
		}
	}
	st, err := session.Open(dir, &session.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	s, err := storetest.Current(storetest.Background, st, storetest.CLI)
	if err != nil {
		return err
	}
	h, err := s.History(storetest.Background)
	if err == nil && len(h.Messages) != 1 {
		err = errors.New("the message is not there")
	}
	return errors.Join(err, st.Close())
}
