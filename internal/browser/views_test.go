package browser

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A gate stops or fails the requests of a route.
type gate struct {
	mu    sync.Mutex
	route string        // the end of the path; empty means no route
	until chan struct{} // for a request to wait for; nil fails it
	stood chan struct{} // gets a value for each request that waits
}

func (g *gate) admit(ctx context.Context, _ serve.Principal, d serve.Demand) error {
	g.mu.Lock()
	on, until := g.route != "" && strings.HasSuffix(d.Route.Path, g.route), g.until
	g.mu.Unlock()
	switch {
	case !on:
		return nil
	case until == nil:
		return &serve.Problem{Status: http.StatusInternalServerError, Code: "TEST", Title: "<b>the disk</b> is away"}
	}
	g.stood <- struct{}{}
	select {
	case <-until:
	case <-ctx.Done():
	}
	return nil
}

func (g *gate) set(route string, until chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.route, g.until = route, until
}

// The search follows the typing, cancels an older request and leaves the focus.
func TestSearchWhileTyping(t *testing.T) {
	g := &gate{stood: make(chan struct{}, 100)}
	url, store := served(t, &serve.Options{Admit: g.admit})
	numbered(t, store, "one", 30)
	tb := newTab(t, 1200, "light")
	tb.visit(url + "/")
	tb.until(`document.querySelectorAll("#list li").length === 1`)
	searches := func() (n int) {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, asked := range tb.requests {
			if strings.HasSuffix(asked, "/search") {
				n++
			}
		}
		return n
	}
	tb.press("/")
	tb.js(`document.getElementById("words").select()`)
	tb.press("question 1")
	tb.until(`document.querySelectorAll("#list mark").length > 4`)
	require.Less(t, searches(), len("question 1"))
	require.Equal(t, "words", tb.js(`document.activeElement.id`))
	require.Contains(t, tb.js(`document.getElementById("heard").textContent`), "found")

	// The last word may be unfinished, a phrase is whole. The older request never replaces the newer one's result.
	until := make(chan struct{})
	g.set("/store/search", until)
	tb.press("2")
	<-g.stood
	g.set("", nil)
	tb.js(`document.getElementById("words").value = "\"answer 3\"", document.getElementById("words").dispatchEvent(new Event("input"))`)
	tb.until(`[...document.querySelectorAll("#list mark")].some(e => e.textContent.includes("answer"))`)
	require.Eventually(t, func() bool {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		return tb.dropped > 0
	}, patience, time.Millisecond)
	close(until)
	require.Equal(t, true, tb.js(`[...document.querySelectorAll("#list .small mark")].every(e => /answer|3/.test(e.textContent))`))
	tb.js(`document.getElementById("words").value = "nowhere-said", document.getElementById("words").dispatchEvent(new Event("input"))`)
	tb.until(`document.getElementById("listing").textContent === "Nothing was found."`)
	for _, beginning := range []string{"", `\"`, "(-*"} { // of a phrase: nothing to search for
		tb.js(`document.getElementById("words").value = "answer", document.getElementById("words").dispatchEvent(new Event("input"))`)
		tb.until(`document.querySelector("#list mark")`)
		tb.js(`document.getElementById("words").value = "` + beginning + `", document.getElementById("words").dispatchEvent(new Event("input"))`)
		tb.until(`document.querySelectorAll("#list li").length === 1 && !document.querySelector("#list mark") && document.getElementById("listing").hidden`)
	}
}

