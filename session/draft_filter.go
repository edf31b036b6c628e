package session

import (
	"context"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// probe is a line that belongs to a secret if one has begun before it.
const probe = "q7Zr2Xk9Tb4Wm1\n"

// settled returns the text of a draft that can be flushed, as it is and as it is
// written. The cut is where no secret can span it: at the end of a line, behind which a
// further line is filtered as it would be alone. The append reports errors of filters.
func (d *Draft) settled(ctx context.Context) (text, written string) {
	s := d.turn.s
	if !slices.ContainsFunc(s.store.opts.Filters, func(f Filter) bool { return f.Write != nil }) {
		return d.part.Text, d.part.Text
	}
	end := strings.LastIndexByte(d.part.Text, '\n') + 1
	if end == d.tried {
		return "", ""
	}
	filtered := func(text string) string {
		b, err := filterBody(ctx, s, transcript.Draft{Key: d.part.Key, Text: text})
		if err != nil {
			return text
		}
		return b.Text
	}
	text = d.part.Text[:end]
	if written = filtered(text); filtered(text+probe) != written+filtered(probe) {
		d.tried = end
		return "", ""
	}
	return text, written
}
