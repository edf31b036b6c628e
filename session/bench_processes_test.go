package session_test

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("appender", appenderChild) }

// appenderChild appends messages of about 1 KiB between the lines it reads: it
// begins at the first, ends at the second, reports how many there were, and so
// on to the end of its input.
func appenderChild(args []string, stdin io.Reader, stdout io.Writer) error {
	var opts session.Options
	if args[1] == "unsynced" {
		opts.Sync = session.SyncNever
	}
	st, err := session.Open(args[0], &opts)
	if err != nil {
		return err
	}
	s, err := st.Load(storetest.Background, storetest.CLI)
	if err != nil {
		return err
	}
	commands := make(chan struct{})
	go func() {
		defer close(commands)
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			commands <- struct{}{}
		}
	}()
	fmt.Fprintln(stdout, "ready")
	for range commands {
		n, err := appendUntil(s, commands)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, n)
	}
	return st.Close()
}

// appendUntil appends messages of about 1 KiB and returns how many.
func appendUntil[T any](s *session.Session, stop <-chan T) (n int, err error) {
	for ; ; n++ {
		select {
		case <-stop:
			return n, nil
		default:
		}
		if _, err := s.Append(storetest.Background, transcript.UserText(storetest.KibText)); err != nil {
			return n, err
		}
	}
}

// Two processes that append to one session as fast as they can, against one.
// Nothing may be lost.
func BenchmarkProcesses(b *testing.B) {
	const slice = 25 * time.Millisecond
	for _, policy := range []string{"synced", "unsynced"} {
		b.Run("append/1KiB/"+policy, func(b *testing.B) {
			dir := b.TempDir()
			var opts *session.Options
			if policy == "unsynced" {
				opts = storetest.Unsynced
			}
			s := storetest.Load(b, benchStore(b, dir, opts), storetest.CLI)
			cmd := storetest.Child(b, "appender", dir, policy)
			in, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			out := bufio.NewReader(pipe)
			if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
				b.Fatalf("child: %q, %v", line, err)
			}
			total := 0
			storetest.Throughput(b,
				func() (int, error) {
					fmt.Fprintln(in, "begin")
					n, err := appendUntil(s, time.After(slice))
					if err != nil {
						return 0, err
					}
					fmt.Fprintln(in, "end")
					var other int
					_, err = fmt.Fscan(out, &other)
					total += n + other
					return n + other, err
				},
				func() (int, error) {
					n, err := appendUntil(s, time.After(slice))
					total += n
					return n, err
				})
			if err := in.Close(); err != nil {
				b.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
			entries := 0
			for e, err := range s.Entries(b.Context(), "") {
				if err != nil {
					b.Fatal(err)
				}
				if e.Type() == transcript.TypeUser {
					entries++
				}
			}
			if entries != total {
				b.Errorf("%d messages in the session, %d were appended", entries, total)
			}
		})
	}
}
