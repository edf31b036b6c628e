// Package jsontext walks and writes JSON as text.
//
// Transcripts must keep unknown members in their order and spelling. Package
// encoding/json decodes into values, and so loses unknown members, their order and the
// spelling of numbers. This package returns the members of an object as raw bytes, and
// writes objects member by member.
//
// [Members], [Elements] and [Skip] expect valid JSON (see [Valid]). For other text they
// return less, but never panic and never read out of bounds. A [Walk] takes any text and
// reports whether the text is valid.
package jsontext
