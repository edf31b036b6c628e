package exchange_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/copytest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func merged(t testing.TB, from, to *session.Store) exchange.CopyReport {
	t.Helper()
	report, err := mergeAll(t, from, to, nil)
	require.NoError(t, err)
	return report
}

// mergeAll is exchange.Merge with the blobs of the stores.
func mergeAll(t testing.TB, from, to *session.Store, opts *exchange.CopyOptions) (exchange.CopyReport, error) {
	t.Helper()
	var o exchange.CopyOptions
	if opts != nil {
		o = *opts
	}
	o.From, o.To = keptOf(from), keptOf(to)
	return exchange.Merge(t.Context(), from, to, &o)
}

// A content is one session as a model and a user see it.
type content struct {
	request string
	entries []string
	base    transcript.Link
	owner   string
}

func contentOf(t testing.TB, st *session.Store, ref session.Ref) (c content) {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	var sb strings.Builder
	_, err = exchange.Request(t.Context(), s, &sb, anthropic.Format{}, transcript.Request{Model: "m"})
	require.NoError(t, err)
	values, err := turn.Values(t.Context(), s)
	require.NoError(t, err)
	pins, err := turn.Pins(t.Context(), s)
	require.NoError(t, err)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	c.request, c.base, c.owner = fmt.Sprint(sb.String(), values, pins), info.Base, info.Owner
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		switch rec.Entry.Body.(type) {
		case transcript.Header, transcript.Current:
		default:
			c.entries = append(c.entries, rec.Entry.ID)
		}
	}
	return c
}

func contents(t testing.TB, st *session.Store) map[session.Ref]content {
	t.Helper()
	infos, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	all := map[session.Ref]content{}
	for _, info := range infos {
		all[info.Ref] = contentOf(t, st, info.Ref)
	}
	return all
}

// holdsBoth requires that a store has every session of the others, each whole: under its
// ID or as a fork of it.
func holdsBoth(t testing.TB, st *session.Store, others ...map[session.Ref]content) {
	t.Helper()
	got := contents(t, st)
	for _, all := range others {
		for ref, want := range all {
			require.Contains(t, got, ref)
			found := false
			for other, c := range got {
				if other != ref && (c.base.Session != ref.ID || other.Agent != ref.Agent) {
					continue
				}
				// One of the two may only have continued the session.
				if n := len(want.entries); len(c.entries) > n && slices.Equal(c.entries[:n], want.entries) {
					found = true
				} else if slices.Equal(c.entries, want.entries) {
					require.Equal(t, want.request, c.request)
					found = true
				}
				require.Equal(t, want.owner, c.owner)
			}
			require.True(t, found, "%s is not there: %v", ref.ID, want.entries)
		}
	}
	for ref, c := range got {
		seen := map[string]bool{}
		for _, id := range c.entries {
			require.False(t, seen[id] && id != "", "%s holds %s twice", ref.ID, id)
			seen[id] = true
		}
	}
}

// diverged returns two stores with a random common beginning and random ends.
func diverged(t testing.TB, seed uint64, a, b *session.Store) {
	t.Helper()
	require.NoError(t, copytest.Fill(t.Context(), a, seed, 40))
	s, err := a.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "both"}, nil)
	require.NoError(t, err)
	say(t, s, "one")
	copied(t, a, b)
	theirs, err := b.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	say(t, s, "two")
	say(t, theirs, "three")
	require.NoError(t, copytest.Grow(t.Context(), a, 1000+seed, 20+int(seed%3)*15))
	require.NoError(t, copytest.Grow(t.Context(), b, 2000+seed, 20+int(seed%2)*30))
}

// Both ends are in the store after a merge, a second one adds nothing, and the two stores
// have the same sessions after a merge in each direction.
func TestMerge(t *testing.T) {
	for seed := range uint64(storetest.Few(storetest.Extent(*storetest.Faults, 3, 12, 60))) {
		a, b := memoryOf(nil), folderOf(t, t.TempDir())
		diverged(t, seed, a, b)
		ofA, ofB := contents(t, a), contents(t, b)
		plan, err := mergeAll(t, b, a, &exchange.CopyOptions{DryRun: true})
		require.NoError(t, err)
		require.Equal(t, ofA, contents(t, a), "a dry run changes nothing")
		report := merged(t, b, a)
		require.Equal(t, plan, report, seed)
		holdsBoth(t, a, ofA, ofB)
		require.Positive(t, report.Forks)

		text := textOf(t, a)
		again := merged(t, b, a)
		require.Equal(t, exchange.CopyReport{Sessions: report.Sessions, Left: report.Left, Forks: again.Forks}, again, "a second merge adds nothing")
		require.Equal(t, text, textOf(t, a))

		merged(t, a, b)
		holdsBoth(t, b, ofA, ofB)
		require.Equal(t, contents(t, a), contents(t, b), "the two stores converge")
		require.Zero(t, merged(t, b, a).Lines)
	}
}

// A merge that fails at any write is completed by the next one.
func TestMergeFails(t *testing.T) {
	b := memoryOf(nil)
	start := memoryOf(nil)
	diverged(t, 1, start, b)
	want := memoryOf(nil)
	copied(t, start, want)
	ofA, ofB := contents(t, want), contents(t, b)
	merged(t, b, want)
	errDisk := errors.New("the disk is full")
	step := 4 / storetest.Few(4)
	for fail, failed := 1, true; failed; fail += step {
		writes := 0
		armed := false
		failed = false
		to := memoryOf(&memdriver.Options{Fail: func(op string, _ driver.Ref) error {
			if op == "Put" || !armed {
				return nil
			}
			if writes++; writes >= fail && !failed {
				failed = true
				return errDisk
			}
			return nil
		}})
		copied(t, start, to)
		armed = true
		if _, err := mergeAll(t, b, to, nil); failed {
			require.ErrorIs(t, err, errDisk)
		}
		merged(t, b, to)
		holdsBoth(t, to, ofA, ofB)
		require.Equal(t, contents(t, want), contents(t, to), "after a failure of write %d", fail)
	}
}

