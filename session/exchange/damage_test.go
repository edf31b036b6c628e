package exchange_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// Of a damaged folder of OpenViking the readable part is imported: every message is
// in one chapter or live, the history is valid, and it commits, exports and imports
// again.
func TestDamagedViking(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 18))
		files := fstest.MapFS{}
		for name, file := range vikingFolder() {
			files[name] = &fstest.MapFile{Data: slices.Clone(file.Data)}
		}
		names := slices.Sorted(maps.Keys(files))
		for range 1 + r.IntN(4) {
			name := names[r.IntN(len(names))]
			file := files[name]
			if file == nil || len(file.Data) == 0 {
				continue
			}
			n := len(file.Data)
			switch r.IntN(6) {
			case 0:
				delete(files, name)
			case 1:
				file.Data = file.Data[:r.IntN(n)]
			case 2:
				file.Data[r.IntN(n)] ^= byte(1 << r.IntN(8))
			case 3:
				file.Data = append(file.Data, file.Data[r.IntN(n):]...)
			case 4:
				other := files[names[r.IntN(len(names))]]
				if other != nil {
					file.Data = append(file.Data, other.Data...)
				}
			case 5:
				file.Data[r.IntN(n)] = 0
			}
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			folder, err := dialect.ReadFolder(files)
			if err != nil {
				return
			}
			st := inMemory()
			report, _ := exchange.Import(t.Context(), st, folder.Sessions(), nil)
			for _, im := range report {
				if im.Err != nil {
					continue
				}
				s, err := st.Get(t.Context(), im.Session)
				require.NoError(t, err)
				h, err := s.History(t.Context())
				require.NoError(t, err)
				msgs := slices.Clone(h.Messages)
				if n := len(msgs); n == 0 || msgs[n-1].Role == transcript.RoleAssistant {
					msgs = append(msgs, transcript.UserText("go on"))
				}
				for _, v := range wiretest.Validate(transcript.Request{System: h.System, Messages: msgs}) {
					if v.Rule != "member" { // which requests are made without
						t.Error(v)
					}
				}
				add(t, s, transcript.UserText("more"), transcript.AssistantText("here"))
				_, err = memory.Commit(t.Context(), s, nil)
				require.NoError(t, err)
				seen := map[string]string{}
				count := func(where string, h rebuild.History) {
					for _, m := range h.Messages {
						for _, o := range m.Origins {
							if o.Entry == "" || o.Batch == 0 {
								continue
							}
							if was, ok := seen[o.Entry]; ok && was != where {
								t.Errorf("%s is in %s and %s", o.Entry, was, where)
							}
							seen[o.Entry] = where
						}
					}
				}
				chapters, err := memory.Chapters(t.Context(), s)
				require.NoError(t, err)
				for _, a := range chapters {
					h, err := memory.ReadChapter(t.Context(), s, a.Name)
					require.NoError(t, err)
					count(a.Name, h)
				}
				live, err := memory.Uncommitted(t.Context(), s)
				require.NoError(t, err)
				count("live", live)
				full, err := exchange.FullHistory(t.Context(), s)
				require.NoError(t, err)
				for _, m := range full.Messages {
					for _, o := range m.Origins {
						if _, ok := seen[o.Entry]; !ok && o.Batch > 0 {
							t.Errorf("%s is nowhere", o.Entry)
						}
					}
				}
				if im.Source.Dialect == dialect.OpenViking {
					out := exportTo(t, st, im.Session, dialect.OpenViking)
					importAll(t, inMemory(), sessionsIn(t, out), nil)
				}
			}
		})
	}
}
