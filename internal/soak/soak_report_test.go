package soak_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// soakReport holds the measurements of a soak.
type soakReport struct {
	Name  string
	Turns int
	// Asked counts the requests to the model. Recovered are the calls that
	// succeeded when made again after an overflow, Lost the calls of Do that
	// failed.
	Asked           guardtest.Stats
	Recovered, Lost int
	// Summarizer counts the requests to its model, if it has one. Failures are
	// refused summaries, StandIns are summaries by code instead.
	Summarizer         guardtest.Stats
	Failures, StandIns int
	Compactions        int
	// Closest is the smallest addition between two compactions, as a part of
	// the window, at most 1.
	Closest float64
	// Sent are the tokens of answered prompts, and Summarized the tokens of the
	// summarizer's prompts.
	Sent, Summarized int
	Restarts         int
	// Recall has a row for each kind of fact, and Depths one for the identifiers
	// of each depth.
	Recall map[string]*carriers
	Depths [len(depths)]carriers
	// Requests counts the searched requests of running turns, and RequestsLost
	// the missing ones.
	Requests, RequestsLost int
}

// depths are the upper limits of rows, in compactions since a fact was told.
var depths = [...]int{1, 2, 4, 8, 16, 32}

// carriers lists the ways in which facts were carried.
type carriers struct {
	Asked    int
	Verbatim int // in the part that is kept
	Code     int // in text that code has added to the summary, or in a summary by code
	Model    int // in the words of a model
	Lost     int
}

func (c *carriers) add(found carrier) {
	c.Asked++
	switch found {
	case verbatim:
		c.Verbatim++
	case byCode:
		c.Code++
	case byModel:
		c.Model++
	case lost:
		c.Lost++
	}
}

// byCode is the part of the summarised facts that code has carried.
func (c *carriers) byCode() float64 {
	return float64(c.Code) / float64(max(c.Asked-c.Verbatim, 1))
}

func (r *soakReport) String() string {
	var sb strings.Builder
	percent := func(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	fmt.Fprintf(&sb, "%s: %d turns, %d restarts\n", r.Name, r.Turns, r.Restarts)
	fmt.Fprintf(&sb, "  requests     %d: %d invalid, %d overflows (%.2f %%), %d recovered, %d turns failed\n",
		r.Asked.Requests, r.Asked.Invalid, r.Asked.Overflows, percent(r.Asked.Overflows, r.Asked.Requests), r.Recovered, r.Lost)
	fmt.Fprintf(&sb, "  compactions  %d, by code instead of the summarizer %d, at least %.0f %% of the window between two\n",
		r.Compactions, r.StandIns, 100*r.Closest)
	fmt.Fprintf(&sb, "  summarizer   %d requests: %d invalid, %d overflows; %d summaries refused; %d of %d tokens (%.2f %%)\n",
		r.Summarizer.Requests, r.Summarizer.Invalid, r.Summarizer.Overflows, r.Failures, r.Summarized, r.Sent, percent(r.Summarized, r.Sent))
	fmt.Fprintf(&sb, "  requests of turns under way: %d of %d found\n", r.Requests-r.RequestsLost, r.Requests)
	fmt.Fprintf(&sb, "  %-28s %8s %9s %9s %9s %9s %11s\n", "facts", "asked", "verbatim", "code", "model", "lost", "code/summ.")
	row := func(name string, c *carriers) {
		fmt.Fprintf(&sb, "  %-28s %8d %8.1f%% %8.1f%% %8.1f%% %8.1f%% %10.1f%%\n", name, c.Asked,
			percent(c.Verbatim, c.Asked), percent(c.Code, c.Asked), percent(c.Model, c.Asked), percent(c.Lost, c.Asked), 100*c.byCode())
	}
	for i := range r.Depths {
		row(fmt.Sprintf("identifiers, depth <= %d", depths[i]), &r.Depths[i])
	}
	for _, name := range sortedKeys(r.Recall) {
		row(name, r.Recall[name])
	}
	return sb.String()
}

// merge adds the measurements of another soak.
func (r *soakReport) merge(o *soakReport) {
	r.Turns += o.Turns
	r.Restarts += o.Restarts
	for _, s := range []struct{ sum, one *guardtest.Stats }{{&r.Asked, &o.Asked}, {&r.Summarizer, &o.Summarizer}} {
		s.sum.Requests += s.one.Requests
		s.sum.Answered += s.one.Answered
		s.sum.Invalid += s.one.Invalid
		s.sum.Overflows += s.one.Overflows
		s.sum.Failed += s.one.Failed
	}
	r.Recovered += o.Recovered
	r.Lost += o.Lost
	r.Failures += o.Failures
	r.StandIns += o.StandIns
	r.Compactions += o.Compactions
	r.Closest = min(r.Closest, o.Closest)
	r.Sent += o.Sent
	r.Summarized += o.Summarized
	r.Requests += o.Requests
	r.RequestsLost += o.RequestsLost
	for name, c := range o.Recall {
		if r.Recall[name] == nil {
			r.Recall[name] = &carriers{}
		}
		r.Recall[name].sum(c)
	}
	for i := range depths {
		r.Depths[i].sum(&o.Depths[i])
	}
}

func (c *carriers) sum(o *carriers) {
	c.Asked += o.Asked
	c.Verbatim += o.Verbatim
	c.Code += o.Code
	c.Model += o.Model
	c.Lost += o.Lost
}

func sortedKeys(m map[string]*carriers) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// carrier returns the place of a fact.
type carrier int

const (
	lost carrier = iota
	verbatim
	byCode
	byModel
)

// shown is a history taken apart.
type shown struct{ kept, code, model string }

func takeApart(h rebuild.History) (s shown) {
	var kept, made strings.Builder
	for _, m := range h.Messages {
		for i, b := range m.Content {
			sb := &kept
			if o := m.Origins[i]; o.Entry != "" && o.Batch == 0 {
				sb = &made
			}
			sb.WriteString(textOf(b))
			sb.WriteByte('\n')
		}
	}
	s.kept = kept.String()
	if s.model = made.String(); h.Compaction != nil {
		s.code = rebuild.CarriedText(*h.Compaction)
		for _, f := range h.Compaction.Files { // several of a folder are shown without it
			s.code += "\n" + f.Text
		}
	}
	return s
}

func textOf(b transcript.Block) string {
	switch b := b.(type) {
	case transcript.TextBlock:
		return b.Text
	case transcript.ToolCallBlock:
		return string(b.Input)
	case transcript.ToolResultBlock:
		return b.Text()
	}
	return ""
}

func (s shown) find(text string) carrier {
	switch {
	case strings.Contains(s.kept, text):
		return verbatim
	case strings.Contains(s.code, text):
		return byCode
	case strings.Contains(s.model, text):
		return byModel
	}
	return lost
}
