package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// A Filter changes entries before they are stored and before they leave the store, and
// may keep parts of them elsewhere: see [Options].Filters. [Redact] is one, and package
// session/blobs has another. Nil fields do nothing. The functions are called by several
// goroutines, must not modify their arguments unless documented, and return as many
// entries as they get. They must not append to the session: in an Update they would wait
// for themselves. An error fails the call.
type Filter struct {
	// Write returns the entries to store. They belong to one append or to a new session.
	// A new session begins with its header, and the next Base.Lines entries are copies
	// from the session that the header calls Base; they are stored as they are, whatever
	// Write returns. Before the session exists, Write copies the parts that the lines
	// need from the sessions of Descent. Then ctx ends, even if the session was not made.
	//
	// Write is called again when a call is retried, with entries that it has returned,
	// and with entries that are not stored in the end. So its result depends on the
	// entries alone, and it never changes or removes earlier results. A filter that can
	// change texts returns another slice each time, even if it has changed nothing:
	// drafts then hold back text, see [Redact].
	Write func(ctx context.Context, ref Ref, entries []transcript.Entry) ([]transcript.Entry, error)
	// Model changes a history before a request is made from it. It may replace the
	// Content of messages, and must not modify it.
	Model func(ctx context.Context, ref Ref, h *rebuild.History) error
	// Export returns entries in the form that other programs get. Nothing is
	// stored.
	Export func(ctx context.Context, ref Ref, entries []transcript.Entry) ([]transcript.Entry, error)
	// Sweep removes data that Write keeps elsewhere and no entry still needs. It is
	// called after an erase with the remaining entries, which it may range over several
	// times; until it returns, no call can append to the session. After a deletion, and
	// if a new session could not be made, it is called without entries.
	Sweep func(ctx context.Context, ref Ref, entries iter.Seq2[transcript.Entry, error]) error

	masks bool // made by Redact
}

// Redact returns a Filter that stores and exports the texts of entries as hook returns
// them. Package transcript/redact has a ready hook, redact.Secrets, and its Entries
// defines which strings are texts. An answer that hook changes is stored without its
// reasoning. Lines that were written before, and their copies in a fork, stay as they
// are; exports mask them.
//
// A store remembers its first write with a Redact filter. From then on a program that opens
// the store without one gets Redact(redact.Secrets) as its first filter, and a warning: the
// command line and a server mask as well, with the rules of the ready hook. Programs that
// have the store open at that moment are not affected.
//
// Hook must depend on the text alone, so that an append that is repeated under its
// idempotency key is the same, and must not change text that it has returned. A draft
// holds back its last line until that is complete, and text that hook would mask together
// with text after it. If a secret of several lines has no end yet, hook must mask it up
// to the end of the text.
func Redact(hook func(ctx context.Context, text string) string) Filter {
	if hook == nil {
		return Filter{}
	}
	mask := func(ctx context.Context, _ Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		return redact.Entries(entries, func(text string) string { return hook(ctx, text) })
	}
	return Filter{masks: true, Export: mask, Write: func(ctx context.Context, ref Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		own := 1 + copiesIn(entries)
		if own == 1 {
			return mask(ctx, ref, entries)
		}
		out, err := mask(ctx, ref, slices.Concat(entries[:1], entries[own:]))
		if err != nil {
			return nil, err
		}
		return slices.Insert(out, 1, entries[1:own]...), nil
	}}
}

// copiesIn returns how many entries after the header of a new session are copies.
func copiesIn(entries []transcript.Entry) int {
	if len(entries) == 0 {
		return 0
	}
	h, _ := entries[0].Body.(transcript.Header)
	return max(0, min(h.Base.Lines, len(entries)-1))
}

// filtered passes entries to a function of a filter, and checks the result.
func filtered(
	ctx context.Context, ref Ref, entries []transcript.Entry,
	filter func(context.Context, Ref, []transcript.Entry) ([]transcript.Entry, error),
) ([]transcript.Entry, error) {
	if filter == nil {
		return entries, nil
	}
	out, err := filter(ctx, ref, entries)
	if err == nil && len(out) != len(entries) {
		err = fmt.Errorf("a filter returns %d entries for %d", len(out), len(entries))
	}
	for i, e := range out {
		if n := len(e.Line()); n > transcript.DefaultMaxLine && err == nil {
			err = fmt.Errorf("entry %d of %d: a line of %d bytes is over the limit of %d", i+1, len(out), n, transcript.DefaultMaxLine)
		}
	}
	return out, err
}

// masking reports whether [Redact] made a filter.
func masking(all []Filter) bool {
	return slices.ContainsFunc(all, func(f Filter) bool { return f.masks })
}

// sweeping reports whether a filter keeps anything elsewhere.
func sweeping(all []Filter) bool {
	return slices.ContainsFunc(all, func(f Filter) bool { return f.Sweep != nil })
}

// sweep has filters remove data that the remaining entries do not need.
func sweep(ctx context.Context, all []Filter, ref Ref, left iter.Seq2[transcript.Entry, error]) (err error) {
	for _, f := range all {
		if f.Sweep != nil {
			err = errors.Join(err, f.Sweep(ctx, ref, left))
		}
	}
	return err
}
