package guardtest

import (
	"github.com/convolog/convolog/internal/lazy"
)

// parts holds patterns for parts of a body, for all APIs, by the names that package
// guard gives refused parts.
var parts = map[string]*lazy.Regexp{
	"image":     lazy.New(`"type":"(?:image|image_url|input_image)"|"mimeType":"image/|"image":\{"format"`),
	"document":  lazy.New(`"type":"(?:document|file|input_file)"|"mimeType":"application/pdf|"document":\{"format"`),
	"reasoning": lazy.New(`"type":"(?:redacted_)?thinking"|"encrypted_content":"|"thought":true|"thoughtSignature":"[^s]|"reasoningContent":|"reasoning_content":"[^"]`),
	"parts":     lazy.New(`"role":"(?:user|tool|system)"[^{}]*"content":\[`),
	"call-ids":  lazy.New(`"function(?:Call|Response)":\{"id":`),
}

// Holds returns a condition for [When]: the body of the request holds a part that
// services refuse. The name is image, document, images (either), reasoning, parts
// (content that is not a string) or call-ids, as in guard.Overflow. Another name never
// matches. A model without images, for example, is
//
//	guardtest.When(guardtest.Holds("image"), guardtest.Always(guardtest.Fail(400,
//		"invalid_request_error", "This model does not support images.")), nil)
//
// To refuse a part for one model or one endpoint only, combine the condition with one
// of your own about the Model or the Host of the [Request].
func Holds(part string) func(Request) bool {
	return func(r Request) bool {
		if part == "images" || part == "media" {
			return Holds("image")(r) || Holds("document")(r)
		}
		re := parts[part]
		return re != nil && re.Get().Match(r.Body)
	}
}
