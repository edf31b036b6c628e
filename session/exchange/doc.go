// Package exchange brings sessions of other programs into a store, copies them from
// store to store, and writes sessions in other forms: lines of the format, requests of
// a provider, files of other programs, Markdown and HTML for people.
//
// Most programs need one of three functions:
//
//	reports, err := exchange.Import(ctx, store, folder.Sessions(), nil)
//	report, err := exchange.Copy(ctx, folder, database, nil)
//	err = exchange.Markdown(ctx, s, w)
//
// [Import] may be repeated: it appends what the source has gained since. A program with a
// format of its own implements [Source]. [Lines]
// writes transcripts as they are and [Export] the files of another program.
//
// It uses the public API of package session alone, so it works over any driver.
package exchange

// Decisions:
//
// Records of an import have idempotency keys made of their source. Import finds
// present batches, and appends missing ones under the condition that no other append
// intervened. There is no list of imported records, so none can be wrong after a kill.
//
// Copy compares the lines of both stores and appends the missing ones; reading both
// sides is its only memory. It notices a changed copy before it appends. A session
// is created with its gen in the other store. A batch torn by a kill cannot be
// completed, so such a copy is deleted and copied again, unless it is the original.
