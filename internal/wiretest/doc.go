// Package wiretest is the other side of package wire, for tests: the rules of
// five APIs, and services that imitate them.
//
// Each [API] reads a request with its Decode, which also judges it as strictly as the
// provider does and in the provider's words, and writes answers, streams and errors as
// the provider does; [Check] only judges. [Validate] judges a request before it is
// rendered, by the rules of the Messages API, which shares its blocks with package
// transcript. [ValidateNext] checks that a second request only adds to the first.
//
// The table lists the rules: the name in a [Violation], and the APIs that check it,
// Anthropic (A, also [Validate]), Chat Completions (C), Responses (R), Gemini (G) and
// Bedrock (B). The index of a message is the index of the content with Gemini and of the
// item with Responses.
//
//	json             A C R G B  the body is JSON in UTF-8, and an object
//	surrogate        G B        strings have no halves of surrogate pairs; else json
//	body             A          members are present, known, and well typed
//	model            C R        the body has a model
//	missing, type    C R        members are present and well typed
//	member           all        the API knows every member
//	messages         A C R B    there is at least one message; contents with G
//	role             all        roles are known; A takes the role system for some models:
//	                            texts after a user's message, before an answer or at the
//	                            end
//	first-user       A G B      the first message is a user's
//	alternation      A G B      no two neighbours have the same role; with G a content
//	                            of responses is a turn that a user turn may follow
//	prefill          A C G B    the last message is a user's, or with A an answer that
//	                            stopped inside a provider's tool; C with ShortIDs
//	user-after-tool  C          with ShortIDs, no user's message follows results directly
//	content          A C R B    a message has content, or with C calls; parts with G
//	block-role       A B        a block is in a message that may hold it; part-role
//	                            with G
//	block-type       A          a block is of a known kind with the right members, or in
//	                            an answer of a new kind; block with B, part with C, R
//	                            and G, item with R
//	text             all        no text is empty, nor blank with A and B; exceptions: in
//	                            a result with C and R, and with a signature
//	missing-result   all        every call is followed by its result
//	orphan-result    all        every result has its call, of the same kind with R, of
//	                            the same name, place and ID with G
//	doubled-result   A C R B    no two results have the same call
//	result-order     A B        results come first in a message
//	mixed            G B        results are alone; B for models that want that
//	error-content    A B        a result that is an error has texts only
//	toolset          A          a result names the toolset of its call, if any
//	id-unique        A C R B    IDs of calls, and with R of items, are unique
//	id-pattern       A C R      IDs are of A-Z a-z 0-9 _ -, and not empty; id with B
//	id-length        A C R      IDs have at most 64 of these, 40 with C; with ShortIDs
//	                            they are nine letters and digits
//	name             all        names of tools are 1 to 64 of these; with C and R also
//	                            name-length and name-pattern
//	input            A C R B    the input of a call is an object, in a string with C and
//	                            R, without halves of surrogates; args with G
//	calls            C          an answer has at most 128 calls
//	server-tool      A          a call that the provider runs and its result are in one
//	                            message, in this order, or code waits between them for
//	                            the client's results, which are alone
//	container        A          the request names the container of code that waits
//	thinking         A B        reasoning is signed, or has data
//	thinking-order   A B        reasoning does not end a message, nor with B follow calls,
//	                            and begins the last answer with calls if the request
//	                            demands it; thinking with A
//	reasoning        C R        with Reasoning, every answer with calls has some; with R
//	                            an item of its answer follows it, and it is encrypted
//	                            unless the provider stores it
//	signature        G          an answer of the running turn with calls has a signed
//	                            part; signatures are base64
//	source           A C R      an image or a file names its source, and its bytes match
//	                            its media type; media with G and B
//	image            A          an image has at most 5 MB of base64 and 8,000 pixels on a
//	                            side, 2,000 with more than 20; media with B, not 2,000
//	document-name    B          names are 1 to 200 of A-Z a-z 0-9 - ( ) [ ] and single
//	                            spaces, and unique in the request
//	document-text    B          there is a text with a document
//	media-count      A C R G B  at most 5 documents and 20 images with B; 100 images with
//	                            A and a window of 200,000 tokens, else 600; 1,500
//	                            with C and R, 3,600 with G
//	marks            A          at most four cache marks, none on an empty text;
//	                            cache-points with B
//	tools            all        definitions have unique names and a schema; with C and R
//	                            there are at most 128
//	tool-config      B          tools are defined if there are calls or results
//	system           A B        the system prompt is not blank
//	max-tokens       all        an output limit is positive, the only one, and above the
//	                            thinking budget
//
// This package shares no code with the fold, the renderers and the readers, so
// each side tests the other. No running program imports it; package
// guard/guardtest builds a model on it to run agents against.
package wiretest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Violation is one rule that a request breaks.
type Violation struct {
	Rule    string // its name in the table of the package
	Message int    // index of the message, -1 if not about one
	Block   int    // index in the message's content, -1 if not about one
	Text    string // in the provider's own words, if known
}

