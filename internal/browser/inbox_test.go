package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// hold appends an answer with a held call, and returns the entry of the call.
func hold(t *testing.T, s *session.Session, asked, name, input string) string {
	t.Helper()
	ids, err := s.Append(t.Context(), transcript.UserText(asked), answer("I ask first.", toolCall("of "+name, name, input)))
	require.NoError(t, err)
	require.NoError(t, turn.Decide(t.Context(), s, ids[len(ids)-1], transcript.Hold, "policy", "it costs money"))
	return ids[len(ids)-1]
}

// stateOf returns the state of the only open call of a session, with its reason.
func stateOf(t *testing.T, s *session.Session) (rebuild.CallState, string) {
	t.Helper()
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.Len(t, p.Calls, 1)
	return p.Calls[0].State, p.Calls[0].Reason
}

// verdicts is the texts of decisions in a part of the page.
func verdicts(in string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("%s .verdict")].map(e => e.firstChild.data).join("|")`, in)
}

// The inbox lists the held calls of all sessions, and decides them.
func TestInbox(t *testing.T) {
	now := time.Now().Add(-3 * time.Hour)
	url, store := servedAt(t, &serve.Options{}, func() time.Time { return now })
	sessions, entries := map[string]*session.Session{}, map[string]string{}
	for _, name := range []string{"pay", "mail", "drop", "print"} {
		s := talk(t, store, name)
		title := "About " + name
		require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title}))
		sessions[name], entries[name] = s, hold(t, s, "Please.", name, `{"to":"Porto","sum":12345678901234567890}`)
	}
	numbered(t, store, "idle", 4)
	tb := newTab(t, 1280, "light")
	tb.visit(url + "/")
	tb.until(`document.querySelectorAll("#list li").length === 5`)
	require.Equal(t, 4.0, tb.js(`[...document.querySelectorAll("#list li")].filter(e => e.textContent.includes("waits for approval")).length`))
	tb.press("i")
	tb.until(`document.querySelectorAll("#list .card form").length === 4`)
	require.Equal(t, "inbox", tb.js(`document.activeElement.id`))
	card := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#list .card")].find(e => e.querySelector("b").textContent === %q)`, name)
	}
	text := tb.js(card("pay") + `.innerText`)
	for _, part := range []string{"Call of pay", `{"to":"Porto","sum":12345678901234567890}`, "About pay", "main · alice", "3 hr. ago", "Held by policy: it costs money"} {
		require.Contains(t, text, part)
	}
	require.Equal(t, []any{}, tb.js(unnamed))
	require.Equal(t, "Approve the call of pay|Reject the call of pay|Reason to reject (optional)", tb.js(`[...`+card("pay")+`.querySelectorAll("form > *")].map(e => e.getAttribute("aria-label")).join("|")`))
	tb.shot("inbox")

	// Approve, and reject with a reason by the keyboard alone.
	tb.js(card("pay") + `.querySelector("form button").click()`)
	tb.until(card("pay") + `.querySelector(".verdict").textContent === "Approved"`)
	state, _ := stateOf(t, sessions["pay"])
	require.Equal(t, rebuild.Approved, state)
	tb.js(card("mail") + `.querySelector("input").focus()`)
	tb.press("too dear\r")
	tb.until(card("mail") + `.querySelector(".verdict").textContent === "Rejected: too dear"`)
	require.Equal(t, true, tb.js(`document.activeElement === `+card("mail")+`.querySelector(".verdict")`))
	state, reason := stateOf(t, sessions["mail"])
	require.Equal(t, rebuild.Rejected, state)
	require.Equal(t, "too dear", reason)

	// A decision of another client shows at once; a text that is being typed stays.
	tb.js(card("print") + `.querySelector("input").focus()`)
	tb.press("half a rea")
	require.NoError(t, turn.Decide(t.Context(), sessions["drop"], entries["drop"], transcript.Reject, "anna", "not now"))
	tb.until(card("drop") + `.querySelector(".verdict").textContent === "Rejected elsewhere by anna: not now"`)
	late := talk(t, store, "late")
	hold(t, late, "Please.", "late", `{}`)
	tb.until(card("late"))
	require.Equal(t, "half a rea", tb.js(`document.activeElement.value`))

	// A page that does not know of a decision yet reports it instead of its own.
	tb.js(`changes = () => {}, feedOfChanges.close()`)
	require.NoError(t, turn.Decide(t.Context(), sessions["print"], entries["print"], transcript.Approve, "anna", ""))
	tb.press("\r")
	tb.until(card("print") + `.querySelector(".verdict").textContent === "Approved elsewhere by anna"`)
	require.Contains(t, fmt.Sprint(tb.errors()), "409") // which a browser logs
	state, _ = stateOf(t, sessions["print"])
	require.Equal(t, rebuild.Approved, state)
	require.NoError(t, store.Delete(t.Context(), late.Ref()))
	tb.js(card("late") + `.querySelector("form button").click()`)
	tb.until(card("late") + `.querySelector(".verdict").textContent.startsWith("No longer held")`)
	require.Contains(t, fmt.Sprint(tb.errors()), "404")

	// The card leads to the call.
	tb.js(card("drop") + `.querySelector(".at").click()`)
	tb.until(fmt.Sprintf(`document.activeElement.dataset.id === %q`, entries["drop"]))
	tb.click("#inbox")
	tb.until(`document.getElementById("listing").textContent === "No call waits for approval."`)
}

