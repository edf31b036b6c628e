// Package bedrocktest tests package rebuild/wire/bedrock against the official
// SDK, aws-sdk-go-v2. It is a module of its own so that no other package needs
// that.
//
// The SDK takes no raw bodies, so both directions use its types: a rendered
// request is decoded into them and sent by the official client, whose request
// must mean the same; an answer read by the client is encoded again and read by
// [bedrock.Format].
//
// [bedrock.Format]: https://pkg.go.dev/github.com/convolog/convolog/rebuild/wire/bedrock#Format
package bedrocktest
