package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/zyhive"
)

// The log says who has removed, put away or exported a session, and refusals are logged and
// reported to the Audit of the store: one a second.
func TestAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var refused []string
		st := session.OpenDriver(memdriver.New(nil), &session.Options{Audit: func(_ context.Context, a session.Action) {
			mu.Lock()
			defer mu.Unlock()
			if a.Name == "refuse" {
				refused = append(refused, a.Owner+": "+a.Err.Error())
			}
		}})
		defer func() { require.NoError(t, st.Close()) }()
		var log bytes.Buffer
		sv, err := serve.New(st, &serve.Options{
			Auth:     serve.Keys(map[string]serve.Principal{"alice": {Owner: "alice"}, "root": {Admin: true, Owner: "root"}}),
			Surfaces: []serve.Surface{serve.Own(), serve.Page(), zyhive.New()},
			Logger:   slog.New(slog.NewJSONHandler(&log, nil)),
		})
		require.NoError(t, err)
		call := func(status int, key, method, path string) {
			t.Helper()
			w := httptest.NewRecorder()
			var body io.Reader = http.NoBody
			if method == "POST" {
				body = strings.NewReader(`{}`)
			}
			r := httptest.NewRequestWithContext(t.Context(), method, path, body)
			r.Header.Set("X-Api-Key", key)
			r.Header.Set("Content-Type", "application/json")
			sv.ServeHTTP(w, r)
			require.Equal(t, status, w.Code, w.Body)
		}
		lines := func() (all []map[string]any) {
			for line := range bytes.Lines(log.Bytes()) {
				var l map[string]any
				require.NoError(t, json.Unmarshal(line, &l))
				all = append(all, l)
			}
			log.Reset()
			return all
		}
		alice, err := st.Scope("alice")
		require.NoError(t, err)
		for _, id := range []string{"one", "two"} {
			_, err := alice.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: id})
			require.NoError(t, err)
		}
		const at = "/v1/store/sessions/main/"
		call(http.StatusOK, "alice", "GET", at+"one")
		require.Empty(t, lines())
		call(http.StatusOK, "alice", "GET", at+"one/export")
		call(http.StatusNoContent, "alice", "POST", at+"one/trash")
		call(http.StatusNotFound, "alice", "GET", at+"one")
		call(http.StatusOK, "root", "POST", at+"one/restore")
		call(http.StatusNotFound, "alice", "DELETE", at+"none")
		call(http.StatusNoContent, "root", "DELETE", at+"one")
		call(http.StatusOK, "alice", "DELETE", "/api/sessions/main/two")
		var got [][5]any
		for _, l := range lines() {
			got = append(got, [5]any{l["action"], l["session"], l["owner"], l["admin"], l["outcome"]})
		}
		require.Equal(t, [][5]any{
			{"export", "one", "alice", false, "done"},
			{"trash", "one", "alice", false, "done"},
			{"restore", "one", "root", true, "done"},
			{"delete", "one", "root", true, "done"},
			{"delete", "two", "alice", false, "done"},
		}, got)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/store/removed", nil)
		r.Header.Set("X-Api-Key", "alice")
		sv.ServeHTTP(w, r)
		require.Equal(t, 2, strings.Count(w.Body.String(), `"rule":"hand"`), w.Body)

		for range 200 {
			call(http.StatusUnauthorized, "guess", "GET", at+"one")
		}
		require.Len(t, lines(), 1)
		time.Sleep(time.Second)
		call(http.StatusForbidden, "alice", "POST", "/v1/store/erase")
		logged := lines()
		require.Len(t, logged, 1)
		require.EqualValues(t, 199, logged[0]["others"])
		require.Equal(t, "alice", logged[0]["owner"])
		require.Len(t, refused, 2)
		require.True(t, strings.HasPrefix(refused[1], "alice: "), refused)

		time.Sleep(time.Second)
		call(http.StatusOK, "", "GET", "/page/key")
		call(http.StatusOK, "alice", "GET", "/page/key")
		require.Empty(t, lines(), "the page asks whether it needs a key")
		call(http.StatusOK, "guess", "GET", "/page/key")
		require.Len(t, lines(), 1, "guesses at the public route")
		require.Len(t, refused, 3)
		require.NoError(t, sv.Close(t.Context()))
	})
}

// The log of a refusal has no credential of the request, in whatever header it came.
func TestAuthErrorsHideCredentials(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{
		{"X-Api-Key", "other", "Authorization", "Bearer sesame+"},
		{"X-Api-Key", "sesame+"},
		{"Authorization", "DPoP sesame+"},
		{"Authorization", "Basic dXNlcjpzZXNhbWUr"}, // user:sesame+
		{"Cookie", "sid=sesame+; other=x"},
		{"X-Api-Key", "sesa", "Cookie", "sid=sesame+"},
		{"Cookie", "convolog-key=c2VzYW1lKw"},
	} {
		logged := &logbook{}
		ts, _, _ := served(t, &serve.Options{
			Surfaces: []serve.Surface{serve.Page()},
			Auth: func(r *http.Request) (serve.Principal, error) {
				return serve.Principal{}, fmt.Errorf("no key sesame+ of %q: Get https://keys/?key=sesame%%2B: refused", r.Header)
			},
			Logger: slog.New(slog.NewTextHandler(logged, nil)),
		})
		resp := call(t, "GET", ts.URL+"/v1/store/sessions", nil, headers...)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.Contains(t, logged.String(), "refused", headers)
		require.NotContains(t, logged.String(), "sesame", headers)
		require.NotContains(t, logged.String(), "me+", headers) // nor the rest of a longer one
		require.NotContains(t, logged.String(), "c2VzYW1lK", headers)
		require.NotContains(t, logged.String(), "dXNlcjpzZXNhbWUr", headers)
	}
}

// A stranger's cookies cannot lengthen the log: dots that hide a text are not hidden again.
func TestAuthErrorsStayShort(t *testing.T) {
	t.Parallel()
	logged := &logbook{}
	ts, _, _ := served(t, &serve.Options{Auth: serve.Keys(nil), Logger: slog.New(slog.NewTextHandler(logged, nil))})
	resp := call(t, "GET", ts.URL+"/v1/store/sessions", nil, "Cookie", "a=e"+strings.Repeat("; a=.", 12))
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Contains(t, logged.String(), "refused")
	require.Less(t, len(logged.String()), 1000)
}

// Whatever error Options.Auth returns, the client gets 401 and no word of it. The log has
// the error, without the key.
func TestAuthErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fs.ErrNotExist, fs.ErrInvalid, context.DeadlineExceeded, context.Canceled, errors.ErrUnsupported,
		session.ErrClosed, session.ErrBusy, &session.InputError{Member: "key", Reason: "swordfish"},
		&http.MaxBytesError{}, &serve.Problem{Status: http.StatusOK, Title: "swordfish"}, errors.New("swordfish"),
	} {
		logged := &logbook{}
		ts, _, _ := served(t, &serve.Options{
			Auth: func(*http.Request) (serve.Principal, error) {
				return serve.Principal{Admin: true}, fmt.Errorf("sesame: %w", err)
			},
			Logger: slog.New(slog.NewTextHandler(logged, nil)),
		})
		resp := call(t, "GET", ts.URL+"/v1/store/sessions", nil, "X-Api-Key", "sesame")
		body, readErr := io.ReadAll(resp.Body)
		require.NoError(t, readErr)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "%v: %s", err, body)
		require.NotContains(t, string(body), "swordfish")
		require.Contains(t, logged.String(), "...: "+err.Error())
		require.NotContains(t, logged.String(), "sesame")
	}
}
