package transcript

import "slices"

// Form is a form or kind of content that a service may not take.
type Form string

// The forms.
const (
	Images     Form = "images"     // a note replaces each
	Documents  Form = "documents"  // a note replaces each
	Parts      Form = "parts"      // of Chat Completions: content is a string
	Signatures Form = "signatures" // of the Messages API: unsigned reasoning goes back
	CallIDs    Form = "call-ids"   // of Gemini: calls and results without IDs
)

// Takes are the limits of a service beyond the rules of its API. The zero value takes
// all that the API does; a number of 0 leaves it unlimited.
type Takes struct {
	Without   []Form
	Images    int // in a request
	Documents int // in a request
	Side      int // of an image, in pixels
	// ManySide replaces Side in a request with more than Many images.
	Many, ManySide int
	Messages       int // in a request
}

// And combines the limits of both.
func (t Takes) And(u Takes) Takes {
	least := func(a, b int) int {
		if a <= 0 || b > 0 && b < a {
			return max(b, 0)
		}
		return a
	}
	if u.ManySide > 0 && (t.ManySide <= 0 || u.ManySide < t.ManySide) {
		t.Many, t.ManySide = u.Many, u.ManySide
	}
	t.Without = union(t.Without, u.Without)
	t.Documents = least(t.Documents, u.Documents)
	t.Images, t.Side, t.Messages = least(t.Images, u.Images), least(t.Side, u.Side), least(t.Messages, u.Messages)
	return t
}

// Has reports whether the service takes a form.
func (t Takes) Has(f Form) bool { return !slices.Contains(t.Without, f) }

// union returns the items of both lists; later ones that are empty and not nil
// take back the earlier ones.
func union[T comparable](earlier, later []T) []T {
	if later != nil && len(later) == 0 {
		return nil
	}
	all := slices.Clip(earlier)
	for _, item := range later {
		if !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}
