// Package compact makes a history smaller: it replaces the older part by a summary.
//
// Most programs need [Options] with a [Trigger], and [Model]. Package session does the rest.
//
// A compaction is due if the history has more tokens than [Trigger].Room;
// session.Session.AfterTurn compares the two, and waits if session.TooSoon or
// session.CoolingDown applies. The rest takes three steps, each testable alone:
//
//   - [Plan] is pure. It returns a cut, which names the parts to summarise and
//     to keep, or the reason why there is nothing to do.
//   - [Run] calls a [Summarizer], refuses bad summaries, adds carried items,
//     and returns the compaction entry. Nothing has changed yet.
//   - The owner of the transcript appends the entry. Package session does so
//     under a condition, so concurrent appends continue.
//
// [Extractive] needs no model; [Model] asks one, through a function with the
// shape of guard.Client's method.
package compact

// Decisions:
//
// Carried items are data on the compaction entry, made by code: texts of the user, a
// ledger of files, errors of tools. No summarizer is trusted with them. The next
// compaction merges items and never parses prose. The user's words are short next to
// the output of tools, so they are carried; identifiers in results are not.
//
// Modified files are dropped last, but the newest read paths keep a quarter of the
// room. In a session of a thousand turns, old edits would crowd out every recent read.
//
// A summary is refused for its size and form, never for its words. A list of phrases
// covers few languages, and refuses honest summaries that quote them.
//
// Without a summarizer Extractive is used, even under overflow: losing detail beats a
// session that cannot continue. A failing summarizer of the application is never
// replaced silently: Either reports it.
