package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// An accumulator puts the pieces of an answer together, of whatever API: what an
// event means is the API's business.
type accumulator struct {
	api, model, id string

	pieces []*piece
	usage  members // newest values
	reason string  // for the end, in the API's words
	done   bool    // the API gave a reason
	over   bool    // and has nothing more to say
	failed bool
}

// A piece is one block of an answer while it comes in: a text, reasoning, a call
// or what is opaque.
type piece struct {
	index int64
	kind  string          // in the API's words
	start json.RawMessage // as it began
	whole json.RawMessage // if the API said it as a whole
	done  bool
	// What was added to it: texts by the member that they go on, and the elements of
	// a list.
	texts []pieceText
	list  []json.RawMessage
}

// A pieceText is a text of a piece: the n-th of that name.
type pieceText struct {
	name string
	n    int64
	text []byte
}

func (a *accumulator) base() *accumulator { return a }

// refusal recognises errors of proxies too, some of which leave out the type.
func (a *accumulator) refusal(obj []byte) *APIError {
	failed, _ := jsontext.Member(obj, "error")
	_, content := jsontext.Member(obj, "content")
	if stringMember(obj, "type") != "error" && (content && a.api == apiAnthropic || !jsontext.IsObject(failed) && !jsontext.IsString(failed)) {
		return nil
	}
	return NewAPIError(0, obj)
}

// begin begins a piece.
func (a *accumulator) begin(index int64, kind string, start []byte) *piece {
	p := &piece{index: index, kind: kind, start: slices.Clone(start)}
	a.pieces = append(a.pieces, p)
	return p
}

// complete adds a piece that came as a whole.
func (a *accumulator) complete(whole []byte) {
	p := a.begin(int64(len(a.pieces)), "", nil)
	p.whole, p.done = slices.Clone(whole), true
}

// blocks returns what a function makes of the pieces.
func (a *accumulator) blocks(read func(*piece) []transcript.Block) (all []transcript.Block) {
	for _, p := range a.pieces {
		all = append(all, read(p)...)
	}
	return all
}

// find returns the newest piece with an index, nil if there is none.
func (a *accumulator) find(index int64) *piece {
	for _, p := range slices.Backward(a.pieces) {
		if p.index == index {
			return p
		}
	}
	return nil
}

// at returns the piece with the index that a member of an event says; it is nil if
// there is none. ok says that there is an index.
func (a *accumulator) at(event []byte, name string) (p *piece, index int64, ok bool) {
	if index, ok = jsontext.Int(get(event, name)); ok {
		p = a.find(index)
	}
	return p, index, ok
}

// open returns the piece that an event goes on.
func (a *accumulator) open(event []byte, name string) (*piece, error) {
	if p, _, _ := a.at(event, name); p != nil && !p.done {
		return p, nil
	}
	return nil, fmt.Errorf("wire: stream: event about a block that is not open: %q", excerpt(event))
}

// start begins the piece that an event has under a name.
func (a *accumulator) start(event []byte, indexName, name string) (*piece, error) {
	known, index, ok := a.at(event, indexName)
	obj := get(event, name)
	kind := stringMember(obj, "type")
	if !ok || known != nil || kind == "" {
		return nil, fmt.Errorf("wire: stream: unexpected %s: %q", stringMember(event, "type"), excerpt(event))
	}
	return a.begin(index, kind, obj), nil
}

// stop ends the piece that an event says has ended.
func (a *accumulator) stop(event []byte, name string) error {
	p, err := a.open(event, name)
	if err == nil {
		p.done = true
	}
	return err
}

// end ends the answer.
func (a *accumulator) end() {
	a.done = true
	for _, p := range a.pieces {
		p.done = true
	}
}

// addUsage takes the newer counts that a member of an event has. They are
// cumulative.
func (a *accumulator) addUsage(event []byte, name string) error {
	usage, err := usageOf(event, name)
	a.mergeUsage(usage)
	return err
}

func usageOf(event []byte, name string) (json.RawMessage, error) {
	usage := get(event, name)
	if !jsontext.IsNull(usage) && !jsontext.IsObject(usage) {
		return nil, fmt.Errorf("wire: the answer's usage is not an object: %q", excerpt(usage))
	}
	return usage, nil
}

func (a *accumulator) mergeUsage(usage json.RawMessage) {
	for _, m := range membersOf(slices.Clone(usage)) {
		if !jsontext.IsNull(m.value) || !a.usage.has(m.name) {
			a.usage.set(m.name, m.value)
		}
	}
}

// grow adds to the n-th text of a name.
func (p *piece) grow(name string, n int64, text string) {
	for i := range p.texts {
		if t := &p.texts[i]; t.name == name && t.n == n {
			t.text = append(t.text, text...)
			return
		}
	}
	p.texts = append(p.texts, pieceText{name, n, []byte(text)})
}

// text returns the first text of a name.
func (p *piece) text(name string) string {
	for _, t := range p.texts {
		if t.name == name {
			return string(t.text)
		}
	}
	return ""
}

// has reports whether there is a text of a name, which may be empty.
func (p *piece) has(name string) bool {
	return slices.ContainsFunc(p.texts, func(t pieceText) bool { return t.name == name })
}

// callInput returns the input of a call that came as a text. Text that is not valid
// JSON becomes a string, as does an unfinished input without any text.
func callInput(text string, done bool) json.RawMessage {
	switch {
	case len(text) > 0:
		return jsontext.AppendValue(nil, []byte(text)) // what is not valid becomes a string
	case done:
		return json.RawMessage("{}")
	}
	return json.RawMessage(`""`) // a call without input looks the same until it ends
}