// The longer end stays under the ID, and the shorter one is a fork for the same owner.
func TestMergeEnds(t *testing.T) {
	for name, longer := range map[string]bool{"the store has the longer end": false, "the other store has it": true} {
		t.Run(name, func(t *testing.T) {
			a, b := inMemory(), inMemory()
			s, err := a.Create(t.Context(), cli, &session.CreateOptions{Owner: "alice", Title: "Porto"})
			require.NoError(t, err)
			ids := say(t, s, "one", "two")
			copied(t, a, b)
			theirs, err := b.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			say(t, s, "a3", "a4")
			say(t, theirs, "b3")
			if longer {
				say(t, theirs, "b4", "b5")
			}
			var results []exchange.CopyResult
			report, err := mergeAll(t, b, a, &exchange.CopyOptions{Each: func(r exchange.CopyResult, _ error) { results = append(results, r) }})
			require.NoError(t, err)
			require.Equal(t, exchange.CopyReport{Sessions: 1, Changed: 1, Lines: map[bool]int{true: 3, false: 1}[longer], Forks: 1}, report)
			fork, err := a.Get(t.Context(), results[0].Fork)
			require.NoError(t, err)
			info, err := fork.Info(t.Context())
			require.NoError(t, err)
			require.Equal(t, "alice", info.Owner)
			require.Equal(t, "Porto", info.Title)
			require.False(t, info.Current)
			require.Equal(t, transcript.Link{Agent: "main", Session: s.Ref().ID, Entry: ids[1], Lines: 2}, info.Base)
			texts := func(s *session.Session) (all []string) {
				h, err := exchange.FullHistory(t.Context(), s)
				require.NoError(t, err)
				for _, m := range h.Messages {
					all = append(all, strings.Fields(m.Text())...)
				}
				return all
			}
			s, err = a.Get(t.Context(), s.Ref())
			require.NoError(t, err)
			if longer {
				require.Equal(t, strings.Fields("one two b3 b4 b5"), texts(s))
				require.Equal(t, strings.Fields("one two a3 a4"), texts(fork))
			} else {
				require.Equal(t, strings.Fields("one two a3 a4"), texts(s))
				require.Equal(t, strings.Fields("one two b3"), texts(fork))
			}
			info, err = s.Info(t.Context())
			require.NoError(t, err)
			require.True(t, info.Current)

			if !longer { // the end that is a fork stays one, however long it becomes
				say(t, theirs, "b4", "b5", "b6")
				require.Equal(t, exchange.CopyReport{Sessions: 1, Changed: 1, Lines: 3, Forks: 1}, merged(t, b, a))
				require.Equal(t, strings.Fields("one two b3 b4 b5 b6"), texts(fork))
			}
		})
	}
}

// Neither erased words nor deleted sessions come back.
func TestMergeBringsNothingBack(t *testing.T) {
	a, b := inMemory(), inMemory()
	s := load(t, a)
	ids := say(t, s, "one", "secret", "three")
	trashed, err := a.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "other"}, nil)
	require.NoError(t, err)
	copied(t, a, b)
	erased := func(st *session.Store) {
		p, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[1:2]}}})
		require.NoError(t, err)
		_, err = erase.Run(t.Context(), st, p)
		require.NoError(t, err)
	}
	erased(a)
	require.NoError(t, retain.Trash(t.Context(), a, trashed.Ref()))
	theirs, err := b.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	say(t, theirs, "four")
	before := textOf(t, a)
	report, err := mergeAll(t, b, a, nil)
	require.ErrorIs(t, err, exchange.ErrDiverged)
	require.ErrorContains(t, err, "perhaps by an erase")
	require.Equal(t, exchange.CopyReport{Sessions: 1, Failed: 1, Left: 1}, report)
	require.Equal(t, before, textOf(t, a))

	erased(b) // the way out that Merge documents
	require.Equal(t, exchange.CopyReport{Sessions: 1, Changed: 1, Lines: 2, Left: 1}, merged(t, b, a), "the message and the record of the erase")
	require.Contains(t, textOf(t, a), "four")
	require.Zero(t, merged(t, b, a).Lines)
	require.NotContains(t, textOf(t, a), "secret")
}

// A fork has the media of both parts.
func TestMergeBlobs(t *testing.T) {
	for _, more := range []int{0, 2} {
		a, b := over(memdriver.New(nil), blobs.Memory()), over(memdriver.New(nil), blobs.Memory())
		s := load(t, a)
		_, err := s.Append(t.Context(), picture(1))
		require.NoError(t, err)
		copied(t, a, b)
		theirs, err := b.Get(t.Context(), s.Ref())
		require.NoError(t, err)
		_, err = s.Append(t.Context(), picture(2))
		require.NoError(t, err)
		_, err = theirs.Append(t.Context(), picture(3))
		require.NoError(t, err)
		for range more {
			say(t, theirs, "more")
		}
		ofA, ofB := contents(t, a), contents(t, b)
		report := merged(t, b, a)
		require.Zero(t, report.Missing)
		holdsBoth(t, a, ofA, ofB)
	}
}
