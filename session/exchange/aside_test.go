package exchange_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Every message of a file is a message of the session or is reported as set
// aside: none is missing between the file and the report.
func TestImportCountsMessages(t *testing.T) {
	for _, dir := range []string{samples + "reports", samples + "claude-code"} {
		st := inMemory()
		aside := map[string]int{} // messages of helpers, by the file of their session
		for _, im := range importAll(t, st, sessionsIn(t, os.DirFS(dir)), nil) {
			data, err := os.ReadFile(dir + "/" + im.Source.Path)
			require.NoError(t, err)
			before := 0
			for line := range strings.Lines(string(data)) {
				var row struct {
					Type       string
					Message    *struct{}
					Attachment struct{ Type string }
				}
				require.NoError(t, json.Unmarshal([]byte(line), &row))
				if row.Message != nil || row.Attachment.Type == "queued_command" {
					before++
				}
			}
			after := im.Source.Messages + im.Source.Compactions
			for _, name := range []string{"branch", "sidechain", "repeat", "omitted", "excluded"} {
				after += im.Source.Asides[name]
			}
			if sides, session := aside[im.Source.Path]; session { // set aside there, and all of it in helpers
				aside[im.Source.Path] = sides - im.Source.Messages
			} else {
				aside[im.Source.Path] = im.Source.Asides["sidechain"]
				require.Equal(t, before, after, "%s: %v", im.Source.Path, im.Source.Asides)
			}
			stored := 0
			for rec, err := range st.Scan(t.Context(), im.Session, session.ScanOptions{}) {
				require.NoError(t, err)
				if _, ok := rec.Entry.Body.(transcript.MessageLine); ok {
					stored++
				}
			}
			require.Equal(t, im.Source.Messages, stored, im.Source.Path)
			delete(im.Lost, "time")  // of rows about the file
			delete(im.Lost, "usage") // the files share requests
			require.Empty(t, im.Lost, "%s: %v", im.Source.Path, im.Lost)
		}
		for file, left := range aside {
			require.Zero(t, left, file)
		}
	}
}
