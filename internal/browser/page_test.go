package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/unseen"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// numbered makes a session of n messages.
func numbered(t *testing.T, store *session.Store, id string, n int) *session.Session {
	t.Helper()
	s := talk(t, store, id)
	var items []transcript.Item
	for i := range n {
		if i%2 == 0 {
			items = append(items, transcript.UserText(fmt.Sprintf("question %d", i)))
		} else {
			items = append(items, answer(fmt.Sprintf("answer %d\n\n%s", i, strings.Repeat("Some more words of it. ", i%40))))
		}
		if len(items) == 500 || i == n-1 || n < 100 { // a fork ends where an append does
			_, err := s.Append(t.Context(), items...)
			require.NoError(t, err)
			items = nil
		}
	}
	return s
}

// In a session of 10,000 messages the first and the last can be reached, and by
// scrolling all between them in order, with some hundred in the document at a time.
func TestLong(t *testing.T) {
	const n = 10_000
	url, store := served(t, &serve.Options{})
	numbered(t, store, "long", n)
	tb := newTab(t, 1200, "light")
	tb.open(url, "long")
	has := func(text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#feed .text")].some(e => e.textContent.split("\n")[0] === %q)`, text)
	}
	tb.until(has("answer 9999"))
	tb.until(`scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 3`)
	bounded := func() {
		t.Helper()
		require.LessOrEqual(t, tb.js(`document.querySelectorAll("#feed article").length`), 300.0)
	}
	// Upwards a little; the visible part stays in its place while pages are loaded.
	for _, want := range []string{"answer 9801", "answer 9501", "answer 9001"} {
		tb.until(`(scroll.scrollTop -= 3000, ` + has(want) + `)`)
		bounded()
	}
	require.Equal(t, false, tb.js(has("answer 9999")))
	tb.js(`document.getElementById("newer").click()`)
	tb.until(has("answer 9999"))
	tb.press("g")
	tb.until(has("question 0"))
	require.Equal(t, 0.0, tb.js(`scroll.scrollTop`))
	// Every message comes once and in order on the way down, to the end of the test.
	tb.js(`window.seen = []; window.look = () => { for (const e of document.querySelectorAll("#feed .text")) { const n = +e.textContent.match(/\d+/)[0]; if (n > (seen.at(-1) ?? -1)) seen.push(n); } }; look()`)
	tb.until(`(look(), scroll.scrollTop += 2500, seen.at(-1) > 1500)`)
	require.Equal(t, true, tb.js(`seen.every((n, i) => n === i)`))
	bounded()
	// Loading a page moves nothing in sight.
	moved := tb.js(`new Promise(done => {
		const a = [...feed.children].find(a => a.getBoundingClientRect().top > 100), before = a.getBoundingClientRect().top;
		more(false).then(() => more(true)).then(() => done(a.isConnected ? Math.abs(a.getBoundingClientRect().top - before) : 99));
	})`)
	require.Less(t, moved, 3.0)
	tb.press("G")
	tb.until(has("answer 9999"))
	require.Equal(t, true, tb.js(`document.activeElement.matches("article") && document.activeElement.textContent.includes("answer 9999")`))
	tb.shot("long")
}

// An answer grows while it is written; a page that is reloaded in the middle shows
// the text so far, continues, and shows nothing twice.
func TestLive(t *testing.T) {
	url, store := served(t, &serve.Options{})
	s := talk(t, store, "live", transcript.UserText("Tell me a story."))
	tb := newTab(t, 1200, "light")
	tb.open(url, "live")
	tn, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	defer func() { _ = tn.End() }()
	d := tn.Draft("test", "scripted", transcript.Made{})
	said := ""
	write := func(text string) {
		t.Helper()
		said += text
		require.NoError(t, d.Write(t.Context(), text))
		require.NoError(t, d.Flush(t.Context()))
	}
	shown := func() string {
		return fmt.Sprintf(`document.querySelectorAll("#feed article").length === 2 && document.querySelector("#feed .draft .text").textContent === %q`, said)
	}
	write("Once")
	tb.until(shown())
	write(" upon a time")
	tb.until(shown())
	tb.shot("live")
	tb.reload()
	tb.until(shown())
	write(" there was a log")
	tb.until(shown())
	_, err = d.Finish(t.Context(), answer(said))
	require.NoError(t, err)
	tb.until(`!document.querySelector("#feed .draft")`)
	require.Equal(t, []string{"Tell me a story.", said}, tb.texts())
	_, err = s.Append(t.Context(), transcript.UserText("And then?"))
	require.NoError(t, err)
	tb.until(`document.querySelectorAll("#feed article").length === 3`)
	// A title by another client also arrives, and in the list; a rewind takes
	// back.
	title := "A story"
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title}))
	tb.until(`document.getElementById("title").textContent === "A story"`)
	tb.until(`document.querySelector("#list b").textContent === "A story"`)
	require.NoError(t, turn.Undo(t.Context(), s, 1))
	tb.until(`document.querySelectorAll("#feed article").length === 2`)
	require.Equal(t, []string{"Tell me a story.", said}, tb.texts())
	tb.reload()
	tb.until(`document.querySelectorAll("#feed article").length === 2`)
	_, err = s.Append(t.Context(), transcript.UserText("Again."))
	require.NoError(t, err)
	tb.until(`document.querySelectorAll("#feed article").length === 3`)
	require.Equal(t, []string{"Tell me a story.", said, "Again."}, tb.texts())
}

