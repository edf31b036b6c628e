package guardtest

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/internal/wiretest"
)

// Outcome is the result of a request.
type Outcome string

// The outcomes of requests for a message.
const (
	// Answered requests were accepted and answered, with any stop reason.
	Answered Outcome = "answered"
	// Invalid requests break a rule of the API: they must not be sent again unchanged.
	// A request for more output than the model allows is also invalid.
	Invalid Outcome = "invalid"
	// Overflow is a prompt that is longer than the window, or a body with too many
	// bytes. With [Model.ReserveOutput] it is also a prompt that exceeds the window
	// together with its output.
	Overflow Outcome = "overflow"
	// Failed requests were valid, but the [Rule] made their answer fail.
	Failed Outcome = "failed"
)

// Recorded is a request for a message and its outcome. The readable part of the
// request is shared and must not be changed.
type Recorded struct {
	Request
	Outcome Outcome
	// Status is the HTTP status; 0 if no answer was begun.
	Status int
	// Refused is the message of the error in the answer or stream, or empty.
	Refused string
	// Done is set once the answer has ended, for any reason.
	Done bool
}

// Stats counts the requests to a Model since it was made, including forgotten ones.
// Requests is the sum of Answered, Invalid, Overflows and Failed, see [Outcome]. A
// request with an unknown outcome counts as answered until the outcome is known.
type Stats struct {
	Requests  int // requests for a message
	Answered  int
	Invalid   int
	Overflows int
	Failed    int
}

// Stats returns the counts so far.
func (m *Model) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// Requests returns the last requests for a message, [Model.Keep] at most, in the order
// of their arrival. Refused and unfinished ones are included.
func (m *Model) Requests() []Recorded { return m.recorded("") }

// Invalid returns the last requests whose outcome is [Invalid]. If a test ends without
// one, the client sent only requests that the provider accepts.
func (m *Model) Invalid() []Recorded { return m.recorded(Invalid) }

func (m *Model) recorded(outcome Outcome) []Recorded {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Recorded, len(m.last[outcome]))
	for i, rec := range m.last[outcome] {
		out[i] = *rec
	}
	return out
}

func (m *Model) remember(outcome Outcome, rec *Recorded) {
	if m.last == nil {
		m.last = map[Outcome][]*Recorded{}
	}
	last := append(m.last[outcome], rec)
	if m.Keep >= 0 && len(last) > cmp.Or(m.Keep, 100) {
		last = slices.Delete(last, 0, 1)
	}
	m.last[outcome] = last
}

func (m *Model) begin(req Request, no *wiretest.Refusal) *Recorded {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Requests++
	req.N = m.stats.Requests
	rec := &Recorded{Request: req, Outcome: Answered}
	m.remember("", rec)
	if no == nil {
		m.stats.Answered++
		return rec
	}
	rec.Outcome, rec.Status, rec.Refused = Invalid, no.Status, no.Text
	count := &m.stats.Invalid
	if no.Overflow {
		rec.Outcome, count = Overflow, &m.stats.Overflows
	}
	*count++
	m.remember(rec.Outcome, rec)
	return rec
}

func (m *Model) settle(rec *Recorded, outcome Outcome, status int, refused string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec.Outcome, rec.Status, rec.Refused = outcome, status, refused
	if outcome == Failed {
		m.stats.Answered--
		m.stats.Failed++
	}
}

// end records that the answer has ended.
func (m *Model) end(rec *Recorded) {
	m.mu.Lock()
	rec.Done = true
	done := *rec
	m.mu.Unlock()
	if m.Observe != nil {
		m.Observe(done)
	}
}
