package browser

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// A session that is deleted while it is open stays in sight, and the page reports
// it.
func TestDeletedWhileOpen(t *testing.T) {
	url, store := served(t, &serve.Options{})
	s := talk(t, store, "gone", transcript.UserText("Keep me in sight."))
	tb := newTab(t, 1200, "light")
	tb.open(url, "gone")
	tb.until(`document.querySelectorAll("#feed article").length === 1 && source && source.readyState === 1`)
	require.NoError(t, store.Delete(t.Context(), s.Ref()))
	tb.until(`document.getElementById("facts").textContent.includes("no longer there")`)
	require.Equal(t, []string{"Keep me in sight."}, tb.texts())
	tb.until(`!source`)
	tb.errors() // the console shows the answer 404
}

// The page reports an unreachable server, and shows the requested view once it
// is reachable.
func TestServerAway(t *testing.T) {
	url, store := served(t, &serve.Options{})
	talk(t, store, "one", transcript.UserText("One."))
	talk(t, store, "two", transcript.UserText("Two."))
	tb := newTab(t, 1200, "light")
	tb.open(url, "one")
	tb.until(`document.querySelector("#feed .text")`)
	away := func(is bool) {
		tb.do("Network.emulateNetworkConditions", object{"offline": is, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
	}
	tb.do("Network.enable", object{})
	away(true)
	tb.js(`location.hash = new URLSearchParams({s: JSON.stringify(["main", "two"])}), 0`)
	tb.until(`document.getElementById("say").textContent.includes("cannot be reached")`)
	away(false)
	tb.until(`document.querySelector("#feed .text").textContent === "Two."`)
	away(true)
	tb.js(`document.getElementById("say").textContent = "", document.getElementById("words").focus()`)
	tb.press("tw")
	tb.until(`document.getElementById("say").textContent.includes("Trying again")`)
	away(false)
	tb.until(`document.querySelector("#list mark")`)
	tb.errors() // the console shows the failed requests
}

// The document stays bounded while the user reads above and many messages arrive
// below.
func TestManyWhileReadingAbove(t *testing.T) {
	url, store := served(t, &serve.Options{})
	s := numbered(t, store, "much", 200)
	tb := newTab(t, 1200, "light")
	tb.open(url, "much")
	tb.until(`source && source.readyState === 1`)
	tb.until(`(scroll.scrollTop = 1000, scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight > 500)`)
	var items []transcript.Item
	for i := range 1000 {
		items = append(items, transcript.UserText(fmt.Sprint("more ", i)))
	}
	_, err := s.Append(t.Context(), items...)
	require.NoError(t, err)
	tb.until(`!document.getElementById("newer").hidden`)
	require.LessOrEqual(t, tb.js(`document.querySelectorAll("#feed article").length`), 500.0)
	tb.js(`document.getElementById("newer").click()`)
	tb.until(`document.querySelector("#feed article:last-child .text").textContent === "more 999"`)
}
