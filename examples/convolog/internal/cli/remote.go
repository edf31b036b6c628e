package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/examples/internal/token"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A remote is a backend over the routes of package serve below /v1/store.
type remote struct {
	base  string
	token string
}

var _ backend = (*remote)(nil)

// errNoServer means that another kind of server answered.
var errNoServer = errors.New("the answer is not from a server of Convolog: is the URL right?")

func newRemote(base, secret, dir string) (*remote, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, wrong("%q is not the URL of a server or of a database: write http://... or postgres://...", base)
	}
	return &remote{strings.TrimSuffix(base, "/"), cmp.Or(secret, token.Find(dir, u))}, nil
}

// A problem is the reason why a server refused a request.
type problem struct {
	serve.Problem
	base string
}

// Error returns one line with the URL of the server and the cause.
func (p *problem) Error() string {
	text := p.base + ": " + p.Title
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	if p.Status == http.StatusUnauthorized {
		text += " (set CONVOLOG_TOKEN, or give --token)"
	}
	return text
}

// Is reports whether target is the error that a local store returns in the same case.
func (p *problem) Is(target error) bool {
	return p.Code == "NOT_FOUND" && target == fs.ErrNotExist || p.Code == "FORCE_NEEDED" && target == retain.ErrForce
}

// A body is the content of a request.
type body struct {
	media string
	name  string // the name of a file, or empty
	data  []byte
}

// medias are the media types of all successful answers.
var medias = []string{"application/json", "application/jsonl", "text/event-stream", "text/plain"}

