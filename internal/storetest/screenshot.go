package storetest

import (
	"encoding/base64"
	"math/rand/v2"

	"github.com/convolog/convolog/transcript"
)

// Screenshot returns an image of n bytes with the header of a PNG; the rest is [Grain].
func Screenshot(n int, seed uint64) transcript.ImageBlock {
	data := Grain(n, seed)
	copy(data, "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x05\x00\x00\x00\x03\x20")
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
}

// Grain returns n random bytes. The same seed gives the same bytes.
func Grain(n int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 14))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return data
}
