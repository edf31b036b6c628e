package format

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// An Accumulator puts the pieces of an answer together, for any API. The meaning
// of an event is up to the API.
type Accumulator struct {
	API, Model, ID string

	Pieces []*Piece
	usage  js.Members // newest values
	Reason string     // for the end, in the API's words
	Done   bool       // the API gave the reason
	Over   bool       // the API sends nothing more
	failed bool
}

// A Piece is one block of an arriving answer: a text, reasoning, a call or an
// opaque block.
type Piece struct {
	index int64
	Kind  string          // in the API's words
	Start json.RawMessage // as it began
	Whole json.RawMessage // if the API sent it whole
	Done  bool
	// The texts added to it, by their members, and the elements of a list.
	Texts []pieceText
	List  []json.RawMessage
}

// A pieceText is a text of a piece: its n-th of that name.
type pieceText struct {
	Name string
	n    int64
	Text []byte
}

// Base returns a.
func (a *Accumulator) Base() *Accumulator { return a }

// Refusal also recognises errors of proxies, even without the type.
func (a *Accumulator) Refusal(obj []byte) *wire.APIError {
	failed, _ := jsontext.Member(obj, "error")
	_, content := jsontext.Member(obj, "content")
	if js.String(obj, "type") != "error" && (content && a.API == APIAnthropic || !jsontext.IsObject(failed) && !jsontext.IsString(failed)) {
		return nil
	}
	return wire.NewAPIError(0, obj)
}

// Begin begins a piece.
func (a *Accumulator) Begin(index int64, kind string, start []byte) *Piece {
	p := &Piece{index: index, Kind: kind, Start: slices.Clone(start)}
	a.Pieces = append(a.Pieces, p)
	return p
}

// Complete adds a piece that came whole.
func (a *Accumulator) Complete(whole []byte) {
	p := a.Begin(int64(len(a.Pieces)), "", nil)
	p.Whole, p.Done = slices.Clone(whole), true
}

// Blocks maps the pieces to blocks.
func (a *Accumulator) Blocks(read func(*Piece) []transcript.Block) (all []transcript.Block) {
	for _, p := range a.Pieces {
		all = append(all, read(p)...)
	}
	return all
}

// Find returns the newest piece with an index, or nil.
func (a *Accumulator) Find(index int64) *Piece {
	for _, p := range slices.Backward(a.Pieces) {
		if p.index == index {
			return p
		}
	}
	return nil
}

// At returns the piece with the index in a member of an event, or nil. ok is set
// if there is an index.
func (a *Accumulator) At(event []byte, name string) (p *Piece, index int64, ok bool) {
	if index, ok = jsontext.Int(js.Get(event, name)); ok {
		p = a.Find(index)
	}
	return p, index, ok
}

// Open returns the piece that an event continues.
func (a *Accumulator) Open(event []byte, name string) (*Piece, error) {
	if p, _, _ := a.At(event, name); p != nil && !p.Done {
		return p, nil
	}
	return nil, fmt.Errorf("wire: stream: event about a block that is not open: %q", js.Excerpt(event))
}

// Start begins the piece in a member of an event.
func (a *Accumulator) Start(event []byte, indexName, name string) (*Piece, error) {
	known, index, ok := a.At(event, indexName)
	obj := js.Get(event, name)
	kind := js.String(obj, "type")
	if !ok || known != nil || kind == "" {
		return nil, fmt.Errorf("wire: stream: unexpected %s: %q", js.String(event, "type"), js.Excerpt(event))
	}
	return a.Begin(index, kind, obj), nil
}

// Stop ends the piece whose end an event reports.
func (a *Accumulator) Stop(event []byte, name string) error {
	p, err := a.Open(event, name)
	if err == nil {
		p.Done = true
	}
	return err
}

// End ends the answer.
func (a *Accumulator) End() {
	a.Done = true
	for _, p := range a.Pieces {
		p.Done = true
	}
}

// AddUsage takes the newer, cumulative counts in a member of an event.
func (a *Accumulator) AddUsage(event []byte, name string) error {
	usage, err := UsageOf(event, name)
	a.MergeUsage(usage)
	return err
}

// UsageOf returns the counts in a member of an event.
func UsageOf(event []byte, name string) (json.RawMessage, error) {
	usage := js.Get(event, name)
	if !jsontext.IsNull(usage) && !jsontext.IsObject(usage) {
		return nil, fmt.Errorf("wire: the answer's usage is not an object: %q", js.Excerpt(usage))
	}
	return usage, nil
}

// MergeUsage replaces counts by newer ones.
func (a *Accumulator) MergeUsage(usage json.RawMessage) {
	for _, m := range js.MembersOf(slices.Clone(usage)) {
		if !jsontext.IsNull(m.Value) || !a.usage.Has(m.Name) {
			a.usage.Set(m.Name, m.Value)
		}
	}
}

// Grow extends the n-th text of a name.
func (p *Piece) Grow(name string, n int64, text string) {
	for i := range p.Texts {
		if t := &p.Texts[i]; t.Name == name && t.n == n {
			t.Text = append(t.Text, text...)
			return
		}
	}
	p.Texts = append(p.Texts, pieceText{name, n, []byte(text)})
}

// Text returns the first text of a name.
func (p *Piece) Text(name string) string {
	for _, t := range p.Texts {
		if t.Name == name {
			return string(t.Text)
		}
	}
	return ""
}

// Has reports whether there is a text of a name, even an empty one.
func (p *Piece) Has(name string) bool {
	return slices.ContainsFunc(p.Texts, func(t pieceText) bool { return t.Name == name })
}

// CallInput returns the input of a call that came as a text. Text that is not valid
// JSON becomes a string, as does an unfinished input without text.
func CallInput(text string, done bool) json.RawMessage {
	switch {
	case len(text) > 0:
		return jsontext.AppendValue(nil, []byte(text)) // invalid input becomes a string
	case done:
		return json.RawMessage("{}")
	}
	return json.RawMessage(`""`) // until it ends, it may be a call without input
}
