package compact

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

func withoutSpace(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// Units are in order and hold a whole text except for blanks. A text with all
// of its units is whole; a text with some of them keeps these in order, with a
// note for each gap that the next reduction understands.
func FuzzUnits(f *testing.F) {
	f.Add("One line.\n\nAnother one, which is long enough to be divided. It has two sentences? Three!\r\n  indented", uint64(5))
	f.Add(strings.Repeat("no end of a sentence ", 60), uint64(0xaaaa))
	f.Add("这是第一句。这是第二句，它比第一句长得多，所以不会在同一个单位里。第三句？", uint64(2))
	f.Add("a\n[…]\nb\n[... 12 runes left out of entry x ...]\nc\n[... 99999999999999999999 runes left out ...]", uint64(9))
	f.Add(strings.Repeat("A line like others.\n", 100), uint64(1|1<<40))
	f.Add("Write \"we go […]\n\n\tif x[…]y {\n\t\tgo on\n", uint64(3))
	f.Add("\x00\xff\u2028 \u00a0\n \t\n.", uint64(1))
	f.Fuzz(func(t *testing.T, text string, some uint64) {
		_ = divide(text) // only answers have half characters
		text = plain(text)
		units := divide(text)
		at, all := 0, ""
		for _, u := range units {
			require.True(t, at <= u.from && u.from < u.to && u.to <= len(text), "%+v", u)
			require.Empty(t, strings.TrimSpace(text[at:u.from]))
			at = u.to
			all += text[u.from:u.to]
		}
		require.Equal(t, withoutSpace(text), withoutSpace(all))
		isNote := func(u unit) bool { return u.kind == aNote }
		whole, part := make([]bool, len(units)), make([]bool, len(units))
		for i := range units {
			whole[i] = !isNote(units[i])
			part[i] = whole[i] && some>>(i%64)&1 == 1
		}
		same := true // all notes stay as they are
		for i, u := range units {
			same = same && (whole[i] || u.gone == 0 && 0 < i && i < len(units)-1 && whole[i-1] && whole[i+1])
		}
		if same {
			require.Equal(t, strings.TrimSpace(text), strings.TrimSpace(reduced(text, "", units, whole)))
		}
		short := reduced(text, "e", units, part)
		rest := short
		for i, u := range units {
			if part[i] && u.kind != aNote {
				_, after, ok := strings.Cut(rest, strings.TrimSpace(text[u.from:u.to]))
				require.True(t, ok, "%q in %q", text[u.from:u.to], short)
				rest = after
			}
		}
		require.LessOrEqual(t, strings.Count(short, "left out of entry e ..."), 1+strings.Count(text, "of entry e"))
		again := divide(short)
		if len(units) > 0 && slices.Contains(part, false) && !slices.ContainsFunc(units, isNote) {
			require.True(t, slices.ContainsFunc(again, isNote), "%q", short)
		}
	})
}

// No unit is chosen twice, no text exceeds its limit, and the order stays.
func FuzzChoose(f *testing.F) {
	f.Add("Never deploy on Friday.\nThanks!", "yes", "Red or blue?", 20)
	f.Add(strings.Repeat("go on. ", 200), "", "", 3)
	f.Fuzz(func(t *testing.T, long, short, asked string, most int) {
		most %= 1_000
		items := []transcript.Carried{{Entry: "a", Text: plain(long)}, {Entry: "b", Text: plain(short + "!"), To: plain(asked)}, {Entry: "c", Text: plain(long + short)}}
		texts := rate(items, []string{asked}, tokens.Estimator{})
		for _, whole := range []bool{false, true} {
			list, used := choose(texts, whole)(most)
			require.LessOrEqual(t, used, max(most, 0))
			last := ""
			for _, i := range list {
				require.Less(t, last, i.Entry)
				require.NotEmpty(t, i.Text)
				last = i.Entry
			}
		}
	})
}

// The pieces next to the best one of a long sentence come along: a "never" may be far
// from a rare name.
func TestPiecesTogether(t *testing.T) {
	const common = "we go on with it as it was before and do that again with all of it "
	items := []transcript.Carried{
		{Entry: "a", Text: strings.Repeat(common+".\n", 20)},
		{Entry: "b", Text: "never " + common + common + "touch Zanzibar-Quetzal or Ouagadougou " + common + common},
	}
	units := rate(items, nil, tokens.Estimator{})[1].units
	best := slices.MaxFunc(units, func(a, b unit) int { return cmp.Compare(a.worth, b.worth) })
	at := slices.IndexFunc(units, func(u unit) bool { return u.from == best.from })
	require.True(t, 0 < at && at < len(units)-1, "%d of %d", at, len(units))
	require.GreaterOrEqual(t, units[at-1].worth, fromBehind*best.worth)
	require.GreaterOrEqual(t, units[at+1].worth, fromBefore*best.worth)
}

// A paste in the unfinished turn leaves room for a text before it.
func TestOpenPaste(t *testing.T) {
	items := []transcript.Carried{{Text: "Never touch the wall."}, {Text: strings.Repeat("It is so. ", 2_000)}}
	list, used := newestWhole(rate(items, nil, tokens.Estimator{}), 1_000)
	require.LessOrEqual(t, used, 1_000)
	require.Len(t, list, 2)
	require.Equal(t, items[0], list[0])
}

// The texts of the user get what the ledger leaves, and lose no name by it.
func TestLedgerLeaves(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := &carried{}
		for i := range 60 {
			var sb strings.Builder
			for n := range 1 + r.IntN(12) {
				sb.WriteString(strings.Repeat("so it is ", r.IntN(20)) + fmt.Sprintf("of %c OPS-%d.\n", 'a'+r.IntN(26), 1000+20*i+n))
			}
			all.said = append(all.said, transcript.Carried{Text: sb.String()})
		}
		all.texts = rate(all.said, nil, tokens.Estimator{})
		var done transcript.Compaction
		all.fit(1000, tokens.Estimator{}, &done)
		first, _ := choose(all.texts, false)(800)
		require.Greater(t, len(fmt.Sprint(done.Said)), len(fmt.Sprint(first)))
		for _, i := range first {
			for _, id := range identifiers(i.Text) {
				require.True(t, slices.ContainsFunc(slices.Concat(done.Said, done.IDs), func(i transcript.Carried) bool { return strings.Contains(i.Text, id) }), id)
			}
		}
	}
}