// Each view shows that it loads, and a failure with a button for another try.
func TestStates(t *testing.T) {
	g := &gate{stood: make(chan struct{}, 100)}
	url, store := served(t, &serve.Options{Admit: g.admit})
	numbered(t, store, "one", 4)
	tb := newTab(t, 360, "light")
	tb.visit(url + "/")
	tb.until(`document.querySelectorAll("#list li").length === 1 && feedOfChanges.readyState === 1`)
	for i, v := range []struct{ route, box, start, loaded string }{
		{"/store/sessions", "listing", `switchTo("sessions")`, `document.querySelectorAll("#list li").length === 1`},
		{"/store/sessions", "listing", `switchTo("inbox")`, `document.getElementById("listing").textContent === "No call waits for approval."`},
		{"/store/search", "listing", `(document.getElementById("words").value = "question", switchTo("sessions"))`, `document.querySelectorAll("#list mark").length > 1`},
		{"/{agent}/{id}", "empty", `(open = null, go({agent: "main", id: "one"}))`, `document.querySelectorAll("#feed article").length === 4`},
		{"/entries", "empty", `(open = null, go({agent: "main", id: "one"}))`, `document.querySelectorAll("#feed article").length === 4`},
	} {
		box := fmt.Sprintf("document.getElementById(%q)", v.box)
		until := make(chan struct{})
		g.set(v.route, until)
		tb.js("(" + v.start + ", 0)")
		tb.until(box + `.textContent === "Loading…" && ` + box + `.checkVisibility()`)
		require.Equal(t, "status", tb.js(box+`.getAttribute("role")`))
		require.Equal(t, 0.0, tb.js(`document.querySelectorAll("#`+map[string]string{"listing": "list li", "empty": "feed article"}[v.box]+`").length`), "the view before it")
		tb.shot(fmt.Sprint("loading-", i))
		g.set(v.route, nil)
		close(until)
		tb.until(v.loaded)
		tb.js("(" + v.start + ", 0)")
		tb.until(box + `.textContent === "<b>the disk</b> is away Try again"`)
		tb.shot(fmt.Sprint("failed-", i))
		require.Contains(t, fmt.Sprint(tb.errors()), "500")
		g.set("", nil)
		tb.js(box + `.querySelector("button").click()`)
		tb.until(v.loaded)
		tb.until(box + `.hidden || ` + box + `.textContent.startsWith("No call")`)
	}
	// On a narrow screen the list leads back to the open session.
	tb.js(`(document.getElementById("words").value = "", switchTo("sessions"))`)
	tb.until(`document.querySelectorAll("#list li").length === 1`)
	tb.click("#back")
	require.Equal(t, false, tb.js(`feed.checkVisibility()`))
	tb.click("#list button")
	tb.until(`feed.checkVisibility() && document.querySelectorAll("#feed article").length === 4`)
	// A session that does not exist, by a link.
	tb.js(`(go({agent: "main", id: "none"}), 0)`)
	tb.until(`document.getElementById("empty").textContent.includes("Try again")`)
	tb.until(`document.getElementById("back").checkVisibility()`)
	require.Contains(t, fmt.Sprint(tb.errors()), "404")
}

// A date comes once for its day, above the first message; messages have times.
func TestDates(t *testing.T) {
	now := time.Date(2026, 3, 9, 10, 0, 0, 0, time.Local)
	url, store := servedAt(t, &serve.Options{}, func() time.Time { return now })
	s := numbered(t, store, "days", 150)
	now = now.AddDate(0, 0, 1)
	_, err := s.Append(t.Context(), transcript.UserText("The next day."), answer("So it is."))
	require.NoError(t, err)
	tb := newTab(t, 1200, "light")
	tb.open(url, "days")
	days := `[...document.querySelectorAll("#feed [data-day]")].map(e => e.dataset.day).join("|")`
	tb.until(days + ` === "Monday, March 9, 2026|Tuesday, March 10, 2026"`)
	require.Equal(t, "The next day.", tb.js(`document.querySelectorAll("#feed [data-day]")[1].querySelector(".text").textContent`))
	require.Equal(t, true, tb.js(`[...document.querySelectorAll("#feed time")].every(e => e.textContent.replace("\u202f", " ") === "10:00 AM" && e.dateTime.startsWith("2026-03-") && e.title.includes("2026"))`))
	require.Contains(t, tb.js(`feed.lastChild.getAttribute("aria-label")`), "Mar 10, 2026")
	tb.shot("days")
	// The date moves up with older messages, and a new day comes with a new message.
	now = now.AddDate(0, 0, 1)
	_, err = s.Append(t.Context(), transcript.UserText("And one more."))
	require.NoError(t, err)
	three := days + ` === "Monday, March 9, 2026|Tuesday, March 10, 2026|Wednesday, March 11, 2026"`
	tb.until(three)
	_, err = s.Append(t.Context(), transcript.System{Text: "Be brief."})
	require.NoError(t, err)
	tb.until(`feed.lastChild.textContent.includes("Be brief.")`)
	tb.until(`(scroll.scrollTop = 0, document.querySelector("#feed .text").textContent === "question 0")`)
	require.Equal(t, true, tb.js(three))
	require.Equal(t, true, tb.js(`feed.firstChild.dataset.day.startsWith("Monday")`))
	require.Equal(t, true, tb.js(`getComputedStyle(feed.firstChild, "::before").content.includes("Monday")`))
}

