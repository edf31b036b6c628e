//go:build unix

package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// fulls are the places in a turn at which the disk is full.
var fulls = map[string]func(dir string) error{
	"append": fullAppend, "index": fullIndex, "compaction": fullCompaction, "close": fullClose,
	"cure": fullCure, "end of a line": fullEnd,
}

func init() {
	storetest.Register("full", func(args []string, _ io.Reader, _ io.Writer) error {
		return errors.Join(fulls[args[0]](args[1]), storetest.CheckContinues(args[1]))
	})
}

// The disk is full in the middle of a turn, and then has room again: the turn
// continues in the same process, and nothing acknowledged is missing.
func TestFullDisk(t *testing.T) {
	for place := range fulls {
		t.Run(place, func(t *testing.T) {
			_, err := storetest.Child(t, "full", place, t.TempDir()).Output()
			require.NoError(t, err)
		})
	}
}

// The transcript has no room for a tool's result.
func fullAppend(dir string) error {
	st, s, err := storetest.OpenSession(dir)
	if err != nil {
		return err
	}
	if _, err := s.Append(storetest.Background, transcript.UserText("message 1."), storetest.Answer("", "c")); err != nil {
		return err
	}
	result := transcript.ToolResult("c", strings.Repeat("r", 500))
	info, err := s.Info(storetest.Background)
	if err != nil {
		return err
	}
	err = storetest.WithFileLimit(info.Size+100, func() error {
		for range 3 {
			if _, err := s.Append(storetest.Background, result); !errors.Is(err, syscall.EFBIG) {
				return fmt.Errorf("an append beyond the limit: %w", err)
			}
			if h, err := s.History(storetest.Background); err != nil || strings.Contains(fmt.Sprint(h), "rrr") {
				return fmt.Errorf("the failed append shows in the history: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := s.Append(storetest.Background, result); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	return errors.Join(storetest.Say(s, 2, ""), st.Close())
}

// The index has no room: a session in use by this process continues, and a
// session cannot be made.
func fullIndex(dir string) error {
	st, s, err := storetest.OpenSession(dir)
	if err != nil {
		return err
	}
	for i := range 50 { // so that the index is longer than the transcript
		if _, err := st.Create(storetest.Background, session.Key{Agent: "main", Channel: "other", Peer: fmt.Sprint(i)}, nil); err != nil {
			return err
		}
	}
	if err := storetest.Say(s, 1, ""); err != nil {
		return err
	}
	n, index := 1, storetest.FileSize(dir, "sessions.jsonl")
	err = storetest.WithFileLimit(index+10, func() error {
		for range 5 {
			n++
			if err := storetest.Say(s, n, ""); err != nil {
				return fmt.Errorf("without room in the index: %w", err)
			}
		}
		if err := s.SetMeta(storetest.Background, transcript.Meta{Labels: []string{"l"}}); err != nil {
			return fmt.Errorf("without room for a row: %w", err)
		}
		if info, err := s.Info(storetest.Background); err != nil || info.Messages != 2*n {
			return fmt.Errorf("%d messages are known, not %d: %w", info.Messages, 2*n, err)
		}
		if _, err := st.Create(storetest.Background, session.Key{Agent: "main", Channel: "other", Peer: "user"}, nil); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("Create without room in the index: %w", err)
		}
		return nil
	})
	if err != nil || storetest.FileSize(dir, "sessions.jsonl") != index {
		return fmt.Errorf("the index has %d bytes, not %d: %w", storetest.FileSize(dir, "sessions.jsonl"), index, err)
	}
	other, err := st.Create(storetest.Background, session.Key{Agent: "main", Channel: "other", Peer: "user"}, nil)
	if err != nil {
		return fmt.Errorf("Create with space again: %w", err)
	}
	again, err := st.Get(storetest.Background, s.Ref())
	if err != nil {
		return err
	}
	if info, err := again.Info(storetest.Background); err != nil || info.Messages != 2*n {
		return fmt.Errorf("after that %+v, %w", info, err)
	}
	return errors.Join(storetest.Say(s, n+1, ""), storetest.Say(other, 1, ""), st.Close())
}

// The transcript has no room for the summary.
func fullCompaction(dir string) error {
	paid := 0
	st, err := session.Open(dir, &session.Options{Compact: compact.Options{
		Keep: compact.Keep{Turns: 1},
		Summarizer: compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
			paid++
			return "what was said before, in short", nil
		}),
	}})
	if err != nil {
		return err
	}
	s, err := st.Load(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	for n := range 6 {
		if err := storetest.Say(s, n+1, strings.Repeat(" more", 100)); err != nil {
			return err
		}
	}
	was, err := s.History(storetest.Background)
	if err != nil {
		return err
	}
	info, err := s.Info(storetest.Background)
	if err != nil {
		return err
	}
	err = storetest.WithFileLimit(info.Size+20, func() error {
		if _, err := s.Compact(storetest.Background, nil); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("a compaction without room: %w", err)
		}
		if h, err := s.History(storetest.Background); err != nil || len(h.Messages) != len(was.Messages) {
			return fmt.Errorf("it has changed the history: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := s.Compact(storetest.Background, nil); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if h, err := s.History(storetest.Background); err != nil || len(h.Messages) >= len(was.Messages) || paid == 0 {
		return fmt.Errorf("%d summaries, and %d messages: %w", paid, len(h.Messages), err)
	}
	return errors.Join(storetest.Say(s, 7, ""), st.Close())
}

// There is no room for a row when a store is closed.
func fullClose(dir string) error {
	st, s, err := storetest.OpenSession(dir)
	if err != nil {
		return err
	}
	for n := range 3 {
		if err := storetest.Say(s, n+1, ""); err != nil {
			return err
		}
	}
	err = storetest.WithFileLimit(64, func() error {
		if err := st.Close(); err != nil {
			return err
		}
		if st, s, err = storetest.OpenSession(dir); err != nil {
			return fmt.Errorf("opening without room: %w", err)
		}
		if h, err := s.History(storetest.Background); err != nil || len(h.Messages) != 6 {
			return fmt.Errorf("reading without room: %d messages, %w", len(h.Messages), err)
		}
		if err := storetest.Say(s, 4, ""); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("an append without room: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(storetest.Say(s, 4, ""), st.Close())
}

// There is no room for the copy of a transcript whose sync failed.
func fullCure(dir string) error {
	return fullReading(dir, 6, func(path string) error { return os.Chmod(path, 0o600|os.ModeSticky) })
}

// There is no room to end the line that a dead writer left without its line break: a
// reader takes it as it is.
func fullEnd(dir string) error {
	return fullReading(dir, 6, func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()-1)
	})
}

// fullReading changes the transcript of a session of six messages, and reads it while it
// cannot be repaired: it shows that number of messages, and refuses appends.
func fullReading(dir string, messages int, change func(path string) error) error {
	st, s, err := storetest.OpenSession(dir)
	if err != nil {
		return err
	}
	for n := range 3 {
		if err := storetest.Say(s, n+1, ""); err != nil {
			return err
		}
	}
	if err := errors.Join(st.Close(), change(filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"))); err != nil {
		return err
	}
	err = storetest.WithFileLimit(64, func() error {
		if st, s, err = storetest.OpenSession(dir); err != nil {
			return fmt.Errorf("loading without room: %w", err)
		}
		if s, err = st.Get(storetest.Background, s.Ref()); err != nil {
			return fmt.Errorf("opening without room: %w", err)
		}
		if h, err := s.History(storetest.Background); err != nil || len(h.Messages) != messages {
			return fmt.Errorf("reading without room: %d messages, %w", len(h.Messages), err)
		}
		if err := storetest.Say(s, 4, ""); !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("an append without room: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if h, err := s.History(storetest.Background); err != nil || len(h.Messages) < messages {
		return fmt.Errorf("reading with space again: %d messages, %w", len(h.Messages), err)
	}
	if err := storetest.Say(s, 4, ""); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if h, err := s.History(storetest.Background); err != nil || len(h.Messages) != 8 {
		return fmt.Errorf("after that %d messages, %w", len(h.Messages), err)
	}
	return st.Close()
}