// A held call can be decided where it was said, and shows decisions of others.
func TestDecideInConversation(t *testing.T) {
	url, store := served(t, &serve.Options{})
	s := talk(t, store, "one")
	hold(t, s, "Please.", "first", fmt.Sprintf(`{"n":1,"text":%q,"last":"seen"}`, strings.Repeat("long ", 30)))
	tb := newTab(t, 360, "light")
	tb.open(url, "one")
	tb.until(verdicts("#feed") + ` === "Held by policy: it costs money"`)
	tb.until(`document.querySelector("#feed .fold pre").textContent.includes("seen")`) // the input is whole before the decision
	tb.js(`document.querySelector("#feed .verdict form button").focus()`)
	tb.press("\r")
	tb.until(verdicts("#feed") + ` === "Approved"`)
	state, _ := stateOf(t, s)
	require.Equal(t, rebuild.Approved, state)
	_, err := s.Append(t.Context(), transcript.ToolResult("of first", "done"))
	require.NoError(t, err)

	// Live: a hold, and the decision of another client.
	second := hold(t, s, "Please.", "second", `{"n":2}`)
	tb.until(verdicts("#feed") + ` === "Approved|Held by policy: it costs money"`)
	require.NoError(t, turn.Decide(t.Context(), s, second, transcript.Approve, "anna", ""))
	tb.until(verdicts("#feed") + ` === "Approved|Approved elsewhere by anna"`)
	_, err = s.Append(t.Context(), transcript.ToolResult("of second", "done"))
	require.NoError(t, err)

	// The buttons of a held call disappear with its result.
	hold(t, s, "Please.", "third", `{"n":3}`)
	tb.until(`document.querySelectorAll("#feed .verdict form").length === 1`)
	_, err = s.Append(t.Context(), transcript.ToolResult("of third", "done"))
	require.NoError(t, err)
	tb.until(`document.querySelectorAll("#feed .verdict").length === 3 && !document.querySelector("#feed .verdict form")`)
	tb.reload()
	tb.until(`document.querySelectorAll("#feed article").length === 12 && source && source.readyState === 1`)
	_, err = s.Append(t.Context(), transcript.UserText("After all of them."))
	require.NoError(t, err)
	tb.until(`document.querySelectorAll("#feed article").length === 13`)
	require.Equal(t, "", tb.js(verdicts("#feed")))
}

// Of many sessions the inbox shows the newest, and others after a decision.
func TestManyHeld(t *testing.T) {
	url, store := served(t, &serve.Options{})
	for i := range 61 {
		hold(t, talk(t, store, fmt.Sprint("s", i)), "Please.", "pay", fmt.Sprintf(`{"n":%d}`, i))
	}
	tb := newTab(t, 1280, "light")
	tb.visit(url + "/")
	tb.click("#inbox")
	tb.until(`document.querySelectorAll("#list .card").length === 60`)
	tb.until(`document.getElementById("listing").textContent.startsWith("The newest 60")`)
	require.Equal(t, `{"n":60}`, tb.js(`document.querySelector("#list .card summary span").textContent`))
	tb.click("#list .card form button")
	tb.until(`document.querySelectorAll("#list .card").length === 61 && document.querySelectorAll("#list .card form").length === 60`)
}

// Texts of a held call and its session are text in the inbox.
func TestHostileInbox(t *testing.T) {
	url, store := served(t, &serve.Options{})
	for i, text := range hostile {
		s := talk(t, store, fmt.Sprint("h", i))
		require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &text}))
		ids, err := s.Append(t.Context(), transcript.UserText(text), answer(text, toolCall("c", "run"+text, fmt.Sprintf("{%q:%q}", "in", "<script>window.hit=11</script>"))))
		require.NoError(t, err)
		require.NoError(t, turn.Decide(t.Context(), s, ids[len(ids)-1], transcript.Hold, text, text))
	}
	tb := newTab(t, 360, "dark")
	tb.visit(url + "/")
	tb.click("#inbox")
	tb.until(fmt.Sprintf(`document.querySelectorAll("#list .card form").length === %d`, len(hostile)))
	tb.js(`document.querySelectorAll("#list details").forEach(d => { d.open = true })`)
	tb.until(`[...document.querySelectorAll("#list details")].every(d => d.children.length > 1)`)
	tb.shot("inbox-hostile")
	require.Equal(t, 0.0, tb.js(`document.querySelectorAll("#list :is(script, iframe, svg, a, style, object, embed, link, img)").length`))
	require.Equal(t, true, tb.js(`document.documentElement.scrollWidth <= window.innerWidth && document.getElementById("list").scrollWidth <= document.getElementById("list").clientWidth`))
	text := tb.js(`document.getElementById("list").innerText`)
	require.Contains(t, text, "Held by ␛[2J␛]0;title␇␛[31mred")
	require.Contains(t, text, "user⟨U+202E⟩gnp.exe⟨U+202C⟩")
	require.NotRegexp(t, "[\u202a-\u202e\u2066-\u2069\x1b\x00]", text)
	require.NotRegexp(t, "[\u202a-\u202e\u2066-\u2069\x1b\x00]", tb.js(`[...document.querySelectorAll("#list [aria-label]")].map(e => e.getAttribute("aria-label")).join()`))
	require.Nil(t, tb.js("window.hit"))
}