// hostile are texts that would act if they were treated as more than text.
var hostile = []string{
	`<script>window.hit = 1; alert(1)</script>`,
	`<img src=x onerror="window.hit=2"><svg onload="window.hit=3"><iframe src="javascript:parent.hit=4"></iframe>`,
	`</script><script>window.hit = 5</script><!--<script>`,
	"```html\n<b onclick=x>bold</b></pre><script>window.hit=6</script>\n```",
	"\x1b[2J\x1b]0;title\x07\x1b[31mred\x00\x08\x7f\u009b31m",
	"user\u202Egnp.exe\u202C \u2066isolated\u2069",
	"{{constructor.constructor('window.hit=7')()}} ${window.hit=8} `code` **bold** \\u003c",
	`"><a href="javascript:window.hit=9">click</a><style>body{display:none}</style>`,
	"\u2028window.hit=10\u2029]]>&lt;&amp;",
}

// The page shows unseen characters as the other screens find them, and leaves emoji and
// scripts with joiners whole.
func TestUnseenCharacters(t *testing.T) {
	url, store := served(t, &serve.Options{})
	talk(t, store, "one", transcript.UserText("hi"))
	tb := newTab(t, 1200, "light")
	tb.open(url, "one")
	for _, text := range []string{
		"pass\u200bword \u00ad\ufeff\u2060", "hi\U000e0001\U000e0049\U000e006d", "a\ufe01b\U000e0101 \u3164", "\u202ea\u200d",
		"👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 ❤️\u200d🔥 🏳️\u200d🌈 🙂\u200d↔️ 1️⃣", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "نمی\u200cدانم کِتابِ\u200cمن \u0600", "क्\u200dष ന്\u200d", "ភាសា\u200bខ្មែរ", "葛\U000e0100", "ᠮᠣᠩᠭᠣᠯ\u180eᠠ",
	} {
		want := unseen.Replace(text, func(r rune) string { return fmt.Sprintf("⟨U+%04X⟩", r) })
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, want, tb.js("clean("+string(quoted)+")"), "%+q", text)
	}
}

// hostileTalk puts all of them in every place for a text.
func hostileTalk(t *testing.T, store *session.Store) *session.Session {
	t.Helper()
	s := talk(t, store, "hostile")
	for i, text := range hostile {
		id := fmt.Sprint("c", i)
		_, err := s.Append(t.Context(), transcript.System{Text: text}, transcript.Tools{Names: []string{text}}, transcript.UserText(text))
		require.NoError(t, err)
		a := answer(text, transcript.ThinkingBlock{Thinking: text}, toolCall(id, "run"+text, fmt.Sprintf("{%q:%q}", "in", "<script>window.hit=11</script>")))
		a.Model = text
		_, err = s.Append(t.Context(), a)
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.ToolError(id, text))
		require.NoError(t, err)
	}
	title := strings.Join(hostile, " ")
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title, Labels: []string{hostile[0], hostile[1]}}))
	return s
}

// harmless checks that the texts are there to be read, and have done nothing.
func (tb *tab) harmless() {
	tb.Helper()
	tb.until(`document.querySelectorAll("#feed article").length >= 27`)
	tb.js(`document.querySelectorAll("details").forEach(d => { d.open = true })`)
	tb.until(`[...document.querySelectorAll("#feed details")].every(d => d.children.length > 1)`)
	require.Nil(tb, tb.js("window.hit"))
	require.Equal(tb, 0.0, tb.js(`document.querySelectorAll("#feed :is(script, iframe, svg, a, style, object, embed, link, form), #top :is(iframe, svg), [onerror], [onload], [onclick]").length`))
	text := tb.js(`document.body.innerText`).(string)
	require.Contains(tb, text, `<img src=x onerror="window.hit=2">`)
	require.Contains(tb, text, "␛[2J␛]0;title␇␛[31mred␀␈␡⟨U+009B⟩31m")
	require.Contains(tb, text, "user⟨U+202E⟩gnp.exe⟨U+202C⟩")
	require.Contains(tb, text, "</script><script>window.hit = 5</script><!--<script>")
	require.NotRegexp(tb, "[\u202a-\u202e\u2066-\u2069\x1b\x00]", text)
}

