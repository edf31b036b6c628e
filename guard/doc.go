// Package guard makes one call to a model survive the overflow of its context
// window.
//
// [Do] reads the history, calls the model through a function of the
// application, and looks at what comes back. After an overflow it reserves less
// for the output if that is what the error is about, or runs its stages on the
// history, one after the other until it fits, and calls again:
//
//   - [Media] replaces images and documents by notes, when bytes are what is too
//     much;
//   - [Clip] shortens tool results that are too long;
//   - [Compact] has the older part of the history replaced by a summary.
//
// [Clear], which replaces old tool results by notes, can be one of them. Notes
// have the ID of the entry that holds all of it, so that an application can
// offer a tool that reads it again.
//
// Every change is committed to the history before the next call, so that a
// restart sends the same. Other errors are returned untouched, as are
// answers; an overflow that nothing could cure is an [*OverflowError] that
// holds the provider's error.
//
// The same window of a model is told to the [Guard], which then looks before it
// sends; to the trigger of a session's compactions, which then happen after a
// turn and not in the middle of one; and to a summarizing model, which may be
// another one. Each works without the others.
//
// If the history is [Calibrated], a Do also commits what it learns: the window of the
// model, and by how much the estimate of tokens is off.
//
// [Classify] says whether an error is an overflow, of what, and by which rule.
// The guard needs no package of a provider and no package of this module's
// store: [History] and [Client] are all it knows.
package guard
