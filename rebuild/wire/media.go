package wire

import "github.com/convolog/convolog/transcript"

// What a request to Converse may have.
const (
	maxDocuments = 5
	maxImages    = 20
)

// What a request to the Messages API may have, in bytes of JSON: the API counts
// an image as the base64 that it gets.
const (
	maxImageBytes = 5 << 20
	maxBody       = 32 << 20
)

// A mediaBudget says how much is still to be left out: what comes first.
type mediaBudget struct{ documents, images, bytes int }

// countMedia counts how many documents and images are too many for Converse.
func countMedia(messages []transcript.Message) (excess mediaBudget) {
	var walk func(content []transcript.Block)
	walk = func(content []transcript.Block) {
		for _, b := range content {
			switch b := b.(type) {
			case transcript.DocumentBlock:
				excess.documents++
			case transcript.ImageBlock:
				excess.images++
			case transcript.ToolResultBlock:
				walk(b.Content)
			}
		}
	}
	for _, m := range messages {
		if m.Role == transcript.RoleUser {
			walk(m.Content)
		}
	}
	return mediaBudget{documents: max(excess.documents-maxDocuments, 0), images: max(excess.images-maxImages, 0)}
}

// take reports whether the next image or document is one of those too many.
func (m *mediaBudget) take(b transcript.Block) bool {
	n := &m.images
	if _, ok := b.(transcript.DocumentBlock); ok {
		n = &m.documents
	}
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// takeBytes says what is wrong with the next image or document by its bytes,
// nothing if it can go out.
func (m *mediaBudget) takeBytes(source transcript.Source, kind string) string {
	switch n := len(source.Data); {
	case kind == "image" && n > maxImageBytes:
		return "more than 5 MB"
	case m.bytes > 0 && n > 0:
		m.bytes -= n
		return "the request has more than 32 MB"
	}
	return ""
}