// straight follows no redirect, as a redirect could send the token to another host.
var straight = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// open makes a request, and returns the answer if it is a success.
func (r *remote) open(ctx context.Context, method, path string, b body) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base+"/v1/store"+path, bytes.NewReader(b.data))
	if err != nil {
		return nil, err
	}
	if b.media != "" {
		req.Header.Set("Content-Type", b.media)
	}
	if b.name != "" {
		req.Header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": b.name}))
	}
	if r.token != "" {
		req.Header.Set("X-API-Key", r.token)
	}
	resp, err := straight.Do(req)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("no server answers: %w (convolog serve starts one)", err)
	}
	if err != nil {
		return nil, err
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode == http.StatusNoContent || resp.StatusCode < 300 && slices.Contains(medias, media) {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // only read
	p := problem{base: r.base}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || json.Unmarshal(data, &p.Problem) != nil || p.Code == "" || p.Code == "NO_ROUTE" {
		return nil, fmt.Errorf("%s: %s: %w", r.base, resp.Status, errNoServer)
	}
	return nil, &p
}

// ask makes a request and decodes the answer. A GET sends the members of in as parameters.
func ask[T any](ctx context.Context, r *remote, method, path string, in any) (out T, err error) {
	var b body
	switch {
	case in == nil:
	case method == http.MethodGet:
		path += "?" + parameters(in).Encode()
	default:
		b.media = "application/json"
		if b.data, err = json.Marshal(in); err != nil {
			return out, err
		}
	}
	resp, err := r.open(ctx, method, path, b)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if resp.StatusCode == http.StatusNoContent {
		return out, nil
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("%s: %w: %w", r.base, errNoServer, err)
	}
	return out, nil
}

func parameters(v any) url.Values {
	values := url.Values{}
	data, err := json.Marshal(v)
	members := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err == nil && decoder.Decode(&members) == nil {
		for name, v := range members {
			values.Set(name, fmt.Sprint(v))
		}
	}
	return values
}

func at(ref session.Ref, more string) string {
	return "/sessions/" + url.PathEscape(ref.Agent) + "/" + url.PathEscape(ref.ID) + more
}

func (r *remote) Close() error { return nil }

func (r *remote) List(ctx context.Context, want *session.ListOptions) (all []session.Info, err error) {
	const most = 500 // the largest page
	for opts := *want; ; {
		opts.Limit = most
		if want.Limit > 0 {
			opts.Limit = min(most, want.Limit-len(all))
		}
		page, err := ask[struct {
			Sessions []session.Info
			Next     string
		}](ctx, r, http.MethodGet, "/sessions", opts)
		all, opts.After = append(all, page.Sessions...), page.Next
		if err != nil || page.Next == "" || want.Limit > 0 && len(all) >= want.Limit {
			return all, err
		}
	}
}

func (r *remote) describe(ctx context.Context, ref session.Ref) (described, error) {
	return ask[described](ctx, r, http.MethodGet, at(ref, ""), nil)
}

func (r *remote) create(ctx context.Context, key session.Key, opts session.CreateOptions) (session.Info, error) {
	return ask[session.Info](ctx, r, http.MethodPost, "/sessions", struct {
		Key string `json:"key"`
		session.CreateOptions
	}{key.String(), opts})
}

func (r *remote) add(ctx context.Context, ref session.Ref, role transcript.Role, text string) (session.Appended, error) {
	return ask[session.Appended](ctx, r, http.MethodPost, at(ref, "/entries"), map[string]string{"role": string(role), "content": text})
}

func (r *remote) commit(ctx context.Context, ref session.Ref) (memory.Committed, error) {
	return ask[memory.Committed](ctx, r, http.MethodPost, at(ref, "/commit"), map[string]bool{"unanswered": true})
}

func (r *remote) title(ctx context.Context, ref session.Ref, text string) (session.Info, error) {
	return ask[session.Info](ctx, r, http.MethodPatch, at(ref, ""), map[string]string{"title": text})
}

func (r *remote) fork(ctx context.Context, ref session.Ref, entry string, opts session.CreateOptions) (session.Info, error) {
	return ask[session.Info](ctx, r, http.MethodPost, at(ref, "/fork"), struct {
		Entry string `json:"entry"`
		session.CreateOptions
	}{entry, opts})
}

func (r *remote) hide(ctx context.Context, ref session.Ref, entries []string, off bool) ([]string, error) {
	done, err := ask[transcript.Hide](ctx, r, http.MethodPost, at(ref, "/hide"), map[string]any{"entries": entries, "off": off})
	return done.Entries, err
}

func (r *remote) move(ctx context.Context, ref session.Ref, how string) error {
	return r.do(ctx, http.MethodPost, at(ref, "/"+how))
}

func (r *remote) Removals(ctx context.Context) ([]retain.Removal, error) {
	return ask[[]retain.Removal](ctx, r, http.MethodGet, "/removed", nil)
}

func (r *remote) Delete(ctx context.Context, refs ...session.Ref) (err error) {
	for _, ref := range refs {
		err = errors.Join(err, r.do(ctx, http.MethodDelete, at(ref, "")))
	}
	return err
}

func (r *remote) do(ctx context.Context, method, path string) error {
	_, err := ask[struct{}](ctx, r, method, path, nil)
	return err
}

func (r *remote) page(ctx context.Context, ref session.Ref, entry string, n int) ([]transcript.Entry, error) {
	type place struct {
		After  string `json:"after,omitempty"`
		Before string `json:"before,omitempty"`
		Last   bool   `json:"last,omitempty"`
		Limit  int    `json:"limit"`
	}
	p := place{After: entry, Limit: n}
	if n < 0 {
		p = place{Before: entry, Last: entry == "", Limit: -n}
	}
	page, err := ask[struct{ Entries []transcript.Entry }](ctx, r, http.MethodGet, at(ref, "/entries"), p)
	return page.Entries, err
}

func (r *remote) entry(ctx context.Context, ref session.Ref, id string) (transcript.Entry, error) {
	page, err := ask[struct{ Entries []transcript.Entry }](ctx, r, http.MethodGet, at(ref, "/entries/"+url.PathEscape(id)), nil)
	return first(page.Entries, err)
}

func (r *remote) PlanRetention(ctx context.Context, want retain.Policy) (retain.Plan, error) {
	return ask[retain.Plan](ctx, r, http.MethodPost, "/retention", want)
}

func (r *remote) Apply(ctx context.Context, plan retain.Plan) (retain.Report, error) {
	return ask[retain.Report](ctx, r, http.MethodPost, "/retention/apply", plan)
}

func (r *remote) PlanErase(ctx context.Context, what erase.Erasure) (erase.Plan, error) {
	return ask[erase.Plan](ctx, r, http.MethodPost, "/erase", map[string]any{
		"owner": what.Owner, "sessions": what.Sessions, "entries": what.Entries,
	})
}

func (r *remote) Erase(ctx context.Context, plan erase.Plan) (erase.Receipt, error) {
	return ask[erase.Receipt](ctx, r, http.MethodPost, "/erase/apply", plan)
}

func (r *remote) decide(ctx context.Context, ref session.Ref, entry string, verdict transcript.Verdict, _, reason string) error {
	_, err := ask[struct{}](ctx, r, http.MethodPost, at(ref, "/calls/"+url.PathEscape(entry)+"/decision"), map[string]string{"verdict": string(verdict), "reason": reason})
	return err
}

func (r *remote) health(ctx context.Context, ref session.Ref) (session.Health, error) {
	return ask[session.Health](ctx, r, http.MethodGet, at(ref, "/health"), nil)
}

func (r *remote) file(session.Info) string { return "" } // a server does not reveal its files

func (r *remote) leftovers(context.Context) ([]finding, error) { return nil, nil }

func (r *remote) repair(context.Context) error {
	return usageError("--repair needs the files: run it on the machine of the folder, with --dir")
}

func (r *remote) export(ctx context.Context, ref session.Ref, as, model string, w io.Writer) error {
	resp, err := r.open(ctx, http.MethodGet, at(ref, "/export?")+url.Values{"as": {as}, "model": {model}}.Encode(), body{})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// take sends the transcripts of a folder one by one, as a server imports single files.
// Data of an index and of other sessions does not reach the server: titles are set
// afterwards; agents, keys and parents are losses.
func (r *remote) take(ctx context.Context, name string, sessions iter.Seq[exchange.Source], opts exchange.ImportOptions, report func(convert.Result) error) error {
	if opts.For != "" || opts.Zone != nil || opts.DryRun {
		return usageError("--for, --zone and -n are for a folder: a server gives new sessions to the holder of the token")
	}
	var unread error
	files, of := convert.Files(name), map[string][]exchange.Source{}
	var order []string
	for s := range sessions {
		file := s.Info().Path
		if of[file] == nil {
			order = append(order, file)
		}
		of[file] = append(of[file], s) // an export holds many
	}
	for _, file := range order {
		s := of[file][0]
		data, err := fs.ReadFile(files, file)
		if err = cmp.Or(s.Info().Err, err); err != nil {
			unread = errors.Join(unread, fmt.Errorf("%s: %w: a server imports single files; use convolog convert %s --to native FOLDER", cmp.Or(file, s.Info().ID), err, name))
			continue
		}
		sent, lost := file, dialect.Losses(nil)
		if _, ok := s.(dialect.Session); !ok { // the array of a provider, which a server does not read
			if data, lost, err = convert.Lines(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			sent += "l" // the lines of a session
		}
		resp, err := r.open(ctx, http.MethodPost, "/import", body{"application/jsonl", path.Base(sent), data})
		if err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(file, name), err)
		}
		var results []convert.Result
		err = json.NewDecoder(bufio.NewReader(resp.Body)).Decode(&results)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		for i, one := range results {
			if len(lost) > 0 { // only the import here has noticed them
				one.Lost = lost
			}
			if i < len(of[file]) {
				if one, err = r.complete(ctx, one, of[file][i].Info()); err != nil {
					return err
				}
			}
			if err := report(one); err != nil {
				return err
			}
		}
	}
	return unread
}

// complete adds data to an imported session that its file lacks.
func (r *remote) complete(ctx context.Context, one convert.Result, s dialect.Session) (convert.Result, error) {
	about := convert.Of(s)
	one.Dialect, one.Source, one.Messages = about.Dialect, about.Source, about.Messages
	if one.Failed != nil {
		return one, nil
	}
	lose := func(what string) {
		if one.Lost == nil {
			one.Lost = dialect.Losses{}
		}
		one.Lost[what]++
	}
	if s.Agent != "" && s.Agent != one.Session.Agent {
		lose("agent")
	}
	if s.Key != "" && s.Indexed {
		want, err := session.ParseKey(s.Key)
		if got, _ := session.ParseKey(one.Key); err == nil && want != got || err != nil && got.Channel != "foreign" {
			lose("key")
		}
	}
	if s.Parent != "" {
		lose("parent")
	}
	if s.Indexed && s.Titled && one.Created {
		if _, err := r.title(ctx, one.Session, s.Title); err != nil {
			return one, err
		}
	}
	return one, nil
}
