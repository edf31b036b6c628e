// Package guard makes one call to a model survive the overflow of its context
// window.
//
// [Complete] calls a [Client] of yours with the history of a session and is all that
// most programs need. [Do] takes a function with a result of any type instead. Both
// return an [*OverflowError] if the conversation cannot be made to fit. With [Guard],
// [History] and [Call] these are the names to learn first.
//
// Do reads the history, calls the model, and examines the error. After an overflow it
// reserves less for the output, if the error is about that, or runs its stages one
// after the other until the history fits, and calls again:
//
//   - [Media] replaces images and documents by notes, if there are too many bytes;
//   - [Clip] shortens long tool results;
//   - [Compact] replaces the older part of the history by a summary.
//
// Each note names the entry with the whole content, so an application can offer a tool
// that reads it.
//
// Every change is committed to the history before the next call, so a restart sends
// the same request. If the provider refuses a [Part] of a request, Do calls again
// without it, and commits that once it is proven. Other errors and all answers are
// returned unchanged. docs/REFUSALS.md lists the parts and their cures.
//
// Set the window of a model in three places, each of which works without the others:
// the Guard, which then checks requests before it sends them; the trigger of a
// session's compactions, by the names of models if there are several, so that they happen
// after a turn and not inside one; and the summarizing model, which may be another one.
//
// If the history is [Calibrated], Do also commits the window that it learns from errors,
// the error of its token estimates, and the parts that a model refuses.
//
// [Classify] decides whether an error is an overflow, of which limit, and by which
// rule. The package imports no provider SDK and no storage.
package guard

// Decisions:
//
// The window falls with the figures in errors if they are plausible; a longer accepted
// prompt raises it again. The factor of the estimate is committed when it is off by a
// tenth: upwards at once, downwards by half, so that entries stay rare.
//
// A stage that changed nothing causes no further call. Nothing may happen between an
// answer and its append, so only an empty answer causes a second call.
//
// Media are replaced only after errors about bytes or about media, or above a number in
// Guard.Takes; the window never causes it.
//
// A refused part changes no history: a note in one model's request must not hide an image
// from another model. What is left out is a part of the hash of the prompt in an answer, so
// signed reasoning never crosses between requests that leave out different things.
//
// OverflowError unwraps to the provider's error alone: a summarizer that timed out must
// not look like the caller's deadline.
