// Package exchange brings sessions of other programs into a store, copies them from
// store to store, and writes sessions in other forms: lines of the format, requests of
// a provider, files of other programs, Markdown and HTML for people.
//
//	reports, err := exchange.Import(ctx, store, folder.Sessions(), nil)
//	report, err := exchange.Copy(ctx, folder, database, nil)
//	err = exchange.Markdown(ctx, s, w)
//
// [Import] may be repeated: it appends what the source has gained since. [Lines]
// writes transcripts as they are and [Export] the files of another program.
//
// It uses the public API of package session alone, so it works over any driver.
package exchange
