// Package wiretest is the other side of package wire, for tests: the rules of
// five APIs, and services that speak like them.
//
// Each [API] reads a request with its Decode, which also judges it as strictly as the
// provider does and in the provider's words, and writes answers, streams and errors as
// the provider does; [Check] only judges. [Validate] judges a request before it is
// rendered, by the rules of the Messages API, which shares its blocks with package
// transcript. [ValidateNext] checks that a second request only adds to the first.
//
// The table lists the rules: the name in a [Violation], and the APIs with it, Anthropic
// (A, also [Validate]), Chat Completions (C), Responses (R), Gemini (G) and Bedrock (B).
// The index of a message is the index of the content with Gemini and of the item with
// Responses.
//
//	json             A C R G B  the body is JSON in UTF-8, and an object
//	surrogate        G B        strings have no halves of surrogate pairs; else json
//	body             A          members are there, known, and of their types
//	model            C R        the body has a model
//	missing, type    C R        members are there, and of their types
//	member           all        there are no members that the API does not know
//	messages         A C R B    there is at least one message; contents with G
//	role             all        roles are known; system is one that A takes from some
//	                            models: texts behind a user's message, in front of an
//	                            answer or at the end
//	first-user       A G B      the first message is a user's
//	alternation      A G B      no two neighbours have the same role; with G a content
//	                            of responses is a turn, after which the user may speak
//	prefill          A C G B    the last is a user's, or with A an answer that stopped
//	                            inside a tool of the provider; C with ShortIDs
//	user-after-tool  C          no user is right behind results, with ShortIDs
//	content          A C R B    a message has content, or with C calls; parts with G
//	block-role       A B        a block is in a message that may hold it; part-role
//	                            with G
//	block-type       A          a block is of a known kind and has its members, or is
//	                            an answer's and newer than this; block with B, part
//	                            with C, R and G, item with R
//	text             all        no text is empty, nor blank with A and B; that of a
//	                            result with C and R, and one with a signature, may be
//	missing-result   all        every call has its result, next
//	orphan-result    all        and every result its call, of the same kind with R, of
//	                            the same name, place and ID with G
//	doubled-result   A C R B    and no other result has the same call
//	result-order     A B        results come first in a message
//	mixed            G B        and alone; B for models that want that
//	error-content    A B        a result that is an error has texts only
//	toolset          A          a result names the toolset of its call, if it has one
//	id-unique        A C R B    IDs of calls, and with R of items, are unique
//	id-pattern       A C R      IDs are of A-Z a-z 0-9 _ -, and not empty; id with B
//	id-length        A C R      they have 64 of these at most, 40 with C, nine letters
//	                            and digits with ShortIDs
//	name             all        names of tools are 1 to 64 of them; with C and R also
//	                            name-length and name-pattern
//	input            A C R B    the input of a call is an object, in a string with C and
//	                            R, without halves of characters; args with G
//	calls            C          an answer has at most 128 calls
//	server-tool      A          a call that the provider runs and its result are in one
//	                            message, in this order, or code waits in between for
//	                            results of the client, which are alone
//	container        A          the request names the container of code that waits
//	thinking         A B        reasoning is signed, or has data
//	thinking-order   A B        it is not the end of a message, nor with B behind calls,
//	                            and is the start of the last answer with calls if the
//	                            request demands it; thinking with A
//	reasoning        C R        every answer with calls has some, with Reasoning; with R
//	                            an item of its answer follows it, and it is encrypted
//	                            unless the provider stores it
//	signature        G          the first call of an answer of the running turn is
//	                            signed, or another part; signatures are base64
//	source           A C R      an image or a file names its source, and its bytes begin
//	                            as its media type does; media with G and B
//	image            A          an image has at most 5 MB of base64 and 8,000 pixels on a
//	                            side, 2,000 with more than 20; media with B, but 2,000
//	document-name    B          names are 1 to 200 of A-Z a-z 0-9 - ( ) [ ] and single
//	                            spaces, and unique in the request
//	document-text    B          there is a text beside a document
//	media-count      A C R G B  at most 5 documents and 20 images with B, 100 images with
//	                            A and a window of 200,000 tokens, else 600; 1,500 with
//	                            C and R, 3,600 with G
//	marks            A          at most four cache marks, none on an empty text;
//	                            cache-points with B
//	tools            all        definitions have unique names and a schema; with C and R
//	                            there are at most 128
//	tool-config      B          tools are defined if there are calls or results
//	system           A B        the system prompt is not white space
//	max-tokens       all        an output limit is positive, the only one, and above the
//	                            thinking budget
//
// Nothing here shares code with the fold, the renderers and the readers, so each
// tests the other. No running program imports this package; package
// guard/guardtest makes a model of it that agents can be run against.
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
	Message int    // index of the message, -1 if it is about none
	Block   int    // index in the message's content, -1 if it is about none
	Text    string // in the provider's own words where they are known
}

// String returns the rule and the text.
func (v Violation) String() string { return v.Rule + ": " + v.Text }

// A Request is the readable part of the body of a request.
type Request struct {
	transcript.Request
	// Stream is set if a stream is wanted.
	Stream bool
	// HasTools is set if it defines tools, the provider's own included.
	HasTools bool
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

// want flags a rule unless ok, which it returns.
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

// say adds blocks to the messages. Blocks of one role that follow each other are
// one message.
func (j *judge) say(role transcript.Role, blocks ...transcript.Block) {
	if n := len(j.req.Messages); n > 0 && j.req.Messages[n-1].Role == role {
		j.req.Messages[n-1].Content = append(j.req.Messages[n-1].Content, blocks...)
		return
	}
	j.req.Messages = append(j.req.Messages, transcript.Message{Role: role, Content: blocks})
}

func isJSON(body []byte) bool { return json.Valid(body) && utf8.Valid(body) }

// tree decodes a body into maps, lists and plain values; numbers keep their
// spelling. It returns nil for other values than objects.
func tree(body []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v map[string]any
	if !isJSON(body) || d.Decode(&v) != nil {
		return nil
	}
	return v
}

// as returns v if it is of a type, else nothing of it.
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

// integer returns a number, and whether v is one that is an integer.
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

// isGiven reports whether a member is there, and not null.
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

// escapes matches escaped characters of JSON: a pair of surrogates, the first half of one
// alone, the second alone, and any other.
var escapes = lazy.New(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89abAB]..)|(u[dD][c-fC-F]..)|.)`)

// halfSurrogate looks in valid JSON for an escaped half of a surrogate pair,
// which is not a character. It returns the offset of the first and Anthropic's
// complaint, or -1.
func halfSurrogate(body []byte) (at int, text string) {
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
