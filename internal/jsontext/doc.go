// Package jsontext walks and writes JSON as text.
//
// Transcripts must keep what they do not understand, in the order and the
// spelling it came in. Package encoding/json decodes into values and so loses
// unknown members, their order and the spelling of numbers; this package
// hands out the members of an object as the bytes they are, and writes objects
// member by member.
//
// [Members], [Elements] and [Skip] expect valid JSON (see [Valid]). On anything
// else they return less, never panic and never read out of bounds. A [Walk]
// takes any text and says whether it was valid.
package jsontext
