package wiretest

import (
	"encoding/base64"
	"encoding/binary"
	"image/jpeg"
	"iter"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// magic matches the beginnings of media types, by the definition of each
// format.
var magic = map[string]*lazy.Regexp{
	"image/png":       lazy.New(`^\x89PNG\r\n\x1a\n`),
	"image/jpeg":      lazy.New(`^\xff\xd8\xff`),
	"image/gif":       lazy.New(`^GIF8[79]a`),
	"image/webp":      lazy.New(`(?s)^RIFF....WEBP`),
	"application/pdf": lazy.New(`^%PDF-`),
}

// begins reports whether base64 holds bytes of a media type: a provider decodes them,
// and refuses a document under another name. Types outside of magic are not checked.
func begins(media, data string) bool {
	re := magic[media]
	if re == nil {
		return true
	}
	head, _ := base64.StdEncoding.DecodeString(data[:min(len(data), 32)/4*4])
	runes := make([]rune, len(head)) // expressions match characters: one for each byte
	for i, b := range head {
		runes[i] = rune(b)
	}
	return re.Get().MatchString(string(runes))
}

// sideOf is the longest side in pixels of a PNG, GIF or JPEG in base64, by the definition
// of each format; 0 for other bytes.
func sideOf(data string) int {
	head, _ := base64.StdEncoding.DecodeString(data[:min(len(data), 32)/4*4])
	switch {
	case len(head) < 24:
	case string(head[:4]) == "\x89PNG":
		return int(max(binary.BigEndian.Uint32(head[16:]), binary.BigEndian.Uint32(head[20:])))
	case string(head[:4]) == "GIF8":
		return int(max(binary.LittleEndian.Uint16(head[6:]), binary.LittleEndian.Uint16(head[8:])))
	case string(head[:3]) == "\xff\xd8\xff":
		c, _ := jpeg.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
		return max(c.Width, c.Height)
	}
	return 0
}

// images lists the images of a request, also in results, with their base64.
func (j *judge) images() iter.Seq2[place, string] {
	return func(yield func(place, string) bool) {
		for i, m := range j.req.Messages {
			for k, b := range m.Content {
				all, inner := []transcript.Block{b}, -1
				if res, ok := b.(transcript.ToolResultBlock); ok {
					all, inner = res.Content, 0
				}
				for n, b := range all {
					if image, ok := b.(transcript.ImageBlock); ok && !yield(place{i, k, inner + n}, image.Source.Data) {
						return
					}
				}
			}
		}
	}
}

// count flags a request with too many images; text takes two numbers.
func (j *judge) count(most int, text string) {
	n := 0
	for range j.images() {
		n++
	}
	j.want(n <= most, "media-count", -1, -1, text, n, most)
}
