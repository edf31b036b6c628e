package exchange

import (
	"context"
	"io"
	"slices"

	"github.com/convolog/convolog/internal/page"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// HTML writes the session as one file for a browser: the page of package serve with
// the session inside of it. It opens offline, loads nothing and runs only its own
// script, which the policy in the file allows by its hash: all content is shown as
// text. It shows the same as [Markdown], and images.
func HTML(ctx context.Context, s *session.Session, w io.Writer) (err error) {
	defer audit(ctx, s, &err)
	entries, _, err := conversation(ctx, s)
	if err != nil {
		return err
	}
	info, err := redactedInfo(ctx, s)
	if err != nil {
		return err
	}
	fills, err := page.Of(ctx, s)
	if err != nil {
		return err
	}
	return failed(s, page.Write(w, info, fills, exported(ctx, s, slices.DeleteFunc(entries, func(e transcript.Entry) bool {
		switch e.Body.(type) {
		case transcript.MessageLine, transcript.Compaction, transcript.System, transcript.Tools:
			return false
		}
		return true
	}))))
}
