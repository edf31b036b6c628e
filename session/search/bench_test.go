package search_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

var searchMiB = flag.Int("search", 64, "size in MiB of the store that BenchmarkSearch searches: about 10 sessions a MiB")

// Searches of a whole store, of about 100 KiB a session: for a word in one of
// 2,000 lines, against grep; for a common word and ranked, against decoding all
// lines once, on as many cores.
func BenchmarkSearch(b *testing.B) {
	dir := b.TempDir()
	st := storetest.Open(b, dir, storetest.Unsynced)
	sessions := *searchMiB * 10
	r := rand.New(rand.NewPCG(1, 1))
	var all []*session.Session
	for n := range sessions {
		all = append(all, fillSearch(b, st, n, r))
	}
	if infos, err := st.List(b.Context(), nil); err != nil || len(infos) != sessions { // writes their rows
		b.Fatal(len(infos), err)
	}
	count := func(q search.Query, least int) func() error {
		return func() error {
			n := 0
			for _, err := range search.Store(b.Context(), st, q) {
				if err != nil {
					return err
				}
				n++
			}
			if n < least {
				return fmt.Errorf("%d hits", n)
			}
			return nil
		}
	}
	decode := func() error {
		group, ctx := errgroup.WithContext(b.Context())
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, s := range all {
			group.Go(func() error {
				for _, err := range s.Scan(ctx, session.ScanOptions{}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	}
	grep := func() error {
		cmd := exec.CommandContext(b.Context(), "grep", "-rc", "needle4711", filepath.Join(dir, "agents"))
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		_, err := cmd.Output()
		return err
	}
	common := search.Query{Text: "lock"}
	for _, c := range []struct {
		name     string
		op, base func() error
	}{
		{"rare/grep", count(search.Query{Text: "needle4711"}, sessions/20), grep},
		{"regexp/grep", count(search.Query{Regexp: "needle[0-9]{4}"}, sessions/20), grep},
		{"common/decode", count(common, sessions*20), decode},
		{"ranked/decode", count(search.Query{Text: "the lock in Append", Ranked: true}, 20), decode},
	} {
		b.Run(c.name, func(b *testing.B) {
			if _, err := exec.LookPath("grep"); err != nil {
				b.Skip(err)
			}
			b.SetBytes(int64(*searchMiB) << 20)
			before := storetest.HeapBytes()
			storetest.Versus(b, 1, storetest.Side{Call: c.op}, storetest.Side{Call: c.base})
			b.ReportMetric((float64(storetest.HeapBytes())-float64(before))/1e6, "MB-kept")
		})
	}
	storetest.Close(b, st)
}

// fillSearch appends a conversation of about 100 KiB in one write.
func fillSearch(b *testing.B, st *session.Store, n int, r *rand.Rand) *session.Session {
	b.Helper()
	s := storetest.Load(b, st, session.Key{Agent: fmt.Sprint("a", n%4), Channel: "cli", Peer: fmt.Sprint(n)})
	var entries []transcript.Entry
	add := func(body transcript.MessageLine) {
		entries = append(entries, transcript.Entry{ID: fmt.Sprintf("%08d-%06d-4000-8000-000000000000", n, len(entries)), Time: time.Unix(1_800_000_000+int64(len(entries)), 0), Body: body})
	}
	for size := 0; size < 95<<10; {
		text := storetest.Sentence(200 + r.IntN(900))
		if r.IntN(2_000) == 0 {
			text += " needle4711 "
		}
		switch r.IntN(4) {
		case 0:
			add(transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(transcript.TextBlock{Text: text}))
		case 1:
			add(transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant, Model: "m"}.WithContent(transcript.TextBlock{Text: text}))
		default:
			id := fmt.Sprint("toolu_", len(entries))
			input, err := json.Marshal(map[string]string{"path": fmt.Sprintf("internal/%d/store.go", r.IntN(99))})
			if err != nil {
				b.Fatal(err)
			}
			add(transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant}.WithContent(transcript.ToolCallBlock{ID: id, Name: "read_file", Input: input}))
			result, _ := transcript.ToolResult(id, text).Content[0].(transcript.ToolResultBlock)
			add(transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser}.WithContent(result))
		}
		size += len(text) + 200
	}
	var end int64
	for rec, err := range s.Scan(context.Background(), session.ScanOptions{}) {
		if err != nil {
			b.Fatal(err)
		}
		end = rec.End
	}
	if _, err := s.AppendLines(b.Context(), end, entries...); err != nil {
		b.Fatal(err)
	}
	return s
}
