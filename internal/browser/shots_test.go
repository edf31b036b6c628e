package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/zyhive/convlog"
	"github.com/convolog/convolog/transcript"
)

// logsOf reads the log of a channel with 150 messages.
func logsOf(t *testing.T) func(context.Context, serve.ChannelQuery) (any, error) {
	t.Helper()
	dir := t.TempDir()
	w, err := convlog.OpenWriter(dir, &convlog.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	for i := range 150 {
		err := w.Append(t.Context(), convlog.Channel{Agent: "main", Type: "telegram", Chat: "42"}, convlog.Entry{Role: "user", Content: fmt.Sprint("log line ", i), Sender: "anna"})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	l, err := convlog.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return func(ctx context.Context, q serve.ChannelQuery) (any, error) {
		if q.Chat == "" {
			return l.Channels(ctx, q.Agent, q.Type)
		}
		found := []convlog.Found{}
		for f, err := range l.Entries(ctx, convlog.Channel{Agent: q.Agent, Type: q.Type, Chat: q.Chat}, convlog.Query{Text: q.Text, Before: q.Before}) {
			if err != nil || len(found) == q.Limit {
				return found, err
			}
			found = append(found, f)
		}
		return found, nil
	}
}

// trip is a session for the screenshots.
func trip(t *testing.T, store *session.Store) *session.Session {
	t.Helper()
	for i, title := range []string{"Why is the build red on Windows?", "Minutes of the Tuesday meeting", "Recipe for twelve people", "Rename the config keys", "旅行の計画", "تلخيص التقرير"} {
		s := talk(t, store, fmt.Sprint("t", i), transcript.UserText(title), answer("Let me see."))
		require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title}))
	}
	s := talk(t, store, "porto")
	say := func(items ...transcript.Item) {
		t.Helper()
		_, err := s.Append(t.Context(), items...)
		require.NoError(t, err)
	}
	say(transcript.System{Text: "You are a careful travel agent. Ask before you book anything."})
	for i := range 12 {
		say(transcript.UserText(fmt.Sprintf("Compare the trains of day %d, please, with their prices and how often one has to change.", i)))
		say(answer("I look them up.", transcript.ThinkingBlock{Thinking: "The timetable has all of it; I only need the fast ones, and the reservation is free for two of them."}, toolCall(fmt.Sprint("a", i), "timetable", `{"from":"Lisbon","to":"Porto","day":3}`)))
		say(transcript.ToolResult(fmt.Sprint("a", i), "08:09 11:23  32.70 EUR\n10:09 13:18  26.15 EUR\n13:39 16:44  32.70 EUR"))
		say(answer("The 10:09 is the cheapest, and direct."))
	}
	_, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 5}})
	require.NoError(t, err)
	say(transcript.UserText("We are four now, and my mother cannot walk far. Does the budget of **1,200 EUR** still hold for the weekend in Porto?"))
	say(answer("I check the hotel near São Bento and the trains for four.",
		transcript.ThinkingBlock{Thinking: "Four people: trains 4 × 26.15 each way. The hotel had two doubles at 118 a night."},
		toolCall("b1", "hotel_search", `{"near":"São Bento","rooms":2,"nights":2,"lift":true}`), toolCall("b2", "timetable", `{"from":"Lisbon","to":"Porto","people":4}`)))
	say(transcript.ToolResult("b1", "Hotel da Bolsa, lift, 2 doubles, 118 EUR a night"), transcript.ToolError("b2", "the service did not answer within 10 s"))
	say(answer("It holds, with some room:\n\n- Trains, four people, both ways: **209 EUR** (the 10:09, direct)\n- Two doubles with a lift, two nights: **472 EUR**\n- That leaves **519 EUR** for food and a taxi from the station\n\nThe timetable service did not answer just now, so the price is that of `day 3`. Put this into your notes:\n\n```\nporto:\n  people: 4\n  train: \"10:09\"\n  hotel: Hotel da Bolsa\n```"))
	hold(t, s, "Good. Hold the rooms until Friday.", "book_hotel", `{"hotel":"Hotel da Bolsa","rooms":2,"until":"2026-04-03","price":472.00}`)
	title := "A weekend in Porto for four"
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title, Labels: []string{"travel"}}))
	return s
}

