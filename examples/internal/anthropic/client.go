// Package anthropic calls an Anthropic-compatible Messages API with only net/http:
// no more is needed to use your own model.
package anthropic

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// Client is a guard.Client, so that the model can also write summaries.
type Client struct {
	URL    string // base URL; "/v1/messages" is added
	APIKey string
	HTTP   *http.Client
}

// Format renders the requests of a [Client].
var Format = anthropic.Format{Stream: true}

const (
	apiVersion = "2023-06-01"
	maxError   = 1 << 20 // most bytes read of an error body
	attempts   = 3
)

// Complete is Stream for a caller that shows no text: a summarizer.
func (c *Client) Complete(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	return c.Stream(ctx, req, func(wire.Delta) {})
}

// Stream asks the model and calls show for each piece of its answer. If ctx or
// the network cuts the stream, it returns the answer so far with the error. A
// refusal is a *wire.APIError, in which the guard recognises an overflow.
func (c *Client) Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	body, _, err := Format.Request(req)
	if err != nil {
		return nil, err
	}
	resp, err := c.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read

	parts := Format.NewStream()
	err = wire.ReadSSE(resp.Body, func(event []byte) error {
		d, err := parts.Add(event)
		if err == nil {
			show(d)
		}
		return err
	})
	answer := parts.Response()
	answer.RequestID = resp.Header.Get("request-id")
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err == nil && answer.StopReason == transcript.StopAborted {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && len(answer.Message.Content) == 0 {
		return nil, err
	}
	return answer, err
}

// post sends the request, and again if the service is overloaded: then no part
// of an answer has been shown.
func (c *Client) post(ctx context.Context, body []byte) (*http.Response, error) {
	var last error
	for n := range attempts {
		if n > 0 {
			select {
			case <-time.After(time.Second << n):
			case <-ctx.Done():
				return nil, errors.Join(ctx.Err(), last)
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/messages", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("content-type", "application/json")
		req.Header.Set("anthropic-version", apiVersion)
		if c.APIKey != "" {
			req.Header.Set("x-api-key", c.APIKey)
		}
		resp, err := c.HTTP.Do(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
		last = errors.Join(wire.NewAPIError(resp.StatusCode, text), err, resp.Body.Close())
		if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
			break
		}
	}
	return nil, last
}
