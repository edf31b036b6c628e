package tokens_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// imageTokens counts an image alone.
func imageTokens(f tokens.Family, data []byte) int {
	b := transcript.ImageBlock{Source: transcript.Source{Type: "base64", Data: base64.StdEncoding.EncodeToString(data)}}
	e := tokens.Estimator{Family: f}
	return e.Count("", nil, message(b)) - e.Count("", nil, message(transcript.ToolResultBlock{}))
}

// webp returns the head of a WebP image: its kind, and the bytes after the size
// of its first chunk.
func webp(kind string, rest ...byte) []byte {
	return append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind+"\x00\x00\x00\x00"), rest...)
}

func TestImages(t *testing.T) {
	encode := func(w, h int, as func(*bytes.Buffer, image.Image) error) []byte {
		var b bytes.Buffer
		require.NoError(t, as(&b, image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})))
		return b.Bytes()
	}
	asPNG := func(b *bytes.Buffer, m image.Image) error { return png.Encode(b, m) }
	asGIF := func(b *bytes.Buffer, m image.Image) error { return gif.Encode(b, m, nil) }
	asJPEG := func(b *bytes.Buffer, m image.Image) error { return jpeg.Encode(b, m, nil) }
	small := encode(750, 100, asJPEG)
	exif := append([]byte("\xff\xd8\xff\xe1"), binary.BigEndian.AppendUint16(nil, 60002)...)
	exif = append(append(exif, make([]byte, 60000)...), small[2:]...)
	for _, tt := range []struct {
		name   string
		family tokens.Family
		data   []byte
		want   int
	}{
		{"png", tokens.Claude, encode(750, 100, asPNG), 100},
		{"gif", tokens.Claude, encode(750, 100, asGIF), 100},
		{"jpeg", tokens.Claude, small, 100},
		{"jpeg with much before the frame", tokens.Claude, exif, 100},
		{"webp", tokens.Claude, webp("VP8 ", 0, 0, 0, 0x9d, 0x01, 0x2a, 0xee, 0x02, 100, 0), 100},
		{"lossless webp", tokens.Claude, webp("VP8L", 0x2f, 0xed, 0xc2, 0x18, 0), 100},
		{"extended webp", tokens.Claude, webp("VP8X", 0, 0, 0, 0, 0xed, 0x02, 0, 99, 0, 0), 100},
		{"large", tokens.Claude, encode(3000, 3000, asGIF), 1600},
		{"large", tokens.ClaudeX, encode(3000, 3000, asGIF), 4784},
		{"one tile", tokens.O200k, encode(512, 512, asGIF), 255},
		{"four tiles", tokens.O200k, encode(1024, 1024, asGIF), 765},
		{"wide", tokens.Cl100k, encode(4096, 256, asGIF), 85 + 4*170},
		{"small", tokens.Gemini, encode(384, 384, asGIF), 258},
		{"tiles", tokens.Gemini, encode(800, 700, asGIF), 516},
		{"largest", tokens.Default, encode(1024, 1024, asGIF), 1399},
		{"text", tokens.Gemini, []byte("not an image at all, though long enough"), 1200},
		{"nothing", tokens.Gemini, nil, 1200},
		{"no width", tokens.Gemini, []byte("GIF89a\x00\x00\x01\x00"), 1200},
		{"cut", tokens.Gemini, small[:20], 1200},
		{"segment without end", tokens.Gemini, []byte("\xff\xd8\xff\xe1\x00\x00\xff\xe1\x00\x00"), 1200},
	} {
		if got := imageTokens(tt.family, tt.data); got != tt.want {
			t.Errorf("%s, family %d: %d tokens, want %d", tt.name, tt.family, got, tt.want)
		}
	}
}

func FuzzImages(f *testing.F) {
	f.Add("iVBORw0KGgoAAAANSUhEUgAAAu4AAABk")
	f.Add("/9j/4QAA" + strings.Repeat("A", 40))
	f.Add("R0lGODlh7gJkAA==")
	f.Fuzz(func(t *testing.T, data string) {
		for family := range tokens.Cautious + 1 {
			e := tokens.Estimator{Family: family}
			n := e.Count("", nil, message(transcript.ImageBlock{Source: transcript.Source{Type: "base64", Data: data}}))
			if n <= 0 {
				t.Errorf("%d tokens", n)
			}
		}
	})
}