func TestHostileTexts(t *testing.T) {
	url, store := served(t, &serve.Options{})
	hostileTalk(t, store)
	tb := newTab(t, 1200, "light")
	tb.open(url, "hostile")
	tb.harmless()
	tb.js(`document.getElementById("words").focus()`)
	tb.press("window.hit\r")
	tb.until(`document.querySelectorAll("#list mark").length > 5`)
	require.Nil(t, tb.js("window.hit"))
	// The policy refuses a script in the page that is not its own.
	tb.js(`document.body.append(Object.assign(document.createElement("script"), {textContent: "window.hit = 12"}))`)
	require.Nil(t, tb.js("window.hit"))
	require.Contains(t, fmt.Sprint(tb.errors()), "Content Security Policy")
	tb.shot("hostile")
}

// An exported file opens from the disk, shows the session and asks for nothing.
func TestExportedFile(t *testing.T) {
	_, store := served(t, &serve.Options{})
	dir := t.TempDir()
	write := func(s *session.Session) string {
		t.Helper()
		name := filepath.Join(dir, s.Ref().ID+".html")
		f, err := os.Create(name)
		require.NoError(t, err)
		require.NoError(t, exchange.HTML(t.Context(), s, f))
		require.NoError(t, f.Close())
		return "file://" + name
	}
	tb := newTab(t, 1200, "dark")
	tb.do("Network.emulateNetworkConditions", object{"offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
	tb.visit(write(hostileTalk(t, store)))
	tb.harmless()
	tb.shot("file")
	tb.visit(write(talk(t, store, "prompted", transcript.System{Text: "Be brief."}, transcript.Tools{Names: []string{"read", "grep"}}, transcript.UserText("hi"))))
	tb.until(`[...document.querySelectorAll("#feed .text")].map(e => e.textContent).join() === "Be brief.,read, grep,hi"`)
	tb.visit(write(numbered(t, store, "long", 2000)))
	tb.until(`document.querySelector("#feed .text").textContent === "question 0"`)
	tb.press("G")
	tb.until(`document.activeElement.matches("article") && document.activeElement.textContent.includes("answer 1999")`)
	require.LessOrEqual(t, tb.js(`document.querySelectorAll("#feed article").length`), 300.0)
	require.Equal(t, true, tb.js(`getComputedStyle(document.querySelector("nav")).display === "none"`))
	for _, asked := range tb.requests {
		require.True(t, strings.HasPrefix(asked, "file://"+dir) || strings.HasPrefix(asked, "data:"), asked)
	}
}

// unnamed is everything that is pressed or filled in without a name.
const unnamed = `[...document.querySelectorAll("button, input, select, a, dialog, nav, main, section, [role]")]
	.filter(e => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length || e.textContent.trim() || e.getAttribute("role") === "status" || e.getAttribute("role") === "alert")).map(e => e.outerHTML)`

// Everything that works with a mouse works with keys.
func TestKeyboard(t *testing.T) {
	url, store := served(t, &serve.Options{})
	numbered(t, store, "other", 2)
	s := numbered(t, store, "keys", 6)
	_, err := s.Append(t.Context(), answer("I look.", toolCall("c1", "look", `{"at":"it"}`)))
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.ToolResult("c1", "seen"))
	require.NoError(t, err)
	tb := newTab(t, 1200, "light")
	tb.open(url, "keys")
	tb.until(`document.querySelectorAll("#feed article").length === 9`)
	focus := func() string { return fmt.Sprint(tb.js(`document.activeElement.textContent`)) }
	tb.press("g")
	tb.until(`document.activeElement.matches("article") && document.activeElement.textContent.includes("question 0")`)
	tb.press("j")
	require.Contains(t, focus(), "answer 1")
	tb.press("k")
	require.Contains(t, focus(), "question 0")
	tb.press("G")
	tb.until(`document.activeElement.matches("article") && document.activeElement.textContent.includes("Result")`)
	tb.press("o")
	tb.until(`document.activeElement.querySelector("pre").textContent === "seen"`)
	tb.press("?")
	tb.until(`document.getElementById("keys").open`)
	tb.press("\x1b")
	tb.until(`!document.getElementById("keys").open`)
	tb.press("e")
	tb.until(`document.activeElement.id === "newtitle"`)
	tb.press("By hand\r")
	tb.until(`document.getElementById("rename").hidden && document.getElementById("title").textContent === "By hand"`)
	require.Equal(t, "By hand", storetest.Info(t, s).Title)
	tb.press("/")
	tb.until(`document.activeElement.id === "words"`)
	tb.press("\"answer 3\"\r")
	tb.until(`document.querySelector("#list mark")`)
	tb.press("\t")
	tb.js(`document.querySelector("#list button").focus()`)
	tb.press("\r")
	tb.until(`document.activeElement.matches("article") && document.activeElement.textContent.includes("answer 3")`)
	tb.press("f")
	tb.until(`document.getElementById("facts").textContent.includes("forked from")`)
	tb.until(`document.querySelectorAll("#feed article").length === 4`)
	tb.js(`document.getElementById("sessions").click()`)
	tb.until(`[...document.querySelectorAll("#list button")].filter(b => b.info).length === 3`)
	before := tb.js(`location.hash`)
	tb.js(`document.activeElement.blur()`)
	tb.press("]")
	tb.until(fmt.Sprintf(`location.hash !== %q`, before))
	tb.until(`document.querySelectorAll("#feed article").length === 9`)

	require.Equal(t, []any{}, tb.js(unnamed))
	require.Equal(t, true, tb.js(`document.querySelectorAll("nav[aria-label], main[aria-label], [role=feed], [aria-live=polite]").length >= 4`))
}

// Without a key nothing is visible; with one, its owner's sessions are. The key is
// kept where no script reads it.
func TestSignIn(t *testing.T) {
	url, store := served(t, &serve.Options{
		Auth:        serve.Keys(map[string]serve.Principal{"alice-key": {Owner: "alice"}, "bob key ü;": {Owner: "bob"}, "root": {Admin: true}}),
		ChannelLogs: logsOf(t),
	})
	numbered(t, store, "mine", 4)
	tb := newTab(t, 1200, "light")
	in := func(key string) {
		t.Helper()
		tb.until(`document.getElementById("sign").open`)
		tb.js(`document.getElementById("key").focus()`)
		tb.do("Input.insertText", object{"text": key})
		tb.press("\r")
	}
	tb.visit(url + "/page")
	tb.until(`document.getElementById("sign").open`)
	require.Equal(t, 0.0, tb.js(`document.querySelectorAll("#list li").length`))
	require.Empty(t, tb.errors())
	in("wrong")
	tb.until(`document.getElementById("wrong").textContent`)
	require.Contains(t, fmt.Sprint(tb.errors()), "401") // which a browser logs
	tb.js(`document.getElementById("key").value = ""`)
	in("alice-key")
	tb.until(`document.querySelectorAll("#list li").length === 1`)
	require.Equal(t, "", tb.js(`document.cookie`))
	require.Equal(t, true, tb.js(`document.getElementById("logs").hidden`))
	tb.open(url, "mine")
	tb.until(`document.querySelectorAll("#feed article").length === 4`)
	s, err := store.Get(t.Context(), session.Ref{Agent: "main", ID: "mine"})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("live, by the cookie"))
	require.NoError(t, err)
	tb.until(`document.querySelectorAll("#feed article").length === 5`)
	tb.click("#leave")
	tb.until(`document.getElementById("sign").open`)
	in("bob key ü;")
	tb.until(`document.getElementById("listing").textContent === "No sessions."`)
	tb.click("#leave")
	in("root")
	tb.until(`!document.getElementById("logs").hidden`)
	tb.click("#logs")
	tb.until(`document.getElementById("list").textContent.includes("telegram")`)
	tb.click("#list button")
	tb.until(`document.querySelectorAll("#feed article").length === 100`)
	tb.click(".older")
	tb.until(`document.querySelectorAll("#feed article").length === 150 && document.querySelector("#feed .text").textContent === "log line 0"`)
	tb.shot("logs")
	tb.js(`document.getElementById("words").focus()`)
	tb.press("line 77\r")
	tb.until(`document.querySelectorAll("#feed article").length === 1`)

	// The link of a server carries the token, and the page drops it.
	tb = newTab(t, 1200, "light")
	tb.visit(url + "/page#token=alice-key")
	tb.until(`document.querySelectorAll("#list li").length === 1`)
	require.Equal(t, "", tb.js(`location.hash`))
	tb = newTab(t, 1200, "light")
	tb.visit(url + "/page#token=wrong")
	tb.until(`document.getElementById("sign").open`)
	require.Contains(t, fmt.Sprint(tb.errors()), "401")
}
