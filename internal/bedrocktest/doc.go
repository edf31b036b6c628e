// Package bedrocktest tests package rebuild/wire/bedrock against the official
// SDK, aws-sdk-go-v2. It is a module of its own so that no other package needs the
// SDK.
//
// The SDK takes no raw bodies, so both directions use its types. A rendered request
// is decoded into these types, and the official client sends it; the sent request must
// mean the same. An answer that the client read is encoded again, and [bedrock.Format]
// reads it.
//
// [bedrock.Format]: https://pkg.go.dev/github.com/convolog/convolog/rebuild/wire/bedrock#Format
package bedrocktest
