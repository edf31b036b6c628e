package dialect

import (
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// aside is a record that no model is shown. The package doc lists the names.
func aside(name string) transcript.Body { return fields.Aside(name) }

func setAside(made []transcript.Entry, name string) []transcript.Entry {
	return fields.SetAside(made, name)
}
