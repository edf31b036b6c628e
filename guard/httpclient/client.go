package httpclient

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

// A Client calls one service. It is a [guard.Client]. Set its fields before the first
// call; then several goroutines may use it.
type Client struct {
	// Format renders requests and reads answers: a Format of package wire. An answer
	// is a stream if it begins like one, whatever its media type. Any other is read
	// whole: it ends with its JSON value. A call without a Format fails.
	Format Format
	// URL receives the requests. Its query, user name and password are secret like
	// Header.
	URL string
	// Header goes into each request. Errors never contain its secrets: values of 12
	// bytes or more.
	Header http.Header
	// Model and MaxOutput (tokens) are for requests that leave them empty.
	Model     string
	MaxOutput int
	// HTTP sends the requests. Nil means [http.DefaultClient].
	HTTP *http.Client
	// Attempts is the number of times to send a request; 0 means 4, and 1 never repeats.
	Attempts int
	// MaxWait is the longest wait before an attempt; 0 means a minute. If the service
	// asks for a longer one, the client returns the refusal at once.
	MaxWait time.Duration
	// MaxAnswer limits the bytes of an answer; 0 or less means 64 MiB.
	MaxAnswer int64
}

// Format is the form of an API. The types Format of package wire implement it.
type Format interface {
	// Request renders the body of a call.
	Request(req transcript.Request) (body []byte, report rebuild.Report, err error)
	// Response reads a whole answer.
	Response(body []byte) (*transcript.Response, error)
	// NewStream returns a reader of a streamed answer.
	NewStream() wire.Stream
}

// Messages returns a client for the Messages API, streamed. The base URL lacks the
// version: "https://api.anthropic.com" for example.
func Messages(baseURL, key string) *Client {
	c := &Client{Format: anthropic.Format{Stream: true}, URL: strings.TrimSuffix(baseURL, "/") + "/v1/messages"}
	c.Header = http.Header{"Anthropic-Version": {"2023-06-01"}}
	if key != "" { // local services need none
		c.Header.Set("X-Api-Key", key)
	}
	return c
}

// Chat returns a client for Chat Completions, streamed. The base URL includes the
// version: "https://api.openai.com/v1" for example. For a service with a dialect, set
// the Format.
func Chat(baseURL, key string) *Client {
	c := &Client{Format: openaichat.Format{Stream: true}, URL: strings.TrimSuffix(baseURL, "/") + "/chat/completions"}
	if c.Header = (http.Header{}); key != "" {
		c.Header.Set("Authorization", "Bearer "+key)
	}
	return c
}

// Complete implements [guard.Client].
func (c *Client) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	return c.Stream(ctx, req, func(wire.Delta) {})
}

// Stream is like Complete, and calls show for each piece of the answer. An answer that
// is not streamed is one piece. With a nil error the answer is complete. If ctx, the
// network or the limit of its size cuts the answer, Stream returns the received part
// with the error. If no part was received, the answer is nil. A failure after the end of
// the answer is ignored. A refusal is a [*wire.APIError], which [guard.Classify]
// understands.
func (c *Client) Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	if c.Format == nil {
		return nil, errors.New("httpclient: Client.Format is nil")
	}
	req.Model, req.MaxOutput = cmp.Or(req.Model, c.Model), cmp.Or(req.MaxOutput, c.MaxOutput)
	body, _, err := c.Format.Request(req)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		a := attempt{c: c, show: show}
		answer, err := a.run(ctx, body)
		again := err != nil && answer == nil && !a.shown && n < cmp.Or(c.Attempts, 4) && ctx.Err() == nil && passes(err)
		if again && wait(ctx, n, a.header.Get("Retry-After"), cmp.Or(c.MaxWait, time.Minute)) {
			continue
		}
		if err == nil {
			return answer, nil
		}
		err = secretsOf(c.URL, c.Header).redact(err)
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = errors.Join(ctx.Err(), err)
		}
		return answer, err
	}
}

// An attempt sends a request once.
type attempt struct {
	c      *Client
	show   func(wire.Delta)
	shown  bool        // a piece of the answer was shown
	header http.Header // of the answer
}

