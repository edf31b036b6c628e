// Package guard makes one call to a model survive the overflow of its context
// window.
//
// Most programs need [Complete] and a [Guard]: Complete calls your [Client] with the
// history of a session. [Do] takes a function instead of a Client, and its result may be of
// any type. Both return an [*OverflowError] if the conversation cannot be made to fit.
// Learn these names first, together with [Guard], [History] and [Call].
//
// Do reads the history, calls the model, and examines the error. After an overflow, it
// makes the request smaller and calls the model again. If reserving less for the output
// suffices, it does only that. Otherwise it runs its stages in order until the history
// fits:
//
//   - [Media] replaces images and documents by notes, if the request has too many bytes,
//     there are too many media, or one is too large;
//   - [Clip] shortens long tool results;
//   - [Compact] replaces the older part of the history by a summary.
//
// Each note names the entry with the whole content, so an application can offer a tool
// that reads the entry.
//
// Do commits every change to the history before the next call, so a restart sends the
// same request. If the provider refuses a [Part] of a request, Do calls again without
// that part, or with another form of it. Once a call has proven such a cure, Do commits
// it. docs/REFUSALS.md lists the parts and their cures. Do returns other errors
// unchanged. Of an answer it changes nothing except its Made.
//
// Set the window of a model in three places; each works without the others. With the
// window in the Guard, Do checks a request before sending it. With the window in the
// trigger of a session's compactions, they happen after a turn and not inside one. If a
// session uses several models, the trigger takes a window for each name. The
// summarizing model has its own window.
//
// If the history is [Calibrated], Do also commits its findings: the window of the
// model, the error of its token estimates, and the parts that the model refuses.
//
// [Classify] decides whether an error is an overflow, and names the limit and the
// deciding rule. The package imports no provider SDK and no storage.
package guard

// Decisions:
//
// A plausible limit in an error lowers the window; an accepted prompt that is longer
// resets it. The factor of the estimate is committed only if it is off by a tenth, so
// that entries stay rare. It rises at once, and falls by half of the difference.
//
// A stage that changed nothing causes no further call. Nothing may happen between an
// answer and its append, so only an empty answer leads to a second call.
//
// Media are replaced only after errors about bytes or media, or if they exceed a limit
// of the Takes in a request. A full window never causes it.
//
// A refused part does not change the history, because a note for one model must not
// hide an image from another model. The prompt hash in an answer covers all omissions.
// So signed reasoning never crosses between requests with different omissions.
//
// OverflowError unwraps only to the provider's error: a summarizer's timeout must not
// look like the caller's deadline.