// String returns the rule and the text.
func (v Violation) String() string { return v.Rule + ": " + v.Text }

// A Request is the readable part of the body of a request.
type Request struct {
	transcript.Request
	// Stream is set if it asks for a stream.
	Stream bool
}

// A judge collects the rules that a request breaks, while the request is read.
type judge struct {
	req   Request
	found []Violation
	seen  map[[2]string]bool // kinds and IDs
}

func (j *judge) flag(rule string, message, block int, format string, args ...any) {
	j.found = append(j.found, Violation{rule, message, block, fmt.Sprintf(format, args...)})
}

// want flags a violation unless ok, and returns ok.
func (j *judge) want(ok bool, rule string, message, block int, format string, args ...any) bool {
	if !ok {
		j.flag(rule, message, block, format, args...)
	}
	return ok
}

// fresh reports whether an ID is the first of its kind.
func (j *judge) fresh(kind, id string) bool {
	if j.seen == nil {
		j.seen = map[[2]string]bool{}
	}
	seen := j.seen[[2]string{kind, id}]
	j.seen[[2]string{kind, id}] = true
	return !seen
}

// say adds blocks to the messages. Successive blocks of one role form one
// message.
func (j *judge) say(role transcript.Role, blocks ...transcript.Block) {
	if n := len(j.req.Messages); n > 0 && j.req.Messages[n-1].Role == role {
		j.req.Messages[n-1].Content = append(j.req.Messages[n-1].Content, blocks...)
		return
	}
	j.req.Messages = append(j.req.Messages, transcript.Message{Role: role, Content: blocks})
}

func isJSON(body []byte) bool { return json.Valid(body) && utf8.Valid(body) }

// tree decodes a body into maps, lists and plain values; numbers keep their
// spelling. It returns nil for any value but an object.
func tree(body []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v map[string]any
	if !isJSON(body) || d.Decode(&v) != nil {
		return nil
	}
	return v
}

// as returns v if it is of type T, else a zero T.
func as[T any](v any) T {
	t, _ := v.(T)
	return t
}

func object(v any) map[string]any { return as[map[string]any](v) }
func list(v any) []any            { return as[[]any](v) }
func text(v any) string           { return as[string](v) }

func texts(v any) string {
	var said strings.Builder
	for _, e := range list(v) {
		said.WriteString(text(object(e)["text"]))
	}
	return said.String()
}

// integer returns v as an int, and whether v is an integer.
func integer(v any) (int, bool) {
	n, _ := v.(json.Number)
	i, err := strconv.Atoi(n.String())
	return i, err == nil
}

// unknown returns the names of the members of obj that are not among known.
func unknown[V any](obj map[string]V, known ...string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(obj)), func(name string) bool { return slices.Contains(known, name) })
}

func members(value json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	err := json.Unmarshal(value, &m)
	return m, err == nil && m != nil && utf8.Valid(value)
}

// isGiven reports whether a member is present and not null.
func isGiven(value json.RawMessage) bool {
	value = bytes.Trim(value, " \t\r\n")
	return len(value) > 0 && string(value) != "null"
}

// jsonText returns the text of a JSON string, or "" for another value.
func jsonText(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s)
	return s
}

// isBytes reports whether s is base64 of at least one byte.
func isBytes(s string) bool {
	if s == "" || strings.ContainsAny(s, "\r\n") {
		return false
	}
	if _, err := base64.StdEncoding.DecodeString(s); err == nil {
		return true
	}
	_, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil
}

// escapes matches escaped characters of JSON: a pair of surrogates, a first half alone, a
// second half alone, and any other.
var escapes = lazy.New(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89abAB]..)|(u[dD][c-fC-F]..)|.)`)

// halfSurrogate looks in valid JSON for an escaped half of a surrogate pair,
// which is not a character. It returns the offset of the first half and
// Anthropic's complaint, or -1.
func halfSurrogate(body []byte) (at int, text string) {
	if !bytes.Contains(body, []byte(`\ud`)) && !bytes.Contains(body, []byte(`\uD`)) {
		return -1, "" // as in nearly every body
	}
	for _, m := range escapes.Get().FindAllSubmatchIndex(body, -1) {
		switch {
		case m[2] >= 0:
			return m[0], "no low surrogate in string"
		case m[4] >= 0:
			return m[0], "invalid high surrogate in string"
		}
	}
	return -1, ""
}