func (a *attempt) run(ctx context.Context, body []byte) (*transcript.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, a.c.Header)
	req.Header.Set("Content-Type", "application/json")
	client := *cmp.Or(a.c.HTTP, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	switch {
	case err == nil:
	case isCut(err):
		return nil, &cutError{err}
	default:
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	a.header = resp.Header
	id := cmp.Or(a.header.Get("Request-Id"), a.header.Get("X-Request-Id"))
	if resp.StatusCode != http.StatusOK {
		defer closeAfter(resp.Body, patience).Stop()
		text, _ := readValue(io.LimitReader(resp.Body, 1<<20), resp.Body) // even a cut one has a status
		drain(resp.Body)
		refusal := wire.NewAPIError(resp.StatusCode, text)
		refusal.RequestID = cmp.Or(refusal.RequestID, id)
		return nil, refusal
	}
	answer, err := a.read(bufio.NewReader(&reader{ctx: ctx, r: resp.Body, left: cmp.Or(max(a.c.MaxAnswer, 0), 64<<20)}), resp.Body)
	if answer != nil {
		answer.RequestID = cmp.Or(id, answer.RequestID)
	}
	if err == nil {
		drain(resp.Body)
	}
	return answer, err
}

// drain reads the end of a body, because a connection is only used again after it. A
// server that does not end its body soon loses the connection.
func drain(body io.ReadCloser) {
	defer closeAfter(body, 100*time.Millisecond).Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// closeAfter closes a body, and so ends its reads, unless the timer is stopped before.
func closeAfter(body io.Closer, d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() { _ = body.Close() })
}

// read reads an answer. With an error it returns the part so far, or nil without any.
func (a *attempt) read(body *bufio.Reader, closer io.Closer) (*transcript.Response, error) {
	if isWhole(body, a.header.Get("Content-Type")) {
		return a.readWhole(body, closer)
	}
	stream := a.c.Format.NewStream()
	var invalid error // an event, not the connection
	err := wire.ReadSSE(body, func(event []byte) error {
		var d wire.Delta
		if d, invalid = stream.Add(event); invalid == nil && d != (wire.Delta{}) {
			a.shown = true
			a.show(d)
		}
		return invalid
	})
	answer := stream.Response()
	switch {
	case invalid != nil:
	case answer.StopReason != transcript.StopAborted:
		err = nil
	case err == nil:
		err = &cutError{io.ErrUnexpectedEOF}
	}
	if err != nil && len(answer.Message.Content) == 0 {
		return nil, err
	}
	return answer, err
}

// fields begin a stream of server-sent events.
var fields = []string{"data:", "event", "id:", "retry", "\uFEFF"}

// isWhole reports whether a body is not a stream. Some services name another media type,
// or none: no stream begins like JSON or HTML, and an undeclared one begins with a field.
func isWhole(body *bufio.Reader, media string) bool {
	for n := 0; ; n++ {
		begin, err := body.Peek(n + 1)
		switch {
		case err != nil:
			return false
		case strings.ContainsRune(" \t\r\n", rune(begin[n])):
		case strings.ContainsRune("{[<", rune(begin[n])):
			return true
		case begin[n] == ':' || strings.Contains(media, "event-stream"):
			return false
		default:
			begin, _ = body.Peek(n + len("data:")) // fewer at the end of the body
			return !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(string(begin[n:]), f) })
		}
	}
}

// patience limits the wait for a body that can contain only the text of an error.
const patience = 5 * time.Second

// readValue reads the JSON object or array that begins a body, without the bytes after
// it: some servers keep the connection open. It reads any other body up to its end, or
// until patience ends, and returns the received part. The error is the reader's.
func readValue(body io.Reader, closer io.Closer) ([]byte, error) {
	values := json.NewDecoder(body)
	var value json.RawMessage
	err := values.Decode(&value)
	if err == nil && strings.ContainsRune("{[", rune(value[0])) {
		return value, nil
	}
	defer closeAfter(closer, patience).Stop()
	text, _ := io.ReadAll(io.MultiReader(bytes.NewReader(value), values.Buffered(), body)) // "404 page not found" begins with a value
	_, invalid := errors.AsType[*json.SyntaxError](err)
	if invalid || err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // a cutError wraps them
		err = nil
	}
	return text, err
}

func (a *attempt) readWhole(body io.Reader, closer io.Closer) (*transcript.Response, error) {
	text, err := readValue(body, closer)
	if err != nil {
		return nil, err
	}
	answer, err := a.c.Format.Response(text)
	if err == nil {
		a.show(wire.Delta{Text: answer.Message.Text(), Done: true})
	}
	return answer, err
}

// A reader reads an answer up to a limit. Its errors but io.EOF are a cutError, or the
// error of the context or the limit.
type reader struct {
	ctx  context.Context //nolint:containedctx // of the request
	r    io.Reader
	left int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p[:min(int64(len(p)), r.left+1)])
	r.left -= int64(n)
	switch {
	case r.left < 0:
		return 0, errors.New("the answer is larger than MaxAnswer")
	case err == nil, errors.Is(err, io.EOF):
	case r.ctx.Err() != nil:
		err = r.ctx.Err()
	default:
		err = &cutError{err}
	}
	return n, err
}
