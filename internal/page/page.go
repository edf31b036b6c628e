// Package page contains the web page that shows sessions: one file of HTML, CSS and
// JavaScript that loads no other file. Package serve serves the page. With a session inside
// it, the page is an export that opens offline.
package page

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"sync"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Decisions:
//
// An export is the served page with a session inside it as JSON. The script turns texts
// into text nodes, never into HTML, and the policy names the script by its hash, so no text
// of a conversation can run. After a reload the page follows from shortly before the end;
// it recognises messages that it already shows by their entry IDs.

//go:embed page.html
var file []byte

// Marks in the file at which an export differs.
const (
	policyMark = "<!-- policy -->"
	dataMark   = `<script type="application/json" id="data">`
)

// Live returns the page, which must not be modified.
func Live() []byte { return file }

// Policy returns the content security policy of the page. It allows only the style and the
// script of the file, by their hashes, and images in data URLs. connect lists the sources
// to which the script may connect; empty allows none.
func Policy(connect string) string {
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; " + hashes()
	if connect != "" {
		policy += "; connect-src " + connect
	}
	return policy
}

var hashes = sync.OnceValue(func() string {
	hash := func(open, end string) string {
		_, rest, _ := bytes.Cut(file, []byte(open))
		inner, _, _ := bytes.Cut(rest, []byte(end))
		sum := sha256.Sum256(inner)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "style-src " + hash("<style>", "</style>") + "; script-src " + hash("<script>", "</script>")
})

// Write writes the page with a session inside it.
func Write(w io.Writer, info session.Info, c Context, entries iter.Seq2[transcript.Entry, error]) error {
	front, back, _ := bytes.Cut(file, []byte(dataMark))
	policy := []byte(`<meta http-equiv="Content-Security-Policy" content="` + Policy("") + `">`)
	out := bufio.NewWriter(w)
	_, _ = out.Write(bytes.Replace(front, []byte(policyMark), policy, 1))
	_, _ = out.WriteString(dataMark)
	// Marshal escapes <, so that no text ends the script element.
	head, err := json.Marshal(map[string]any{"info": info, "context": c})
	if err != nil {
		return err
	}
	_, _ = out.Write(bytes.TrimSuffix(head, []byte("}")))
	_, _ = out.WriteString(`,"entries":[`)
	separator := "\n"
	for e, err := range entries {
		if err != nil {
			return err
		}
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, _ = out.WriteString(separator)
		_, _ = out.Write(line)
		separator = ",\n"
	}
	_, _ = out.WriteString("]}")
	_, _ = out.Write(back)
	return out.Flush() // returns the first error of all writes
}