// The page is drawn wide and narrow, light and dark, without overflowing.
func TestLooks(t *testing.T) {
	url, store := served(t, &serve.Options{ChannelLogs: logsOf(t)})
	last := ""
	for e, err := range trip(t, store).Entries(t.Context(), "") {
		require.NoError(t, err)
		last = e.ID
	}
	hold(t, talk(t, store, "keys"), "Publish it.", "shell", `{"command":"git push --force origin main && rm -rf build"}`)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 1280} {
			tb := newTab(t, width, scheme)
			tb.visit(url + "/page")
			tb.until(`document.querySelectorAll("#list li").length === 8`)
			name := fmt.Sprintf("%s-%d", scheme, width)
			fits := `document.documentElement.scrollWidth <= window.innerWidth && scroll.scrollWidth <= scroll.clientWidth + 1`
			require.Equal(t, true, tb.js(fits))
			tb.shot("list-" + name)
			tb.open(url, "porto")
			tb.until(`document.querySelectorAll("#legend li").length > 3`)
			tb.until(`document.querySelectorAll("#feed article").length > 20`)
			tb.until(fmt.Sprintf(`lastID === %q`, last))
			require.Equal(t, true, tb.js(`feed.lastChild.querySelector(".verdict form") !== null`), "the prompt of an earlier place")
			tb.until(`document.querySelector("#feed .verdict form").getBoundingClientRect().bottom < window.innerHeight`)
			tb.js(`facts.style.paddingBottom = "200px"`)
			tb.until(`scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 5`)
			tb.js(`facts.style.paddingBottom = ""`)
			require.Equal(t, true, tb.js(fits))
			tb.shot("talk-" + name)
			require.Equal(t, true, tb.js(`document.querySelectorAll("#cuts button").length === 1`))
			tb.js(`document.querySelector("#cuts button").click()`)
			tb.until(`document.activeElement.classList.contains("cut")`)
			require.GreaterOrEqual(t, tb.js(contrast), 4.5)
			tb.press("G")
			tb.until(`document.querySelector("#feed article:last-child .verdict form")`)
			tb.shot("held-" + name)
			require.Equal(t, true, tb.js(fits))
			tb.press("i")
			tb.until(`document.querySelectorAll("#list .card form").length === 2`)
			tb.js(`document.querySelector("#list details").open = true`)
			tb.shot("inbox-" + name)
			require.Equal(t, true, tb.js(fits))
			require.GreaterOrEqual(t, tb.js(contrast), 4.5)
		}
	}
}

// contrast is the lowest contrast between a text and its background.
const contrast = `(() => {
	const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgb = s => { c.clearRect(0, 0, 1, 1); c.fillStyle = s; c.fillRect(0, 0, 1, 1); return c.getImageData(0, 0, 1, 1).data; };
	const lum = p => [0, 1, 2].map(i => p[i] / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((n, v, i) => n + v * [.2126, .7152, .0722][i], 0);
	let low = 21;
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
		let back = e;
		while (back && rgb(getComputedStyle(back).backgroundColor)[3] === 0) back = back.parentElement;
		const a = lum(rgb(getComputedStyle(e).color)), b = lum(rgb(getComputedStyle(back || document.body).backgroundColor));
		low = Math.min(low, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
	}
	return low;
})()`

// With -shots the screenshots of the documentation are made.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("-shots says where to")
	}
	url, store := served(t, &serve.Options{ChannelLogs: logsOf(t)})
	trip(t, store)
	for _, scheme := range []string{"light", "dark"} {
		tb := newTab(t, 1080, scheme)
		tb.open(url, "porto")
		tb.until(`document.querySelectorAll("#feed article").length > 20 && document.querySelectorAll("#legend li").length > 3`)
		data := tb.capture(object{"format": "webp", "quality": 70})
		require.Less(t, len(data), 60<<10)
		require.NoError(t, os.WriteFile(filepath.Join(*shots, scheme+".webp"), data, 0o644)) //nolint:gosec // for everybody
	}
}
