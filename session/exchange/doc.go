// Package exchange brings sessions of other programs into a store and writes
// sessions in other forms: lines of the format, requests of a provider, files
// of other programs, Markdown for people.
//
// It uses the public API of package session alone, so it works over any driver.
package exchange
