package httpclient_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
)

// No error contains the key, even if the transport repeats the headers.
func TestRedact(t *testing.T) {
	for api, client := range clients {
		rt := &transport{}
		rt.answers = append(rt.answers, func(r *http.Request) (*http.Response, error) {
			var sent bytes.Buffer
			_ = r.Header.Write(&sent)
			return nil, fmt.Errorf("sent %s: %w", &sent, io.EOF)
		})
		c := client(rt)
		c.Attempts = 1
		_, err := c.Complete(t.Context(), request("hi"))
		require.ErrorContains(t, err, "[key]", api)
		requireClean(t, err, key)
		require.ErrorIs(t, err, io.EOF, api)
		failed, ok := errors.AsType[*url.Error](err)
		require.True(t, ok, "%s: %v", api, err)
		require.Equal(t, "Post", failed.Op)
	}
}

// requireClean checks that an error, its fields and the errors that it wraps contain no
// beginning of a secret.
func requireClean(t *testing.T, err error, secret string) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		require.NotContains(t, err.Error(), secret[:5])
		require.NotContains(t, fmt.Sprintf("%#v", err), secret[:5])
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, part := range joined.Unwrap() {
				requireClean(t, part, secret)
			}
		}
	}
}

// No answer brings the key into an error: in no field, in no form, and not cut.
func TestRedactAnswer(t *testing.T) {
	const slashed = "sk-01/23456789+abcdef"
	long := strings.Repeat("x", 280)
	for name, tt := range map[string]struct {
		status     int
		body, have string
	}{
		"message":       {401, `{"error":{"message":"wrong key %s"}}`, "wrong key [key]"},
		"code":          {401, `{"error":{"message":"bad","code":"key %s is bad"}}`, "key [key] is bad"},
		"type":          {401, `{"error":{"message":"bad","type":"%s"}}`, "[key]"},
		"param":         {401, `{"error":{"message":"bad","param":"%s"}}`, "bad"},
		"request":       {401, `{"request_id":"%s","error":{"message":"bad"}}`, "request [key]"},
		"other JSON":    {401, `{"key":"%s"}`, "[key]"},
		"page":          {502, "<html>%s", "[key]"},
		"cut page":      {502, "<h>" + long + "%s</h>", "[key]..."},
		"whole":         {200, `{"x":"%s"}`, "[key]"},
		"cut whole":     {200, `{"x":"` + long + `%s"}`, "[key]..."},
		"event":         {200, "data: {\"error\":{\"message\":\"bad\",\"code\":\"%s\"}}\n\n", "[key]"},
		"invalid event": {200, "data: " + long + "xxxx %s\n\n", "[key]..."},
	} {
		t.Run(name, func(t *testing.T) {
			for _, secret := range []string{key, slashed} {
				for _, form := range []string{secret, url.QueryEscape(secret), strings.ReplaceAll(secret, "/", `\/`)} {
					rt := &transport{}
					rt.answers = append(rt.answers, answer(tt.status, strings.NewReader(strings.ReplaceAll(tt.body, "%s", form))))
					c := via(rt, httpclient.Chat("http://model.invalid/v1", secret))
					c.Attempts = 1
					_, err := c.Complete(t.Context(), request("hi"))
					require.ErrorContains(t, err, tt.have)
					requireClean(t, err, secret)
					refusal, ok := errors.AsType[*wire.APIError](err)
					if tt.status != http.StatusOK {
						require.True(t, ok)
						require.Equal(t, tt.status, refusal.Status)
					}
				}
			}
		})
	}
}

// A key in the query of the URL is secret: in an error of the transport, and in one about
// the URL.
func TestRedactURL(t *testing.T) {
	for name, base := range map[string]string{
		"refused": "http://127.0.0.1:1/v1?alt=sse&key=" + key,
		"escaped": "http://127.0.0.1:1/v1?key=%73" + key[1:] + "&x",
		"scheme":  "127.0.0.1/v1?key=" + key,
		"invalid": "http://[::1/v1?key=" + key,
	} {
		t.Run(name, func(t *testing.T) {
			c := httpclient.Chat("", "")
			c.URL, c.Attempts = base, 1
			_, err := c.Complete(t.Context(), request("hi"))
			failed, ok := errors.AsType[*url.Error](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, failed.URL, "key=[key]")
			requireClean(t, err, key)
		})
	}
}

