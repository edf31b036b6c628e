package wiretest

import (
	"encoding/base64"

	"github.com/convolog/convolog/internal/lazy"
)

// magic matches how bytes of a media type begin, by the definition of
// each format.
var magic = map[string]*lazy.Regexp{
	"image/png":       lazy.New(`^\x89PNG\r\n\x1a\n`),
	"image/jpeg":      lazy.New(`^\xff\xd8\xff`),
	"image/gif":       lazy.New(`^GIF8[79]a`),
	"image/webp":      lazy.New(`(?s)^RIFF....WEBP`),
	"application/pdf": lazy.New(`^%PDF-`),
}

// begins reports whether base64 holds bytes of a media type: a provider decodes them,
// and refuses a document under another name. Bytes of other types are not looked at.
func begins(media, data string) bool {
	re := magic[media]
	if re == nil {
		return true
	}
	head, _ := base64.StdEncoding.DecodeString(data[:min(len(data), 32)/4*4])
	runes := make([]rune, len(head)) // an expression matches characters: one for each byte
	for i, b := range head {
		runes[i] = rune(b)
	}
	return re.Get().MatchString(string(runes))
}
