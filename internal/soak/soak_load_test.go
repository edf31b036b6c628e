package soak_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/transcript"
)

// soakLoad is a long conversation, made up from a seed: the user's texts, the
// model's calls, the results, and the facts to remember. It goes from tasks of
// a coding agent (reading, searching, testing and editing files, also several
// at once, with errors, images, base64 and results that are larger than the
// window) to plain talk in several scripts and back. The same soakLoad gives
// the same turns, in whatever order they are asked for. It is plain data and
// safe for several goroutines.
type soakLoad struct {
	Seed uint64
	// Window is the window of the model in tokens, which also defines huge
	// texts. 0 means 32,000.
	Window int
}

// soakTurn is one turn of a [soakLoad].
type soakTurn struct {
	// N is its number, from 0.
	N int
	// User is the message that begins it, and Request the words that state the
	// wish. They occur in no other turn.
	User    transcript.Message
	Request string
	// Steps are what the model does before its last words.
	Steps []soakStep
	// Answer is the last words. If they are empty the turn is given up after
	// the last of the results.
	Answer string
	// Facts are the facts of the turn that are worth remembering.
	Facts []soakFact
}

// soakStep is an answer that calls tools, and their results.
type soakStep struct {
	Text  string
	Calls []transcript.ToolCallBlock // at least one, with their IDs
	// Results are in the order of the calls, a message for each.
	Results []transcript.Message
}

// reply is the model's answer after a number of steps of the turn.
func (t soakTurn) reply(steps int) guardtest.Answer {
	if steps < len(t.Steps) {
		s := t.Steps[steps]
		return guardtest.Answer{Text: s.Text, Calls: s.Calls}
	}
	return guardtest.Say(t.Answer)
}

// turn makes the turn of that number.
func (w soakLoad) turn(n int) soakTurn {
	const episode = 25 // turns about one thing
	about := rand.New(rand.NewPCG(w.Seed, uint64(n/episode)))
	t := &turnMaker{
		soakTurn: soakTurn{N: n},
		Rand:     rand.New(rand.NewPCG(w.Seed^0x5eed, uint64(n))),
		window:   w.Window,
	}
	if t.window <= 0 {
		t.window = 32_000
	}
	work, talk := about.IntN(100) < 60, &scripts[about.IntN(len(scripts))]
	t.project = fmt.Sprintf("%s%02d", english.words[about.IntN(len(english.words))], about.IntN(90)+10)
	if work {
		t.words = english
		t.task()
	} else {
		t.words = talk
		t.chat()
	}
	return t.soakTurn
}

// turnMaker makes a soakTurn.
type turnMaker struct {
	soakTurn
	*rand.Rand
	window  int
	words   *script
	project string
	planted int // facts so far
}

// one is true once in n times.
func (t *turnMaker) one(n int) bool { return t.IntN(n) == 0 }

// request begins the user's message.
func (t *turnMaker) request(what string) {
	t.Request = fmt.Sprintf("(%d) %s", t.N+1, what)
	t.User = transcript.UserText(t.Request)
}

// say adds to what the user writes.
func (t *turnMaker) say(text string) {
	t.User.Content = append(t.User.Content, transcript.TextBlock{Text: text})
}

// chat is a turn without tools, or with a single search.
func (t *turnMaker) chat() {
	t.request(t.words.text(t.Rand, 1+t.IntN(4)))
	if t.one(3) {
		t.say(t.plant(factDecision, ofUser))
	}
	if t.one(4) {
		t.say(t.plant(t.mark(), ofUser))
	}
	if t.one(60) {
		t.User.Content = append(t.User.Content, t.image())
	}
	if t.one(8) {
		t.call("search", map[string]any{"query": t.words.text(t.Rand, 1)}, t.words.text(t.Rand, 5+t.IntN(30)))
		t.endStep("")
	}
	t.Answer = t.words.text(t.Rand, 2+t.IntN(9))
	if t.one(12) {
		t.Answer += "\n" + t.plant(t.mark(), ofAssistant)
	}
}

// task is a turn of a coding agent.
func (t *turnMaker) task() {
	t.request(t.words.text(t.Rand, 1+t.IntN(2)))
	if t.one(5) {
		t.say(t.plant(factDecision, ofUser))
	}
	if t.one(5) {
		t.say(t.plant(t.mark(), ofUser))
	}
	steps := t.IntN(4)
	if t.one(150) {
		steps = 30 + t.IntN(40) // more than a window of 32,000 takes
	}
	for range steps {
		calls := 1
		if t.one(5) {
			calls = 2 + t.IntN(3)
		}
		for range calls {
			t.useTool()
		}
		text := ""
		if t.one(3) {
			text = t.words.text(t.Rand, 1)
		}
		if t.one(20) {
			text += "\n" + t.plant(t.mark(), ofAssistant)
		}
		t.endStep(strings.TrimSpace(text))
	}
	if steps > 0 && t.one(40) {
		return // given up
	}
	t.Answer = t.words.text(t.Rand, 1+t.IntN(5))
}

// step returns the step that calls are added to.
func (t *turnMaker) step() *soakStep {
	if n := len(t.Steps); n > 0 && t.Steps[n-1].Text == unfinished {
		return &t.Steps[n-1]
	}
	t.Steps = append(t.Steps, soakStep{Text: unfinished})
	return &t.Steps[len(t.Steps)-1]
}

// unfinished is the text of a step that is still in the making.
const unfinished = "\x00"

// endStep gives the step its text.
func (t *turnMaker) endStep(text string) { t.step().Text = text }