// The user name and the password of the URL are secret, in each form in which they are
// sent or quoted. The host is not.
func TestRedactUser(t *testing.T) {
	const name, password = "token-0123456789", "secret+/0123456789"
	for kind, user := range map[string]string{
		"name":     name,
		"password": "me:" + url.QueryEscape(password),
		"both":     name + ":" + url.QueryEscape(password),
		"escaped":  "%74" + name[1:] + "%21+",
		"raw":      name + "!+:" + password[:7] + "0123456789",
	} {
		for _, base := range []string{"http://%s@127.0.0.1:1/v1", "http://%s@127.0.0.1:1?a=b@c", "http://%s@127.0.0.1:bad/v1", "//%s@127.0.0.1/v1", "%s@127.0.0.1/v1"} {
			t.Run(kind+" "+base, func(t *testing.T) {
				rt := &transport{}
				rt.answers = append(rt.answers, func(r *http.Request) (*http.Response, error) {
					return nil, fmt.Errorf("%s sent %s: %w", r.URL, r.Header, io.EOF)
				})
				c := via(rt, httpclient.Chat("", ""))
				c.URL, c.Attempts = fmt.Sprintf(base, user), 1
				_, err := c.Complete(t.Context(), request("hi"))
				require.ErrorContains(t, err, "[key]")
				require.ErrorContains(t, err, "127.0.0.1")
				requireClean(t, err, name)
				requireClean(t, err, password)
				for _, user := range []string{name, "me:secret"} {
					requireClean(t, err, base64.StdEncoding.EncodeToString([]byte(user)))
				}
			})
		}
	}
}

// The errors that a joined error wraps remain, without secrets.
func TestRedactJoined(t *testing.T) {
	rt := &transport{}
	refused := &net.OpError{Op: "dial", Err: errors.New("refused " + key)}
	rt.answers = append(rt.answers, func(*http.Request) (*http.Response, error) {
		return nil, errors.Join(errors.New("sent "+key), fmt.Errorf("%w, %w", io.EOF, refused))
	})
	c := clients["chat"](rt)
	c.Attempts = 1
	_, err := c.Complete(t.Context(), request("hi"))
	require.ErrorContains(t, err, "sent [key]")
	require.ErrorIs(t, err, io.EOF)
	requireClean(t, err, key)
}

// A secret that begins another one leaves no end of it, and of several beginnings at a
// cut the longest is replaced.
func TestRedactLongest(t *testing.T) {
	const other = "xyz" + key + "-tail-0123456789"
	for text, want := range map[string]string{
		key + "-more-0123456789":               "[key]",
		"is " + other[:20] + "... " + other:    "is [key]... [key]",
		key[:5] + key[:9] + "...":              key[:5] + "[key]...",
		key + key[:8] + "...":                  "[key][key]...",
		key[:8] + "..." + key[:8] + ".." + ".": "[key]...[key]...",
		"xyz...":                               "xyz...",
	} {
		rt := &transport{}
		rt.answers = append(rt.answers, answer(400, strings.NewReader(`{"error":{"message":"`+text+`"}}`)))
		c := via(rt, httpclient.Chat("http://model.invalid/v1", key))
		c.Header.Set("X-More", key+"-more-0123456789 "+other)
		_, err := c.Complete(t.Context(), request("hi"))
		refusal, ok := errors.AsType[*wire.APIError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, want, refusal.Message, text)
	}
}

// The memory for a long token grows with its length, not with the square.
func TestRedactCost(t *testing.T) {
	token := strings.Repeat("abcdefgh/ijklmnop", 512)
	rt := &transport{}
	rt.answers = append(rt.answers, func(r *http.Request) (*http.Response, error) {
		return answer(400, strings.NewReader(`{"error":{"message":"`+strings.Repeat(token[:100]+"...", 100)+`"}}`))(r)
	})
	c := via(rt, httpclient.Chat("http://model.invalid/v1", token))
	var before, after runtime.MemStats
	_, err := c.Complete(t.Context(), request("hi")) // package guard compiles patterns once
	require.Error(t, err)
	runtime.ReadMemStats(&before)
	_, err = c.Complete(t.Context(), request("hi"))
	runtime.ReadMemStats(&after)
	refusal, ok := errors.AsType[*wire.APIError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, strings.Repeat("[key]...", 100), refusal.Message)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400*len(token)))
}