// The stored entry of a message is one press away, with its numbers as they are, and
// shows every character.
func TestRaw(t *testing.T) {
	url, store := served(t, &serve.Options{})
	s := talk(t, store, "one", transcript.UserText("a\x1b[2J\u202eb <script>window.hit = 1</script>"))
	ids, err := s.Append(t.Context(), answer("I look.", toolCall("c", "look", `{"n":12345678901234567890}`)))
	require.NoError(t, err)
	tb := newTab(t, 1200, "light")
	tb.open(url, "one")
	tb.until(`document.querySelectorAll("#feed article").length === 3`)
	raw := func(id string) string {
		return fmt.Sprintf(`[...feed.children].find(a => a.dataset.id === %q).querySelector(".raw pre").textContent`, id)
	}
	tb.press("g")
	tb.until(`document.activeElement === feed.firstChild`)
	tb.press("r")
	tb.until(`document.activeElement.querySelector(".raw")`)
	text := tb.js(`feed.firstChild.querySelector(".raw pre").textContent`).(string)
	require.Contains(t, text, `"type":"user"`)
	require.Contains(t, text, `\u001b[2J⟨U+202E⟩b `)
	require.Equal(t, 0.0, tb.js(`document.querySelectorAll("#feed script").length`))
	require.Equal(t, "true", tb.js(`feed.firstChild.querySelector("[aria-expanded]").getAttribute("aria-expanded")`))
	tb.shot("raw")
	tb.press("r")
	tb.until(`!document.querySelector(".raw")`)
	require.Equal(t, "false", tb.js(`feed.firstChild.querySelector("[aria-expanded]").getAttribute("aria-expanded")`))

	// Of a call as well, as it is in the transcript.
	id := ids[len(ids)-1]
	tb.js(`[...feed.lastChild.querySelectorAll(".acts button")].find(b => b.textContent === "Raw").click()`)
	tb.until(`feed.lastChild.querySelector(".raw")`)
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if e.ID == id {
			require.Equal(t, string(e.Line()), tb.js(raw(id)))
			return
		}
	}
	require.Fail(t, "the call was not stored")
}

// A message that arrives while the end is loaded again stays in sight, and lines that
// were taken back before the page was opened do not appear.
func TestArrivesWhileLoading(t *testing.T) {
	url, store := served(t, &serve.Options{})
	s := talk(t, store, "one", transcript.UserText("First."), answer("So."))
	_, err := s.Append(t.Context(), transcript.UserText("Taken back."))
	require.NoError(t, err)
	require.NoError(t, turn.Undo(t.Context(), s, 1))
	tb := newTab(t, 1200, "light")
	tb.visit(url + "/")
	tb.js(`window.seen = "", new MutationObserver(() => { seen += feed.innerText }).observe(feed, {childList: true})`)
	tb.js(`(go({agent: "main", id: "one"}), 0)`)
	tb.until(`document.querySelectorAll("#feed article").length === 2 && [...known].length > 4`)
	require.NotContains(t, tb.js(`seen`), "Taken back.")
	tb.until(`!loading`)
	tb.js(`{ const f = fetchPage; fetchPage = async o => { const list = await f(o); await new Promise(done => { window.release = done; }); return list; } }`)
	tb.until(`window.release || (load("last"), false)`)
	_, err = s.Append(t.Context(), transcript.UserText("Second."))
	require.NoError(t, err)
	tb.until(`document.querySelectorAll("#feed article").length === 3`)
	tb.until(`(release(), !loading)`)
	require.Equal(t, []string{"First.", "So.", "Second."}, tb.texts())
}
