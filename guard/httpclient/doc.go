// Package httpclient calls a model over HTTP, with the standard library alone.
//
// [Messages] makes a [Client] for Anthropic's Messages API and its imitators, and [Chat]
// one for Chat Completions of OpenAI and its imitators:
//
//	client := httpclient.Messages("https://api.anthropic.com", os.Getenv("ANTHROPIC_API_KEY"))
//	answer, err := guard.Complete(ctx, &guard.Guard{Model: "claude-sonnet-4-5"}, s, client)
//
// A program that shows text as it arrives calls [Client.Stream] in a guard.Do. For other
// APIs of package wire, make a Client with the Format, the URL and the headers of the
// service.
//
// # Retries
//
// A Client sends a request again, a few times, after these failures:
//
//   - the connection failed, or the server ended it
//   - the status is 408, 429, or 500 and above, 529 included
//   - the stream reports an overload or an error of the server
//
// It does so only before it has shown any part of the answer. It waits for the time in
// Retry-After, as seconds or as a date. Without a time in the future it waits a second,
// and then twice as long each time. It returns other failures at once: a wait above
// [Client.MaxWait], an unknown certificate, an invalid URL or header, an exhausted quota,
// an overflow, or a refused part. Package guard cures the last two.
//
// # Secrets
//
// Errors contain no secrets: long values of [Client.Header], and of the query, the user
// name and the password of [Client.URL], become "[key]". This includes the fields of a
// [wire.APIError] and of a [url.Error].
//
// # Limits
//
// A Client follows no redirects, because they could carry the key to another host. It
// has no timeout of its own for an answer: use a context, or the timeouts of an
// [http.Transport]. It waits at most five seconds for the body of a refusal, and returns
// the refusal with the received part.
package httpclient
